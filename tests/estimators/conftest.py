"""What the tests of estimators share."""

from collections.abc import Iterator

import pytest

from tests.deploy.inputs import encoder_loaded_once


@pytest.fixture(scope="session", autouse=True)
def _encoder_loaded_once() -> Iterator[None]:
    with encoder_loaded_once():
        yield
