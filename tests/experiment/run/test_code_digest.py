"""A digest changes with the code that a result depends on, and with nothing else."""

import ast
import itertools
import os
import subprocess
import sys

import grimp
import pytest

from munkey.core import plugins
from munkey.core.files import read_json, write_json
from munkey.experiment.run import code_digest
from munkey.experiment.run.code_digest import KNOWN, NO_INFLUENCE, PACKAGE, Package, Sources, digest, module_of
from munkey.models.family import FAMILIES
from munkey.unlearn.contract import METHODS
from tests.conftest import ROOT
from tests.plugins import written

CODE = '''
"""Adds."""

def add(a, b):
    """The sum."""
    return a + b  # of both

class Sum:
    """Something."""
    zero: int = 0
'''
USER = "from toy.sums import Sum, add\nadd(Sum, 1)"


@pytest.fixture
def sources(tmp_path):
    """The sources of a package `toy` with these modules."""
    folders = (tmp_path / str(number) for number in itertools.count())

    def make(modules):
        folder = written(next(folders), {f"{name}.py": text for name, text in modules.items()})
        return Sources({"toy": Package(folder)})

    return make


@pytest.mark.parametrize(
    ("old", "new", "counts"),
    [
        ("  # of both", "", False),
        ("The sum.", "The sum of two numbers.", False),
        ('    """The sum."""\n', "", False),
        ('"""Something."""', "pass", False),
        ('"""Adds."""', "", False),
        ("a + b", "(a\n            + b)", False),
        ("(a, b)", "( a,b )", False),
        ("(a, b)", "(a: int, b: 'float') -> float", False),
        ("\nclass", "\n\n\nclass", False),
        ("\nclass", "total: int\nclass", False),
        ("a + b", "a - b", True),
        ("zero: int = 0", "zero: int = 1", True),
        ("zero: int = 0", 'zero: int = "0"', True),
        ("zero: int", "zero: float", True),
        ("zero: int = 0", "zero: int", True),
        ("(a, b)", "(a, b=1)", True),
        ("def add", "@print\ndef add", True),
        ("return a", "x: int = 1\n    return a", True),
    ],
)
def test_code_counts_but_comments_docstrings_formatting_and_annotations_of_functions_do_not(sources, old, new, counts):
    assert old in CODE
    before, after = (sources({"user": USER, "sums": text}) for text in (CODE, CODE.replace(old, new)))
    for module in ("toy.sums", "toy.user"):  # itself, and what imports it
        assert (before.digest([module]) != after.digest([module])) == counts


def test_annotations_of_variables_do_not_count(sources):
    plain = sources({"a": "LIMIT = 3\ndef f():\n    x = LIMIT\n    return x"})
    typed = sources({"a": "LIMIT: int = 3\ndef f():\n    x: float\n    x: float = LIMIT\n    return x"})
    assert plain.digest(["toy.a"]) == typed.digest(["toy.a"])


def test_what_is_imported_counts_at_any_depth_and_inside_functions_with_the_packages_that_it_lies_in(sources):
    made = sources({
        "a": "import toy.b\nimport numpy\ndef f(x):\n    return toy.b.f(x)",
        "b": "async def f(x):\n    from toy.c import inner\n    return inner.f(x)",
        "c/__init__": "from toy.d import thing as other",
        "c/inner": "f = 1",
        "d": "thing = 1",
        "e": "import toy.a",
        "__init__": "",
    })  # fmt: skip
    assert sorted(made.closure(["toy.a"])) == ["toy.a", "toy.b", "toy.c", "toy.c.inner", "toy.d"]
    assert made.digest(["toy.c", "toy.a"]) == made.digest(["toy.a"]) != made.digest(["toy.e"])


def test_a_module_can_be_moved_and_renamed_without_a_trace(sources):
    before = sources({
        "__init__": "",
        "a": "from toy import tools\nfrom toy.core.sums import ZERO\nprint(tools.twice(2), ZERO)",
        "tools": "from toy.core import sums\nREGISTRY = 'toy.core'\ndef twice(x):\n    return sums.add(x, x)",
        "core/sums": "ZERO = 0\ndef add(a, b): return a + b",
        "core/__init__": "",
    })  # fmt: skip
    after = sources({
        "a": "from toy.addition.plus import ZERO\nfrom toy.math import double as tools\nprint(tools.twice(2), ZERO)",
        "math/double": "REGISTRY = 'toy.addition'\ndef twice(x):\n    import toy.addition.plus as sums\n"
        "    return sums.add(x, x)",
        "addition/plus": "ZERO = 0\ndef add(a, b): return a + b",
        "addition/__init__": "",
    })  # fmt: skip
    assert after.digest(["toy.a"]) == before.digest(["toy.a"])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("from toy.a import load", "from toy.b import load"),
        ("from toy import a as load", "from toy import b as load"),
        ("from toy.a import load, save", "from toy.a import load as save, save as load"),
        ("from toy.a import load as x; from toy.b import load as y", "from toy.b import load as x; from toy.a import load as y"),  # noqa: E501
        ("from numpy import sqrt", "from math import sqrt"),
    ],
)  # fmt: skip
def test_names_cannot_be_exchanged_unnoticed(sources, one, other):
    files = {"a": "def load(): return 1\nsave = 2", "b": "def load(): return 2", "c": "from toy import a, b"}
    digests = {sources(files | {"d": f"from toy import c\n{text}"}).digest(["toy.d"]) for text in (one, other)}
    assert len(digests) == 2


def test_what_only_types_need_stays_out_but_its_alternative_counts(sources):
    code = "if TYPE_CHECKING:\n    from toy.c import Thing\nelse:\n    from toy.d import Thing\nif x: pass"
    made = sources({"a": code, "c": "Thing = 1", "d": "Thing = 2"})
    assert sorted(made.closure(["toy.a"])) == ["toy.a", "toy.d"]


def test_modules_of_no_influence_are_not_followed_and_exist():
    written_out = {".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts) for path in PACKAGE.rglob("*.py")}
    assert {name.removesuffix(".__init__") for name in written_out} >= NO_INFLUENCE
    train = Sources({"munkey": Package(PACKAGE)}).closure(map(module_of, FAMILIES.values()))
    assert not NO_INFLUENCE.intersection(train) and "munkey.training.loop" in train


# Roots


def test_roots_are_modules_functions_classes_methods_and_objects():
    family, method = FAMILIES["munkey"], METHODS["scrub"]
    module = "munkey.models.families.munkey"
    for root in (family, type(family), family.train, type(family).train):
        assert digest(root) == digest(module)
    assert digest(method.run) == digest(method.settings) == digest("munkey.unlearn.methods.scrub") != digest(module)
    assert digest(family, method.run) == digest(method.run, family)
    with_base = {"munkey.models.family", "munkey.models.networks.munkey", "munkey.core.gpu", module}
    assert with_base <= set(Sources({"munkey": Package(PACKAGE)}).closure([module]))


@pytest.mark.parametrize("root", ["munkey.nothing", "numpy", len, None, 3, "munkey:f"])
def test_a_root_that_is_elsewhere_is_refused(root):
    with pytest.raises(LookupError, match="neither a module of munkey nor one of a plug-in"):
        digest(root)


def test_the_digest_is_the_same_in_every_process():
    assert {in_a_process(ROOT, PYTHONHASHSEED=seed) for seed in ("1", "2")} == {digest(MUNKEY)}
    assert len(digest(MUNKEY)) == 16


MUNKEY = "munkey.models.families.munkey"


def in_a_process(folder, **environment):
    """The digest of MUNKEY's family as a process in a folder prints it."""
    code = f"from munkey.experiment.run.code_digest import digest; print(digest({MUNKEY!r}))"
    environment = os.environ | {"PYTHONPATH": str(PACKAGE.parent)} | environment
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_digests_are_kept_as_long_as_no_file_changes_and_computed_where_that_file_is_damaged(tmp_path):
    assert in_a_process(tmp_path) == digest(MUNKEY) and list(tmp_path.iterdir()) == []  # no folder of Snakemake's
    (tmp_path / KNOWN.parent).mkdir()
    in_a_process(tmp_path)
    written = read_json(tmp_path / KNOWN)
    assert written["digests"] == {MUNKEY: digest(MUNKEY)}
    for state, expected in ((written["state"], "kept"), ("other", digest(MUNKEY))):
        write_json(tmp_path / KNOWN, {"state": state, "digests": {MUNKEY: "kept"}})
        assert in_a_process(tmp_path) == expected


@pytest.mark.parametrize("content", ["{}", "[]", '{"state": 1}', "no JSON"])
def test_a_file_of_kept_digests_in_another_form_is_made_anew(content, tmp_path):
    (tmp_path / KNOWN.parent).mkdir()
    (tmp_path / KNOWN).write_text(content)
    assert in_a_process(tmp_path) == digest(MUNKEY)


def test_what_editors_leave_beside_modules_is_passed_over(sources):
    made = sources({"sums": CODE})
    state, folder = made.state(), made.files["toy.sums"].parent
    (folder / ".#sums.py").symlink_to("me@here.1")  # of a file that is not saved yet
    (folder / "backup.py").mkdir()
    assert Sources({"toy": Package(folder)}).state() == state


def test_every_edit_of_a_file_and_every_version_of_a_plug_in_is_another_state(with_plugins):
    """Also an edit that changes no digest."""
    states = [with_plugins(**edit).state() for edit in ({}, {"last": "x = 1"}, {"last": "x = 1  #"}, {"new": ""})]
    assert len(set(states)) == 4
    folder = with_plugins()._packages["shop"].place
    one, other = (Sources({"shop": Package(folder, origin)}).state() for origin in ("shop 1.0", "shop 1.1"))
    assert one == Sources({"shop": Package(folder, "shop 1.0")}).state() != other


# Plug-ins

PLUGIN = {
    "toy/__init__.py": "",
    "toy/tools.py": "def tune(x):\n    return x",
    "toy/other.py": "from toy import tools",
    "shop/__init__.py": "",
    "shop/mine.py": "from toy.tools import tune\ndef mine(x):\n    from .further import more\n    return tune(more(x))",
    "shop/further.py": "from . import last\n\n\ndef more(x):\n    return last.plus(x)\n",
    "shop/last.py": "def plus(x):\n    return x + 1\n",
    "shop/unused.py": "",
    "alone.py": "import toy.tools",
}


@pytest.fixture
def with_plugins(tmp_path):
    def make(origin="shop 1.0", **edits):
        folder = written(
            tmp_path / str(len(list(tmp_path.iterdir()))), PLUGIN | {f"shop/{k}.py": v for k, v in edits.items()}
        )
        places = {"toy": Package(folder / "toy"), "shop": Package(folder / "shop", origin)}
        return Sources(places | {"alone": Package(folder / "alone.py", "alone 1.0")})

    return make


def test_a_plug_in_is_followed_within_its_package_and_into_this_one(with_plugins):
    made = with_plugins()
    assert sorted(made.closure(["shop.mine"])) == ["shop.further", "shop.last", "shop.mine", "toy.tools"]
    assert sorted(made.closure(["alone"])) == ["alone", "toy.tools"]


@pytest.mark.parametrize(
    ("edit", "changed"),
    [
        ({"last": "def plus(x):\n    return x + 2\n"}, {"shop.mine"}),
        ({"last": 'def plus(x):\n    """One more."""\n    return x + 1\n'}, set()),
        ({"unused": "x = 1"}, set()),
        ({"origin": "shop 1.1"}, {"shop.mine", "shop.compiled"}),
    ],
)
def test_an_edit_or_a_new_version_of_a_plug_in_changes_the_digest_of_what_uses_it_alone(with_plugins, edit, changed):
    """Of code that is not Python, the version counts."""
    roots = ["shop.mine", "shop.compiled", "alone", "toy.other"]
    before, after = with_plugins(), with_plugins(**edit)
    assert {root for root in roots if before.digest([root]) != after.digest([root])} == changed


def test_plug_ins_are_found_by_what_they_announce_and_not_imported(tmp_path, monkeypatch):
    """One in a folder, one in a namespace and one in a file; what is announced but not there is left out."""
    files = dict.fromkeys(["shop9/__init__.py", "company9/tools/__init__.py", "alone9.py"], "raise RuntimeError")
    announced = "a = shop9.mine\nb = company9.tools.mine\nc = alone9\nd = missing9.mine\n"
    metadata = {"METADATA": "Name: shop9\nVersion: 1.0\n", "entry_points.txt": f"[munkey.unlearn.methods]\n{announced}"}
    written(tmp_path, files | {f"shop9-1.0.dist-info/{name}": text for name, text in metadata.items()})
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(plugins, "installed", plugins.installed.__wrapped__)
    assert code_digest.plugin_packages() == {
        "shop9": Package(tmp_path / "shop9", "shop9 1.0"),
        "company9.tools": Package(tmp_path / "company9/tools", "shop9 1.0"),
        "alone9": Package(tmp_path / "alone9.py", "shop9 1.0"),
    }


# This project


def test_all_modules_of_this_project_import_what_grimp_says_that_they_do():
    made = Sources({"munkey": Package(PACKAGE)})
    graph = grimp.build_graph("munkey", exclude_type_checking_imports=True, cache_dir=None)
    packages = {name for name, path in made.files.items() if path.name == "__init__.py"}
    for module in NO_INFLUENCE:
        for imported in graph.find_modules_directly_imported_by(module):
            graph.remove_import(importer=module, imported=imported)
    for module in made.files.keys() - packages - NO_INFLUENCE:
        expected = graph.find_upstream_modules(module) | {module}
        assert {*made.closure([module]), module} - packages == expected - packages - NO_INFLUENCE, module


def test_the_draws_of_a_run_do_not_hang_on_audits_and_its_selection_not_on_tables():
    made = Sources({"munkey": Package(PACKAGE)})
    assert not [name for name in made.closure(["munkey.jobs.forget"]) if ".audits." in name]
    assert not [name for name in made.closure(["munkey.jobs.search"]) if ".report." in name]


def test_settings_check_values_and_compute_none():
    """They are said to have no influence: a property that computes something would have one."""
    classes = [node for node in ast.parse((PACKAGE / "settings.py").read_text()).body if isinstance(node, ast.ClassDef)]
    methods = [node for each in classes for node in each.body if isinstance(node, ast.FunctionDef)]
    for method in methods:
        assert any("validator" in ast.unparse(decorator) for decorator in method.decorator_list), method.name
        assert [ast.unparse(node) for node in ast.walk(method) if isinstance(node, ast.Return)] == ["return self"]
