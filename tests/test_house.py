"""The rules of the house that `make lint` does not check: how full a folder may be, which names are used.

Ruff checks the style (pyproject.toml), import-linter where imports may point, codespell the spelling.
"""

import ast
import re
import shutil
import subprocess
import sys
import tomllib
from collections import defaultdict
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
WORKFLOW = re.compile(r"(?<![\w./\"])workflow\.([a-z_]+)")
PACKAGE = sorted((ROOT / "src" / "munkey").rglob("*.py"))
HEAVY = (
    "faiss", "matplotlib", "medmnist", "mlflow", "pandas", "scipy", "sklearn", "timm", "torch", "torchvision",
    "transformers", "umap",
)  # fmt: skip


def none_of(violations: list[str], rule: str) -> None:
    """Fail with all violations of a rule, one a line."""
    if violations:
        pytest.fail("\n".join([f"{rule} ({len(violations)}):", *violations]), pytrace=False)


# Imports


def lint_imports(project: Path) -> subprocess.CompletedProcess[str]:
    """Run import-linter on a project with the contracts of its pyproject.toml."""
    command = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    return subprocess.run(
        [sys.executable, "-c", command, "--no-cache", "--no-logo"],
        cwd=project,
        env={"PYTHONPATH": str(project / "src"), "PATH": "/usr/bin:/bin", "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )


FORBIDDEN = {
    "munkey.core.ids": "munkey.experiment.plan.plan",  # from the bottom to the top
    "munkey.encoders.keys": "munkey.memory.exemplars",  # one floor up
    "munkey.models.family": "munkey.models.system",  # up within a room
    "munkey.experiment.plan.plan": "munkey.unlearn.methods.cf",  # a method by name
    "munkey.experiment.plan.cases": "snakemake",
    "munkey.report.tables.summary": "mlflow",
}


def test_forbidden_imports_and_a_room_without_a_floor_are_found_and_named(tmp_path):
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    shutil.copytree(
        ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info")
    )
    for importer, imported in FORBIDDEN.items():
        with (tmp_path / "src" / Path(*importer.split(".")).with_suffix(".py")).open("a") as module:
            module.write(f"\nimport {imported}  # noqa\n")
    found = " ".join(lint_imports(tmp_path).stdout.split())
    for importer, imported in FORBIDDEN.items():
        assert f"{importer} -> {imported} " in found, found
    (tmp_path / "src/munkey/attic.py").write_text('"""A room that no contract lists."""\n')
    checked = lint_imports(tmp_path)
    assert checked.returncode != 0 and "attic" in checked.stdout, checked.stdout


PLAN = """
import sys
from munkey.audits.registry import AUDITS
from munkey.data.registry import DATASETS
from munkey.encoders.registry import ENCODERS
from munkey.experiment.params.load import load, read_params
from munkey.experiment.plan.exhibits import Exhibits
from munkey.experiment.plan.plan import Plan
from munkey.models.family import FAMILIES
from munkey.unlearn.contract import METHODS
import munkey.experiment.run.code_digest
assert all(map(len, (AUDITS, DATASETS, ENCODERS, FAMILIES, METHODS)))  # looking loads every entry
plan = Plan(load({**read_params([]), "search": True, "methods": ["cf", "knn", "munkey", "sisa"]}))
plan.main, plan.list_ablation_runs("digits"), plan.list_selection_runs("digits"), plan.external_state
plan.train_input("digits", "0", "full", "m"), plan.unlearn_settings("digits", "cf", 0)
Exhibits(plan).rows, Exhibits(plan).figures
print(*sorted(set(sys.argv) & set(sys.modules)))
"""


def test_planning_imports_nothing_heavy():
    command = [sys.executable, "-c", PLAN, *HEAVY]
    planned = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert planned.returncode == 0, planned.stderr
    assert planned.stdout.split() == [], "`python -X importtime` shows which module imports them"


IMPORT_EACH = """
import importlib, sys
for name in sys.argv[1:]:
    for loaded in [module for module in sys.modules if module.split(".")[0] == "munkey"]:
        del sys.modules[loaded]
    try:
        importlib.import_module(name)
    except Exception as error:
        raise ImportError(f"{name} cannot be imported first") from error
"""


def test_each_module_imports_first():
    """In one fresh process, which forgets our modules each time: only the libraries stay loaded."""
    paths = [path.relative_to(ROOT / "src").with_suffix("") for path in PACKAGE]
    names = sorted(".".join(path.parts).removesuffix(".__init__") for path in paths)
    assert {"munkey", "munkey.models.families.munkey", "munkey.experiment.plan.plan"} <= set(names)
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_EACH, *names], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


# Folders and names

# a registry's entries: as many as there are
ONE_FILE_EACH = {
    "unlearn/methods",
    "audits/attacks",
    "data/sets",
}
SAME_FUNCTION = {
    "read",  # with `write`: a module's own file
    "write",
    "blocks",  # of rows that fit into memory
}


def test_a_folder_has_at_most_15_modules():
    modules: dict[str, int] = defaultdict(int)
    for path in PACKAGE:
        modules[path.parent.relative_to(ROOT / "src/munkey").as_posix()] += (
            path.name != "__init__.py"
        )
    none_of(
        [f"{name}: {n}" for name, n in modules.items() if n > 15 and name not in ONE_FILE_EACH],
        "too full",
    )


def test_a_name_of_a_class_or_of_a_function_says_which():
    classes = defaultdict(list)
    functions = defaultdict(list)
    for path in PACKAGE:
        tree = ast.parse(path.read_text())
        place = str(path.relative_to(ROOT))
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                classes[node.name].append(place)
        # named like commands and rules
        for node in [] if path.parent.name in {"cli", "jobs"} else tree.body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                functions[node.name].append(place)
    twice = {name: places for name, places in classes.items() if len(places) > 1}
    often = {
        name: places
        for name, places in functions.items()
        if len(places) > 3 and name not in SAME_FUNCTION
    }
    none_of(
        [f"{name}: {', '.join(places)}" for name, places in (twice | often).items()],
        "one name, one thing",
    )


def test_no_function_has_more_than_12_parameters():
    """The options of a command are its parameters: typer takes no record of them."""
    violations = []
    for path in PACKAGE:
        if path.parent.name == "cli":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                count = len([*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs])
                if count > 12:
                    violations.append(
                        f"{path.relative_to(ROOT)}, line {node.lineno}: {node.name} has {count}"
                    )
    none_of(
        violations,
        "a function has at most 12 parameters: make a record of those that belong together",
    )


DOCUMENTED = {"cores", "source_path"}  # all that Snakemake's documentation says of `workflow`


def test_the_workflow_uses_at_most_6_attributes_of_snakemake_that_its_documentation_does_not_name():
    sources = [
        ROOT / "Snakefile",
        *(ROOT / "workflow").rglob("*.smk"),
        *(ROOT / "workflow").rglob("*.py"),
    ]
    sources += [*PACKAGE, *(ROOT / "src/snakemake_logger_plugin_munkey").rglob("*.py")]
    used = {name for path in sources for name in WORKFLOW.findall(path.read_text())}
    undocumented = sorted(used - DOCUMENTED)
    assert {"cores", "dag"} <= used  # else the pattern misses them
    assert len(undocumented) <= 6, undocumented


# Plain code: figures per 1,000 lines, as nanoGPT, timm and scikit-learn have them

# the others follow
PLAIN_ROOMS = (
    "audits",
    "cli",
    "core",
    "data",
    "deploy",
    "encoders",
    "estimators",
    "evaluation",
    "experiment",
    "explore",
    "jobs",
    "memory",
    "models",
    "report",
    "training",
    "unlearn",
)
VAGUE_NAMES = {
    "found",
    "own",
    "left",
    "chosen",
    "held",
    "said",
    "asked",
    "kept",
    "given",
    "made",
    "wanted",
    "told",
}
AT_MOST = {
    "packed assignments": 3,
    "conditional expressions": 14,
    "walrus": 1,
    "vague names": 1,
    "long lines": 35,
}


def is_packed(node: ast.AST) -> bool:
    """Whether it is `a, b = x, y`; a swap, `a, b = b, a`, is not."""
    if not (
        isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Tuple)
        and isinstance(node.value, ast.Tuple)
    ):
        return False
    return {ast.unparse(each) for each in node.targets[0].elts} != {
        ast.unparse(each) for each in node.value.elts
    }


@pytest.mark.parametrize("room", PLAIN_ROOMS)
def test_a_room_reads_as_plainly_as_its_models(room: str) -> None:
    paths = sorted((ROOT / "src/munkey" / room).rglob("*.py"))
    lines = [line for path in paths for line in path.read_text().splitlines()]
    nodes = [node for path in paths for node in ast.walk(ast.parse(path.read_text()))]
    names = [
        node for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    ]
    fields = {
        id(node.target) for node in nodes if isinstance(node, ast.AnnAssign) and node.value is None
    }
    counts = {
        "packed assignments": sum(map(is_packed, nodes)),
        "conditional expressions": sum(isinstance(node, ast.IfExp) for node in nodes),
        "walrus": sum(isinstance(node, ast.NamedExpr) for node in nodes),
        "vague names": sum(node.id in VAGUE_NAMES and id(node) not in fields for node in names),
        "long lines": sum(len(line) > 100 for line in lines),
    }
    above = {
        what: count for what, count in counts.items() if 1000 * count > AT_MOST[what] * len(lines)
    }
    assert not above, f"{len(lines)} lines of {room}: one statement a line, a name for each thing"


# Pages and the files around the code

PAGES = sorted([*ROOT.glob("*.md"), ROOT / "data" / "README.md", *(ROOT / "docs").rglob("*.md")])
EXAMPLES = {
    "my_audit",
    "my_method",
    "my-method",
    "rounding",
}  # what a page says that its reader may add
PATH = re.compile(r"\b(?:src|tests|workflow|benchmarks|docs|profiles|tools|notebooks)/[\w./-]*\w")


def test_pages_name_only_files_that_exist():
    missing = []
    for page in PAGES:
        for number, line in enumerate(page.read_text().splitlines(), start=1):
            links = [(page.parent, link) for link in re.findall(r"\]\((?!\w+:)([^)#]+)", line)]
            paths = [(ROOT, path) for path in PATH.findall(re.sub(r"https?://\S+", "", line))]
            missing += [
                f"{page.relative_to(ROOT)}:{number}: {name}"
                for folder, name in dict.fromkeys(links + paths)
                if not (folder / name).exists() and not any(example in name for example in EXAMPLES)
            ]
    none_of(missing, "these files do not exist")


def test_the_first_screen_is_short():
    prose = [
        line for line in (ROOT / "README.md").read_text().splitlines() if not line.startswith("|")
    ]
    assert len(" ".join(prose).split()) <= 1000, "move details to a page of docs/"


def test_make_alone_lists_at_most_21_targets_each_with_a_sentence_and_starts_none():
    listed = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    targets = re.findall(r"^  make (\S+) +(?=\w)", listed, re.MULTILINE)
    phony = re.search(r"^\.PHONY: help (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)[
        1
    ].split()
    assert sorted(targets) == sorted(phony) and len(targets) <= 21


def test_the_lock_pins_every_dependency_and_names_no_host():
    lock = (ROOT / "requirements.lock").read_text()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pinned = {name.lower() for name in re.findall(r"^([\w.-]+)==", lock, re.MULTILINE)}
    listed = [project["dependencies"], *project["optional-dependencies"].values()]
    assert {
        name.partition("[")[0].lower() for names in listed for name in names
    } <= pinned  # without extras
    assert "://" not in lock


def test_the_citation_is_of_this_version_under_this_license():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert (citation["version"], citation["license"]) == (project["version"], project["license"])
    assert (ROOT / "LICENSE").read_text().startswith(f"{project['license']} License")
