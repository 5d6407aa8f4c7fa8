"""The command, called in this process, on a small model of its own."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from munkey.cli import app
from tests.deploy.inputs import encoder_loaded_once, model_in


class CommandResult(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def replace_model(words: list[str], model: Path) -> list[str]:
    """The words of a command with the model's directory in place of MODEL."""
    return [word.replace("MODEL", str(model)) for word in words]


@pytest.fixture(scope="session", autouse=True)
def _encoder_loaded_once() -> Iterator[None]:
    with encoder_loaded_once():
        yield


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return model_in(tmp_path / "model")


@pytest.fixture
def munkey(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., CommandResult]:
    """Run the command as the shell would."""

    def run(*words: object) -> CommandResult:
        monkeypatch.setattr(sys, "argv", ["munkey", *map(str, words)])
        with pytest.raises(SystemExit) as exit_info:
            app.main()
        return CommandResult(int(exit_info.value.code or 0), *capsys.readouterr())

    return run
