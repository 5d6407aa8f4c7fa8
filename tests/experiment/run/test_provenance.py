"""Provenance names the commit, the parameters, the versions and the device that a result comes from."""

import platform
import subprocess

from munkey.experiment.run.provenance import LIBRARIES, provenance


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


def test_it_names_the_commit_and_whether_tracked_files_were_changed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert provenance({}, "cpu")["commit"] == "not a git checkout"
    git("init", "-q")
    (tmp_path / "tracked").write_text("1")
    git("add", "tracked")
    git("commit", "-qm", "one")
    (tmp_path / "untracked").write_text("1")
    head = git("rev-parse", "HEAD")
    assert provenance({}, "cpu")["commit"] == head
    (tmp_path / "tracked").write_text("2")
    assert provenance({}, "cpu")["commit"] == f"{head}+changes"


def test_without_git_there_is_no_commit(monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert provenance({}, "cpu")["commit"] == "not a git checkout"


def test_it_names_the_version_of_python_and_of_every_library(monkeypatch):
    monkeypatch.setattr("munkey.experiment.run.provenance.LIBRARIES", (*LIBRARIES, "no-such-library"))
    versions = provenance({}, "cpu")["versions"]
    assert set(versions) == {"python", "no-such-library", *LIBRARIES}
    assert versions["python"] == platform.python_version()
    assert versions["no-such-library"] == "not installed"
    assert "not installed" not in [versions[library] for library in LIBRARIES]
