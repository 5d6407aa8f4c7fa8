"""A digest changes with the code that a result depends on, and with nothing else."""

import itertools
from textwrap import dedent

import pytest

from munkey import fingerprint
from munkey.fingerprint import PACKAGE, closure, digest
from tests.conftest import ROOT

CODE = '''
"""Adds."""

def add(a, b):
    """The sum."""
    return a + b  # of both

class Sum:
    """Something."""
    zero = 0
'''


@pytest.fixture
def digest_of(tmp_path):
    """The digest of a script of this text."""
    folders = (tmp_path / str(number) for number in itertools.count())

    def of(text):
        folder = next(folders)
        folder.mkdir()
        (folder / "script.py").write_text(dedent(text))
        return digest(folder / "script.py")

    return of


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package `munkey` of one's own: give files, get the folder."""
    folder = tmp_path / "munkey"
    monkeypatch.setattr(fingerprint, "PACKAGE", folder)

    def write(nested=(), **files):
        for name, text in (files | dict(nested)).items():
            path = folder / f"{name}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(dedent(text))
        return folder

    return write


def names(found):
    return {path.name for path in found}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("  # of both", ""),
        ("# of both", "# of these two"),
        ("The sum.", "The sum of two numbers."),
        ('    """The sum."""\n', ""),
        ('    """Something."""\n', ""),
        ('"""Adds."""', ""),
        ("a + b", "(a\n            + b)"),
        ("(a, b)", "( a,b )"),
        ("\nclass", "\n\n\nclass"),
    ],
)
def test_comments_docstrings_and_formatting_do_not_count(digest_of, old, new):
    assert old in CODE
    assert digest_of(CODE.replace(old, new)) == digest_of(CODE)


@pytest.mark.parametrize(
    ("old", "new"), [("a + b", "a - b"), ("zero = 0", "zero = 1"), ("zero = 0", 'zero = "0"'), ("add", "plus")]
)
def test_code_counts(digest_of, old, new):
    assert old in CODE
    assert digest_of(CODE.replace(old, new)) != digest_of(CODE)


def test_a_text_that_is_not_a_docstring_counts(digest_of):
    assert digest_of("def f():\n    return 'a'") != digest_of("def f():\n    return 'b'")
    assert digest_of("x = 1\n'''a'''\nx = 2") != digest_of("x = 1\n'''a'''\nx = 3")


def test_the_closure_follows_imports_at_any_depth_and_inside_functions(package):
    folder = package(
        a="import munkey.b\nimport numpy",
        b="def f():\n    from munkey import c\n    return c",
        c="from munkey.d import thing as other",
        d="thing = 1",
        e="import munkey.a",
    )
    assert names(closure(folder / "a.py")) == {"b.py", "c.py", "d.py"}


def test_what_only_types_need_stays_out_but_its_alternative_counts(package):
    folder = package(
        a="""
        from typing import TYPE_CHECKING
        from munkey.b import thing
        if TYPE_CHECKING:
            from munkey.c import Thing
        else:
            from munkey.d import Thing
        """,
        b="thing = 1",
        c="Thing = 1",
        d="Thing = 2",
    )
    assert names(closure(folder / "a.py")) == {"b.py", "d.py"}


def test_modules_that_import_each_other_are_followed_once(package):
    folder = package(a="import munkey.b", b="import munkey.a")
    assert names(closure(folder / "a.py")) == {"a.py", "b.py"}


def test_a_package_counts_with_its_init_file(package):
    folder = package(
        {"data/__init__": "load = 1", "data/digits": "import munkey.data"}, a="from munkey.data import load"
    )
    assert closure(folder / "a.py") == {folder / "data/__init__.py"}
    assert closure(folder / "data/digits.py") == {folder / "data/__init__.py"}


def test_an_edited_module_changes_the_digest_of_what_uses_it_only(package):
    def digests(value):
        folder = package(user="from munkey.used import value", used=f"value = {value}", other="x = 1")
        for known in (fingerprint.closure, fingerprint._tree):
            known.cache_clear()
        return digest(folder / "user.py"), digest(folder / "other.py")

    (user, other), (user_edited, other_edited) = digests(1), digests(2)
    assert user != user_edited
    assert other == other_edited


def test_a_registrys_module_counts_where_it_is_named(package):
    folder = package(script="x = 1", cf="y = 1", ssd="y = 2")
    assert digest(folder / "script.py", folder / "cf.py") != digest(folder / "script.py", folder / "ssd.py")
    assert digest(folder / "script.py", folder / "cf.py") != digest(folder / "script.py")


@pytest.mark.parametrize(
    ("script", "used", "unused"),
    [
        (
            "train.py",
            {"train.py", "models.py", "memory.py", "images.py", "system.py"},
            {"metrics.py", "tables.py", "cf.py"},
        ),
        ("evaluate.py", {"evaluate.py", "models.py", "memory.py"}, {"train.py", "metrics.py", "munkey.py"}),
        ("metrics.py", {"metrics.py", "forget.py", "files.py"}, {"train.py", "models.py", "evaluate.py"}),
        ("tables.py", {"tables.py"}, {"metrics.py", "models.py"}),
    ],
)
def test_scripts_depend_on_the_modules_that_make_their_results(script, used, unused):
    found = names(closure(ROOT / "workflow/scripts" / script))
    assert used <= found
    assert not unused & found


def test_no_result_depends_on_the_check_of_parameters_or_the_job_around_it():
    for script in (ROOT / "workflow/scripts").glob("*.py"):
        assert not {"params.py", "runtime.py"} & names(closure(script))


def test_a_method_depends_on_the_training_loop_it_imports_when_it_runs():
    assert PACKAGE / "train.py" in closure(PACKAGE / "unlearn/cf.py")
    assert PACKAGE / "train.py" not in closure(PACKAGE / "unlearn/munkey.py")
