"""The command, called in this process, on a small model of its own."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from munkey.cli import app
from tests.deploy.inputs import model_in


class CommandResult(NamedTuple):
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
) -> Callable[..., CommandResult]:
    """Run the command as the shell would."""

    def run(*words: object) -> CommandResult:
        monkeypatch.setattr(sys, "argv", ["munkey", *map(str, words)])
        with pytest.raises(SystemExit) as exit_info:
            app.main()
        return CommandResult(int(exit_info.value.code or 0), *capsys.readouterr())

    return run
