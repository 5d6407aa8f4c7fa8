"""The command, called in this process, on a small model of its own."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from munkey.cli import app
from tests.deploy.inputs import model_in


class Ended(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return model_in(tmp_path / "model")


@pytest.fixture
def munkey(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Ended]:
    """Run the command as the shell would."""

    def run(*words: object) -> Ended:
        monkeypatch.setattr(sys, "argv", ["munkey", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            app.main()
        return Ended(int(ended.value.code or 0), *capsys.readouterr())

    return run
