"""A digest changes with the code that a result depends on, and with nothing else."""

import ast
import os
import subprocess
import sys

import grimp
import pytest

from munkey.core import plugins
from munkey.core.files import read_json, write_json
from munkey.core.plugins import Package, find_plugin_packages
from munkey.experiment.run import code_digest
from munkey.experiment.run.code_digest import KNOWN, NO_INFLUENCE, PACKAGE, Code, digest
from munkey.models.family import FAMILIES
from munkey.unlearn.contract import METHODS
from tests.conftest import ROOT
from tests.plugins import written

MUNKEY = "munkey.models.families.munkey"
JOBS = sorted(f"munkey.jobs.{path.stem}" for path in (PACKAGE / "jobs").glob("[!_]*.py"))
JOBS += sorted(
    f"munkey.studies.{path.parent.name}.{path.stem}"
    for path in (PACKAGE / "studies").glob("*/*.py")
    if path.stem in ("figure", "jobs", "page", "table_jobs", "tables")
)

ROOTS = [
    *JOBS,
    *(f"munkey.models.families.{name}" for name in ("munkey", "vit", "knn")),
    "munkey.unlearn.methods.cf",
]

# An edit of a module


def digests_after(edit, module, folder):
    """The digest of each root, with a module as another text has it."""
    code = Code({})
    file = folder / f"{len(list(folder.iterdir()))}.py"
    file.write_text(edit(code.files[module].read_text()))
    code.files[module] = file
    return {root: code.compute_digest([root]) for root in ROOTS}


def test_an_edit_changes_the_digests_of_the_modules_that_import_it_directly_or_not(tmp_path):
    before = digests_after(lambda text: text, "munkey.training.loop", tmp_path)
    after = digests_after(lambda text: f"{text}\nNEW = 1\n", "munkey.training.loop", tmp_path)
    changed = set()
    for root in ROOTS:
        if before[root] != after[root]:
            changed.add(root.rpartition(".")[2])
    assert {"munkey", "vit", "cf"} <= changed
    assert not changed & {"knn", "data", "keys", "forget", "tables"}


CODE = '''
"""Adds."""

def add(a, b):
    """The sum."""
    return a + b  # of both

class Sum:
    """Something."""
    zero: int = 0
'''


@pytest.mark.parametrize(
    ("old", "new", "counts"),
    [
        ("  # of both", "", False),
        ("The sum.", "The sum of two numbers.", False),
        ('    """The sum."""\n', "", False),
        ('"""Something."""\n', "\n", False),
        ('"""Adds."""', "", False),
        ("a + b", "(a\n            + b)", False),
        ("\nclass", "\n\n\nclass", False),
        ("a + b", "a - b", True),
        ("zero: int = 0", "zero: int = 1", True),
        ("zero: int", "zero: float", True),
        ("(a, b)", "(a, b=1)", True),
        ("return a", "'no docstring'\n    return a", True),
    ],
)
def test_code_changes_a_digest_but_comments_docstrings_and_formatting_do_not(
    old, new, counts, tmp_path
):
    assert old in CODE
    before = digests_after(lambda _: CODE, "munkey.training.loop", tmp_path)
    after = digests_after(lambda _: CODE.replace(old, new), "munkey.training.loop", tmp_path)
    assert (before[MUNKEY] != after[MUNKEY]) == counts


def test_imports_inside_functions_and_packages_are_in_a_digest_and_those_for_types_are_not():
    code = Code({})
    closure = code.find_closure([MUNKEY])
    for name in ("munkey.models", "munkey.models.family", "munkey.models.networks.munkey", MUNKEY):
        assert name in closure
    assert "munkey.training.loop" in closure  # inside `train`
    for_types = "if TYPE_CHECKING:\n    from munkey.models.networks.vit import ViTArchitecture"
    assert for_types in code.files["munkey.models.system"].read_text()
    assert "munkey.models.networks.vit" not in code.find_closure(["munkey.models.system"])


def test_a_module_that_does_not_parse_changes_no_digest_of_others(monkeypatch):
    """It may be a method that somebody is writing, while jobs of others start."""
    code = Code({})
    before = {module: code.find_closure([module]) for module in code.files}

    def refuse(*_, **__):
        raise grimp.exceptions.SourceSyntaxError("my_method.py", 1, "def")

    monkeypatch.setattr(grimp, "build_graph", refuse)
    code = Code({})
    for module in before.keys() - NO_INFLUENCE:
        assert set(code.find_closure([module])) == set(before[module]), module


def test_modules_without_influence_exist_and_are_in_no_digest():
    code = Code({})
    assert code.files.keys() >= NO_INFLUENCE
    assert not NO_INFLUENCE.intersection(code.find_closure([*JOBS, MUNKEY]))


def test_the_main_run_does_not_depend_on_audits_nor_its_selection_on_tables():
    code = Code({})
    for job in ("forget", "metrics", "tables", "track"):
        for name in code.find_closure([f"munkey.jobs.{job}"]):
            assert ".audits" not in name
    for name in code.find_closure(["munkey.studies.selection.jobs"]):
        assert ".report." not in name


# What modules behind a digest may import from excused modules, and why it cannot reach a result.
# The classes and types of munkey.settings only check values; the next test shows this.
MAY_BE_IMPORTED = {
    ("munkey.core", "gpu_slots"): "chooses the GPU of a job",
    ("munkey.core.console", "Report"): "the type of a function that prints",
    ("munkey.core.console", "warn"): "prints",
    ("munkey.core.console", "warn_user"): "prints",
    ("munkey.core.console", "progress"): "prints, and yields the items unchanged",
    ("munkey.core.console", "pluralize"): "words of errors and warnings, in WRITE_MESSAGES",
    ("munkey.core.console", "escape_to_one_line"): "words of errors, in WRITE_MESSAGES",
    ("munkey.core.console", "format_first_ten"): "words of errors, in WRITE_MESSAGES",
    ("munkey.core.paths", "Layout"): "where files are; Snakemake compares paths itself",
    ("munkey.core.paths", "fill"): "where files are; Snakemake compares paths itself",
    ("munkey.core.plugins", "find_plugin_packages"): "where code is, to see whether it was changed",
    ("munkey.core.registry", "Registry"): "finds code, which is passed as a root",
    ("munkey.core.registry", "did_you_mean"): "words of errors, in WRITE_MESSAGES",
    ("munkey.experiment.params.load", "load"): "checks values",
    ("munkey.experiment.run.job", "Surroundings"): "device, log and intervals, set by `dispatch`",
}
# Modules that use excused functions for words, but only in errors, warnings and printed lines.
WRITE_MESSAGES = {
    "munkey.data.decoding.picture_files",
    "munkey.data.forget_draws",
    "munkey.data.intake.csv_tables",
    "munkey.data.intake.unit_names",
    "munkey.data.pictures",
    "munkey.data.prepared",
    "munkey.data.sets.imagefolder",
    "munkey.data.sets.csv_file",
    "munkey.data.source_settings",
    "munkey.deploy.errors",
    "munkey.deploy.model.images",
    "munkey.memory.errors",
    "munkey.encoders.keys",
    "munkey.experiment.tracking.mlflow_log",
    "munkey.memory.memory_file",
    "munkey.memory.verify",
}


def list_imports_of_excused_modules():
    """The imports from excused modules in modules behind digests: (importer, module, name)."""
    code = Code({})
    found_in_registries = (
        "munkey.models.families.",
        "munkey.unlearn.methods.",
        "munkey.data.sets.",
        "munkey.audits.attacks.",
    )
    roots = [*JOBS, *(name for name in code.files if name.startswith(found_in_registries))]
    for importer in code.find_closure(roots):
        for node in ast.walk(ast.parse(code.files[importer].read_text())):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    if alias.name in NO_INFLUENCE:
                        yield importer, alias.name, ""
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    if {node.module, f"{node.module}.{alias.name}"} & NO_INFLUENCE:
                        yield importer, node.module, alias.name


def test_nothing_in_an_excused_module_reaches_a_result():
    for importer, module, name in list_imports_of_excused_modules():
        if module == "munkey.settings":
            assert name[0].isupper() and not name.isupper(), (importer, name)  # a class or a type
            continue
        assert (module, name) in MAY_BE_IMPORTED, (importer, module, name)
        if MAY_BE_IMPORTED[module, name].startswith("words"):
            assert importer in WRITE_MESSAGES, (importer, name)


def test_settings_check_values_and_compute_nothing():
    """They are excused from digests: a property that computes something would have an influence."""
    tree = ast.parse((PACKAGE / "settings.py").read_text())
    functions = list_nodes(tree.body, ast.FunctionDef)
    assert [function.name for function in functions] == ["_require_one_group"]
    for settings in list_nodes(tree.body, ast.ClassDef):
        for method in list_nodes(settings.body, ast.FunctionDef):
            returns = [ast.unparse(node) for node in list_nodes(ast.walk(method), ast.Return)]
            if method.name == "parse":
                assert returns == ["return cls.model_validate(section)", "return section"]
            else:
                decorators = " ".join(map(ast.unparse, method.decorator_list))
                assert "validator" in decorators, method.name
                assert returns == ["return self"]


def list_nodes(nodes, kind):
    return [node for node in nodes if isinstance(node, kind)]


# Roots


def test_roots_are_modules_functions_classes_methods_and_objects():
    family = FAMILIES["munkey"]
    method = METHODS["scrub"]
    for root in (family, type(family), family.train, type(family).train):
        assert digest(root) == digest(MUNKEY)
    for root in (method.run, method.settings):
        assert digest(root) == digest("munkey.unlearn.methods.scrub")
    assert digest(method.run) != digest(family)
    assert digest(family, method.run) == digest(method.run, family)
    assert digest(family, method.run) != digest(family)


@pytest.mark.parametrize("root", ["munkey.nothing", "numpy", len, None, 3, "munkey:f"])
def test_a_root_that_is_elsewhere_is_refused(root):
    with pytest.raises(LookupError, match="neither a module of munkey"):
        digest(root)


# Processes


def digest_in_process(folder, **environment):
    """The digest of MUNKEY's family that a process in a folder prints."""
    code = f"from munkey.experiment.run.code_digest import digest; print(digest({MUNKEY!r}))"
    environment = os.environ | {"PYTHONPATH": str(PACKAGE.parent)} | environment
    process = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return process.stdout.strip()


def test_the_digest_is_the_same_in_every_process():
    for seed in ("1", "2"):
        assert digest_in_process(ROOT, PYTHONHASHSEED=seed) == digest(MUNKEY)
    assert len(digest(MUNKEY)) == 16


def test_the_hash_of_a_file_is_kept_until_the_file_changes(tmp_path):
    assert digest_in_process(tmp_path) == digest(MUNKEY)
    assert list(tmp_path.iterdir()) == []  # there is no folder of Snakemake's
    (tmp_path / KNOWN.parent).mkdir()
    digest_in_process(tmp_path)
    hashes = read_json(tmp_path / KNOWN)
    entry = hashes["models/families/munkey.py"]  # in a copy of the project as well
    entry["code"] = "of the same file"
    write_json(tmp_path / KNOWN, hashes)
    assert digest_in_process(tmp_path) != digest(MUNKEY)
    entry["state"] = "of another text"
    write_json(tmp_path / KNOWN, hashes)
    assert digest_in_process(tmp_path) == digest(MUNKEY)


@pytest.mark.parametrize("content", ['{"a": {}}', "[]", '{"a": 1}', "no JSON"])
def test_damaged_hashes_are_made_anew(content, tmp_path):
    (tmp_path / KNOWN.parent).mkdir()
    (tmp_path / KNOWN).write_text(content)
    assert digest_in_process(tmp_path) == digest(MUNKEY)


# Plug-ins

PLUGIN = {
    "shop/__init__.py": "",
    "shop/mine.py": "from munkey.unlearn.saliency import top_share\ndef mine(x):\n    from .further import more\n",
    "shop/further.py": "from . import last\nfrom shop.plain.deep import y\n",
    "shop/last.py": "def plus(x):\n    return x + 1\n",
    "shop/plain/deep.py": "y = 1",  # a folder without __init__.py
    "shop/unused.py": "",
    "shop/broken.py": "def",
    "alone.py": "import munkey.unlearn.saliency\nimport shop.last",
}


@pytest.fixture
def make_code(tmp_path):
    """Make the code of this package and of two plug-ins, with edits of some of their files."""

    def make(version="1.0", **edits):
        edited = {f"shop/{name}.py": text for name, text in edits.items()}
        files = PLUGIN | edited
        folder = written(tmp_path / str(len(list(tmp_path.iterdir()))), files)
        shop = Package(folder / "shop", f"shop {version}")
        return Code({"shop": shop, "alone": Package(folder / "alone.py", "alone 1.0")})

    return make


def test_a_plug_in_is_followed_within_its_package_into_others_and_into_this_one(make_code):
    code = make_code()
    of_package = {"shop", "shop.mine", "shop.further", "shop.last", "shop.plain.deep"}
    assert set(code.find_closure(["shop.mine"])) >= of_package | {"munkey.unlearn.saliency"}
    of_file = {"alone", "shop", "shop.last", "munkey.unlearn.saliency"}
    assert set(code.find_closure(["alone"])) >= of_file
    assert not {"shop.unused", "shop.broken"} & set(code.find_closure(["shop.mine", "alone"]))


@pytest.mark.parametrize(
    ("edit", "changed"),
    [
        ({"last": "def plus(x):\n    return x + 2\n"}, {"shop.mine", "alone"}),
        ({"last": 'def plus(x):\n    """One more."""\n    return x + 1\n'}, set()),
        ({"plain/deep": "y = 2"}, {"shop.mine"}),
        ({"unused": "x = 1"}, set()),
        ({"version": "1.1"}, {"shop.mine", "alone", "shop.compiled"}),
    ],
)
def test_an_edit_or_a_new_version_of_a_plug_in_changes_only_digests_of_its_users(
    make_code, edit, changed
):
    """Of code that is not Python, the version counts."""
    roots = ["shop.mine", "shop.compiled", "alone", MUNKEY]
    before = make_code()
    after = make_code(**edit)
    for root in roots:
        is_changed = before.compute_digest([root]) != after.compute_digest([root])
        assert is_changed == (root in changed), root


def test_lock_files_and_folders_beside_modules_are_ignored(make_code):
    code = make_code()
    folder = code.plugins["shop"].path
    (folder / ".#last.py").symlink_to("me@here.1")  # of a file that is not saved yet
    (folder / "backup.py").mkdir()
    assert Code(code.plugins).files == code.files


def test_plug_ins_are_found_by_their_entry_points_and_not_imported(tmp_path, monkeypatch):
    """One in a folder, one in a namespace and one in a file; one that is announced but missing is left out."""
    files = dict.fromkeys(
        ["shop9/__init__.py", "company9/tools/__init__.py", "alone9.py"], "raise RuntimeError"
    )
    announced = "a = shop9.mine\nb = company9.tools.mine\nc = alone9\nd = missing9.mine\n"
    metadata = {
        "METADATA": "Name: shop9\nVersion: 1.0\n",
        "entry_points.txt": f"[munkey.unlearn.methods]\n{announced}",
    }
    for name, text in metadata.items():
        files[f"shop9-1.0.dist-info/{name}"] = text
    written(tmp_path, files)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(
        plugins, "installed_entry_points", plugins.installed_entry_points.__wrapped__
    )
    assert find_plugin_packages() == {
        "shop9": Package(tmp_path / "shop9", "shop9 1.0"),
        "company9.tools": Package(tmp_path / "company9/tools", "shop9 1.0"),
        "alone9": Package(tmp_path / "alone9.py", "shop9 1.0"),
    }


def test_files_newer_than_a_moment_are_named_as_below_the_package():
    name = digest(MUNKEY)
    assert "models/families/munkey.py" in code_digest.list_changed_files(name, 0.0)
    assert code_digest.list_changed_files(name, 1e12) == []
