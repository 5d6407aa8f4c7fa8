"""Provenance names the commit, the parameters, the versions and the device that a result comes from."""

import platform
import subprocess

import pytest

from munkey.core.plugins import Package
from munkey.experiment.run import provenance as code
from munkey.experiment.run.provenance import LIBRARIES, provenance
from tests.plugins import written


def git(*args):
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    process = subprocess.run(["git", *identity, *args], check=True, capture_output=True, text=True)
    return process.stdout.strip()


def test_the_digest_of_parameters_depends_on_their_values_and_not_on_their_order():
    def digest(settings):
        return provenance(settings, "cpu")["params_digest"]

    assert digest({"a": 1, "b": {"c": 2, "d": 3}}) == digest({"b": {"d": 3, "c": 2}, "a": 1})
    assert digest({"a": 1}) != digest({"a": 2})
    assert digest({}) == "44136fa355b3678a"  # the first 16 hex digits of SHA-256 of "{}"


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A folder that is not a git checkout yet, and beside it one with a package that holds a plug-in."""
    folder = written(tmp_path / "project", {"tracked": "1", ".gitignore": "*.pyc\n"})
    shop = Package(written(tmp_path / "plug-in", {"shop/__init__.py": ""}) / "shop", "shop 1.0")
    monkeypatch.setattr(code, "find_plugin_packages", lambda: {"shop": shop})
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    monkeypatch.chdir(folder)
    return folder


def commit():
    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "one")
    return git("rev-parse", "HEAD")


@pytest.mark.parametrize(
    ("file", "changed"),
    [
        ("notes.md", False),
        ("src/munkey/unlearn/methods/mine.pyc", False),
        ("tracked", True),
        ("src/munkey/unlearn/methods/mine.py", True),
        ("workflow/presets/mine.yaml", True),
        ("../plug-in/shop/mine.py", True),
    ],
)
def test_provenance_names_the_commit_and_whether_code_was_changed_or_is_not_tracked(
    file, changed, checkout, monkeypatch
):
    assert provenance({}, "cpu")["commit"] == "not a git checkout"
    head = commit()
    monkeypatch.chdir("../plug-in")
    commit()
    monkeypatch.chdir(checkout)
    assert provenance({}, "cpu")["commit"] == head
    written(checkout, {file: "2"})
    assert provenance({}, "cpu")["commit"] == head + "+changes" * changed


def test_without_git_there_is_no_commit(monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert provenance({}, "cpu")["commit"] == "not a git checkout"


def test_provenance_names_the_version_of_python_and_of_every_library(monkeypatch):
    monkeypatch.setattr(
        "munkey.experiment.run.provenance.LIBRARIES", (*LIBRARIES, "no-such-library")
    )
    versions = provenance({}, "cpu")["versions"]
    assert set(versions) == {"python", "no-such-library", *LIBRARIES}
    assert versions["python"] == platform.python_version()
    assert versions["no-such-library"] == "not installed"
    assert "not installed" not in [versions[library] for library in LIBRARIES]
