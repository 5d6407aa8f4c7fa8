"""The digest of a job that uses a plug-in holds the plug-in's own definitions, and the version of its distribution."""

import os
import subprocess
import sys
from textwrap import dedent

import pytest

from munkey.experiment.run import code_digest
from munkey.experiment.run.code_packages import Package
from tests.conftest import ROOT
from tests.plugins import written

FILES = {
    "script.py": "from munkey.tools import find\nfind(1)",
    "munkey/unlearn/contract.py": "def method(name):\n    return name",
    "munkey/tools.py": "def find(x):\n    return x\n\n\ndef tune(x):\n    return x",
    "munkey/builtin.py": "from munkey.tools import tune\n\n\ndef builtin(x):\n    return tune(x)",
    "shop/__init__.py": "",
    "shop/mine.py": '''
        from munkey.unlearn.contract import method
        from munkey.tools import tune
        from shop.helpers import scaled

        @method("mine")
        def mine(system):
            """Mine."""
            from .further import more

            return tune(more(scaled(2)))
        ''',
    "shop/helpers.py": "FACTOR = 3\n\n\ndef scaled(x):\n    return FACTOR * x\n\n\ndef unused(x):\n    return x\n",
    "shop/further.py": "from . import last\n\n\ndef more(x):\n    return last.plus(x)\n",
    "shop/last.py": "def plus(x):\n    return x + 1\n",
}


@pytest.fixture
def counted(tmp_path, monkeypatch):
    """The digests of a script with a method of the plug-in and with munkey's own, and what counts for the first."""

    def of(files, root="shop.mine:mine", *, place="shop", origin="shop 1.0"):
        number = len(list(tmp_path.iterdir()))
        folder = written(tmp_path / str(number), {name: dedent(text) for name, text in files.items()})
        plugin = Package(root.rpartition(":")[0].partition(".")[0], folder / place, origin)
        monkeypatch.setattr(code_digest, "of_plugins", lambda _: [plugin])
        script, package = folder / "script.py", folder / "munkey"
        digests = [code_digest.digest(script, each, package=package) for each in (root, "munkey.builtin:builtin")]
        return digests, code_digest.explain(script, root, package=package)

    return of


def test_the_definitions_of_the_plug_in_are_followed_wherever_it_imports_them(counted):
    _, found = counted(FILES)
    assert found == [
        "munkey.tools:find", "munkey.tools:tune", "shop.further:more", "shop.helpers:FACTOR", "shop.helpers:scaled",
        "shop.last:plus", "shop.mine:mine",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("file", "old", "new", "counts"),
    [
        ("mine", "scaled(2)", "scaled(3)", True),
        ("helpers", "FACTOR = 3", "FACTOR = 4", True),
        ("further", "plus(x)", "plus(x + 1)", True),
        ("last", "x + 1", "x + 2", True),
        ("mine", '@method("mine")', '@method("other")', False),
        ("mine", '"""Mine."""', '"""Ours."""', False),
        ("helpers", "return FACTOR", "# why\n    return FACTOR", False),
        ("helpers", "    return x\n", "    return -x\n", False),
    ],
)
def test_an_edit_of_the_plug_in_changes_the_digest_of_what_uses_it_alone(counted, file, old, new, counts):
    text = FILES[f"shop/{file}.py"]
    assert old in text
    (before, own), _ = counted(FILES)
    (after, still_own), _ = counted(FILES | {f"shop/{file}.py": text.replace(old, new)})
    assert (after != before) == counts
    assert still_own == own


def test_a_new_version_changes_the_digest_of_what_uses_it_alone(counted):
    (before, own), _ = counted(FILES)
    (after, still_own), _ = counted(FILES, origin="shop 1.1")
    assert after != before and still_own == own


def test_of_code_that_is_not_python_the_version_counts(counted):
    (before, own), found = counted(FILES, "shop.compiled:mine")
    (after, still_own), _ = counted(FILES, "shop.compiled:mine", origin="shop 1.1")
    assert found == ["munkey.tools:find"]
    assert after != before and still_own == own


def test_a_plug_in_may_be_one_file(counted):
    _, found = counted(
        FILES | {"alone.py": "def mine(x):\n    return own(x)\n\n\ndef own(x):\n    return x\n"},
        "alone:mine",
        place="alone.py",
    )
    assert found == ["alone:mine", "alone:own", "munkey.tools:find"]


def test_what_is_neither_munkeys_nor_a_plug_ins_is_refused(counted):
    with pytest.raises(LookupError, match="functools:partial is defined neither in munkey nor in the package of"):
        counted(FILES, "functools:partial", place="shop")


def test_installed_packages_are_found_by_what_they_announce(tmp_path):
    """One in a folder, one in a namespace and one in a file; what is announced but not there is left out."""
    announced = "a = shop.mine\nb = company.tools.mine\nc = alone\nd = missing.mine\n"
    files = dict.fromkeys(["shop/__init__.py", "company/tools/__init__.py", "alone.py"], "raise RuntimeError")
    metadata = {"METADATA": "Name: shop\nVersion: 1.0\n", "entry_points.txt": f"[munkey.unlearn.methods]\n{announced}"}
    written(tmp_path, files | {f"shop-1.0.dist-info/{name}": text for name, text in metadata.items()})
    show = "print(*(f'{each.name}={each.place.name}' for each in of_plugins('munkey')))"
    code = f"from munkey.experiment.run.code_packages import of_plugins\n{show}"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": f"{ROOT / 'src'}:{tmp_path}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ["shop=shop", "company.tools=tools", "alone=alone.py"], done.stderr
