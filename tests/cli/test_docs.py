"""The commands in docs/serving.md run in the order in which they are printed."""

import re
import shlex

import pytest

from munkey.cli import output
from tests.conftest import ROOT
from tests.deploy.small import picture_in
from tests.pages import blocks


def test_the_commands_run_as_printed(munkey, model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    picture_in(tmp_path)
    [commands] = blocks("serving", "sh", "The command `munkey`")
    for line in commands.splitlines():
        command, *words = shlex.split(line)
        ended = munkey(*words)
        assert (command, ended.code) == ("munkey", 0), ended.err
    assert munkey("inspect", model, "--json").json["samples"] == 22
    assert (tmp_path / "receipt.html").exists()


@pytest.mark.parametrize("code", [output.FAILED, output.BAD_INPUT, output.LOCKED, output.MACHINE])
def test_the_codes_are_those_of_the_help(code, munkey):
    page = (ROOT / "docs/serving.md").read_text()
    [sentence] = re.findall(rf"^\| {code} \| (.*) \|$", page, re.MULTILINE)
    assert f"  {code}  {sentence}\n" in munkey("--help").out
