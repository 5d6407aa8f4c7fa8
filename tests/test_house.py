"""The rules of the house: where an import may point, how large things may be, and which words are used.

Each test reads the source and names the file and the line of whatever breaks its rule. Ruff limits parameters to six
(PLR0913 in pyproject.toml).
"""

import ast
import re
import shutil
import subprocess
import sys
import tokenize
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
PACKAGE = sorted((ROOT / "src" / "munkey").rglob("*.py"))
SCRIPTS = sorted((ROOT / "workflow" / "scripts").glob("*.py"))
BENCHMARKS = sorted((ROOT / "benchmarks").glob("*.py"))
HEAVY = {"torch", "torchvision", "pandas", "sklearn", "scipy", "matplotlib", "mlflow", "transformers", "timm", "umap"}


def numbered(files: list[Path]) -> list[object]:
    return [pytest.param(path, id=str(path.relative_to(ROOT))) for path in files]


def place(path: Path, node: ast.AST) -> str:
    return f"{path.relative_to(ROOT)}:{node.lineno}"


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.arg]:
    listed = function.args
    return [
        argument
        for argument in (*listed.posonlyargs, *listed.args, listed.vararg, *listed.kwonlyargs, listed.kwarg)
        if argument is not None
    ]


def parts_of(annotation: ast.expr | None) -> Iterator[ast.AST]:
    """All nodes of an annotation, also of one that is written as a string. Of Annotated, the type alone counts."""
    if isinstance(annotation, ast.Subscript) and ast.unparse(annotation.value) == "Annotated":
        annotation = annotation.slice.elts[0]
    for node in ast.walk(annotation) if annotation is not None else ():
        yield node
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from ast.walk(ast.parse(node.value, mode="eval"))


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


def copy_of_package(folder: Path) -> Path:
    shutil.copy(ROOT / "pyproject.toml", folder)
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    return folder


def test_imports_keep_to_the_floors():
    checked = lint_imports(ROOT)
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.parametrize(
    ("importer", "imported"),
    [
        ("munkey.core.ids", "munkey.experiment.plan.plan"),
        ("munkey.encoders.keys", "munkey.memory.exemplars"),
        ("munkey.models.family", "munkey.models.system"),
        ("munkey.experiment.plan.plan", "munkey.unlearn.methods.cf"),
        ("munkey.experiment.plan.plan", "snakemake"),
        ("munkey.report.tables.summary", "mlflow"),
    ],
    ids=["from the bottom to the top", "one floor up", "up within a room", "a method by name", "snakemake", "mlflow"],
)
def test_a_forbidden_import_is_found_and_named(importer, imported, tmp_path):
    project = copy_of_package(tmp_path)
    module = project / "src" / Path(*importer.split(".")).with_suffix(".py")
    module.write_text(f"{module.read_text()}\nimport {imported}  # noqa\n")
    checked = lint_imports(project)
    assert checked.returncode != 0
    shown = " ".join(checked.stdout.split())
    assert "BROKEN" in shown and importer in shown and imported in shown, checked.stdout


def test_a_new_room_must_say_on_which_floor_it_stands(tmp_path):
    project = copy_of_package(tmp_path)
    (project / "src" / "munkey" / "attic.py").write_text('"""A room that no contract lists."""\n')
    checked = lint_imports(project)
    assert checked.returncode != 0 and "attic" in checked.stdout, checked.stdout


def test_planning_imports_nothing_heavy():
    code = (
        "import sys\n"
        "from munkey.audits.registry import AUDITS\n"
        "from munkey.data.registry import DATASETS\n"
        "from munkey.encoders.registry import ENCODERS\n"
        "from munkey.models.family import FAMILIES\n"
        "from munkey.unlearn.contract import METHODS\n"
        "import munkey.experiment.run.code_digest, munkey.core.paths, munkey.experiment.plan.plan\n"
        "assert all(map(len, (AUDITS, DATASETS, ENCODERS, FAMILIES, METHODS)))  # looking loads every entry\n"
        f"print(*sorted({HEAVY} & set(sys.modules)))\n"
    )
    imported = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert imported.returncode == 0, imported.stderr
    assert imported.stdout.split() == [], "`python -X importtime` shows which module imports them"


# Sizes


@pytest.mark.parametrize("path", numbered(PACKAGE))
def test_a_module_has_at_most_300_lines(path):
    lines = len(path.read_text().splitlines())
    assert lines <= 300, f"{path.relative_to(ROOT)}: {lines} lines"


def lines_of_code(path: Path) -> list[int]:
    """Numbers of the lines that hold code: no comments, no docstrings, no imports, `if TYPE_CHECKING:` among them."""
    tree, uncounted = ast.parse(path.read_text()), set()
    for node in ast.walk(tree):
        is_import = isinstance(node, ast.Import | ast.ImportFrom)
        is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        is_for_types = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        if is_import or is_docstring or is_for_types:
            uncounted |= set(range(node.lineno, node.end_lineno + 1))
    silent = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    code: set[int] = set()
    with path.open() as file:
        for token in tokenize.generate_tokens(file.readline):
            if token.type not in silent:
                code |= set(range(token.start[0], token.end[0] + 1))
    return sorted(code - uncounted)


@pytest.mark.parametrize("path", numbered(SCRIPTS))
def test_a_script_has_at_most_20_lines_of_code(path):
    lines = lines_of_code(path)
    assert len(lines) <= 20, f"{path.relative_to(ROOT)}:{lines[20]}: here line 21 of {len(lines)}"


def test_lines_of_code_are_counted_without_comments_docstrings_and_imports(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        '"""What it does.\n\nAnd how."""\n\nfrom typing import TYPE_CHECKING\n\n# why\nimport os\n\n'
        "if TYPE_CHECKING:\n    from snakemake.iocontainers import snakemake\n\n"
        "start()\n\n\ndef f(\n    x,\n):\n    import math\n\n    return math.sqrt(x)  # a root\n"
    )
    assert lines_of_code(script) == [13, 16, 17, 18, 21]


# Types


def test_any_stands_in_few_signatures():
    mentions = [
        f"{place(path, function)} {function.name}"
        for path in PACKAGE
        for function in functions(path)
        for annotations in [[argument.annotation for argument in parameters(function)] + [function.returns]]
        if any(
            ast.unparse(part) in {"Any", "typing.Any"} for annotation in annotations for part in parts_of(annotation)
        )
    ]
    if len(mentions) > 25:
        none_of(mentions, "at most 25 functions may mention Any")


def is_record(node: ast.AST) -> bool:
    """Whether this is tuple[A, B], which should have been a class with names; tuple[A, ...] is a plain sequence."""
    if not (isinstance(node, ast.Subscript) and ast.unparse(node.value) in {"tuple", "Tuple"}):
        return False
    items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    return not (len(items) == 2 and ast.unparse(items[1]) == "...")


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        ("tuple[int, str]", True),
        ("'tuple[int, str] | None'", True),
        ("dict[str, tuple[Path, Path]]", True),
        ("tuple[int, ...]", False),
        ("list[int]", False),
        ("Annotated[Path, Option(help='Any words.')]", False),
        ("Annotated[tuple[int, str], Option(help='Any words.')]", True),
    ],
)
def test_a_tuple_that_stands_for_a_record_is_recognized(annotation, expected):
    parsed = ast.parse(annotation, mode="eval").body
    assert any(map(is_record, parts_of(parsed))) is expected


def test_no_parameter_is_a_tuple_that_stands_for_a_record():
    violations = [
        f"{place(path, argument)} {function.name}({argument.arg}: {ast.unparse(argument.annotation)})"
        for path in PACKAGE + SCRIPTS + BENCHMARKS
        for function in functions(path)
        for argument in parameters(function)
        if any(map(is_record, parts_of(argument.annotation)))
    ]
    none_of(violations, "use a frozen dataclass or a NamedTuple")


def is_bag(node: ast.AST) -> bool:
    """Whether this makes an object of nameless fields: SimpleNamespace, or vars(...).update."""
    if isinstance(node, ast.Name | ast.Attribute | ast.alias):
        name = ast.unparse(node)
        return name.rpartition(".")[2] == "SimpleNamespace" or (name.startswith("vars(") and name.endswith(").update"))
    return False


def test_no_object_is_a_bag_of_fields():
    violations = [
        f"{place(path, node)} {ast.unparse(node)}"
        for path in PACKAGE + SCRIPTS + BENCHMARKS
        for node in ast.walk(ast.parse(path.read_text()))
        if is_bag(node)
    ]
    none_of(violations, "use a frozen dataclass")


# Words

BRITISH = re.compile(
    r"""
      neighbour | colour | behaviou | favour | flavour | honour | labour | rumour | vapour
    | centre(?!\w) | centre[ds] | fibre | grey | analyse(?!s) | learnt | whilst | artefact | defence | licence
    | (label | model | cancel | travel | signal) l (ed | ing) | fulfil(?!l)\w* | distil(?!l)\w* | programme(?![dr])
    | (author | categor | character | custom | emphas | equal | final | general | initial | local | material | maxim
      | memor | minim | normal | optim | organ | parallel | parameter | penal | priorit | quant | random | real | recogn
      | regular | serial | special | stabil | standard | summar | symbol | synchron | token | util | vector | visual)
      is (e | ed | es | er | ers | ing | ation | ations) (?!\w)
    """,
    re.IGNORECASE | re.VERBOSE,
)
WRITTEN = {".py", ".pyi", ".smk", ".md", ".yaml", ".rst", ".toml", ".cff", ".j2", ".sh"}


def files_of_the_project() -> list[Path]:
    """What is tracked, and what is new and not ignored; without this file, which has to name the words."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    paths = {ROOT / line for line in listed.stdout.splitlines()}
    written = {path for path in paths if path.suffix in WRITTEN or path.name in {"Snakefile", "Makefile"}}
    return sorted(path for path in written if path.is_file() and path != Path(__file__))


def test_words_are_spelled_as_in_america():
    violations = [
        f"{path.relative_to(ROOT)}:{number}: {word.group()}"
        for path in files_of_the_project()
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        for word in BRITISH.finditer(line)
    ]
    none_of(violations, "American spelling")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("the neighbours' colours", ["neighbour", "colour"]),
        ("Optimisers normalise", ["Optimisers", "normalise"]),
        ("_labelled, modelling", ["labelled", "modelling"]),
        ("neighbors noise otherwise realistic distilled centered modeled programmed specialist", []),
    ],
)
def test_british_words_are_recognized(text, expected):
    assert [word.group() for word in BRITISH.finditer(text)] == expected


# Pages and the files around the code

PAGES = sorted([*ROOT.glob("*.md"), ROOT / "data" / "README.md", *(ROOT / "docs").rglob("*.md")])
EXAMPLES = {"my_audit", "my_method", "my-method"}  # what a page says that its reader may add


@pytest.mark.parametrize("page", numbered(PAGES))
def test_a_page_names_only_files_that_exist(page):
    missing = []
    for number, line in enumerate(page.read_text().splitlines(), start=1):
        links = [(page.parent, link) for link in re.findall(r"\]\((?!\w+:)([^)#]+)", line)]
        paths = [
            (ROOT, path)
            for path in re.findall(
                r"\b(?:src|tests|workflow|benchmarks|docs|profiles)/[\w./-]*\w", re.sub(r"https?://\S+", "", line)
            )
        ]
        missing += [
            f"{page.relative_to(ROOT)}:{number}: {name}"
            for folder, name in dict.fromkeys(links + paths)
            if not (folder / name).exists() and not any(example in name for example in EXAMPLES)
        ]
    none_of(missing, "these files do not exist")


def test_the_first_screen_is_short():
    assert len((ROOT / "README.md").read_text().split()) <= 900, "move details to a page of docs/"


def test_make_alone_lists_every_target_with_a_sentence_and_starts_none():
    shown = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    listed = re.findall(r"^  make (\S+) +(?=\w)", shown, re.MULTILINE)
    phony = re.search(r"^\.PHONY: help (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)[1].split()
    assert sorted(listed) == sorted(phony)


def test_the_lock_pins_every_dependency_and_names_no_host():
    lock = (ROOT / "requirements.lock").read_text()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pinned = {name.lower() for name in re.findall(r"^([\w.-]+)==", lock, re.MULTILINE)}
    listed = [project["dependencies"], *project["optional-dependencies"].values()]
    assert {name.partition("[")[0].lower() for names in listed for name in names} <= pinned  # without extras
    assert "://" not in lock


def test_the_citation_is_of_this_version_under_this_license():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert (citation["version"], citation["license"]) == (project["version"], project["license"])
    assert (ROOT / "LICENSE").read_text().startswith(f"{project['license']} License")
