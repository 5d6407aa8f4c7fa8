"""The code in README.md, in the pages beside it and in docs/ runs as it is printed."""

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from munkey.deploy.model.export import export
from tests.conftest import ROOT
from tests.data.inputs import pets_in
from tests.deploy.inputs import result_in

PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
NOT_RUN = "<!-- not run: "  # on the line above a block; then why
STUDY_FILE = "# src/munkey/studies/"  # a block that is a file of a study: tests/studies/test_new_study.py runs it


def blocks(language: str) -> list[object]:
    """The blocks of a language on all pages, without those that are marked as not run."""
    found = [
        pytest.param(
            match[2],
            id=f"{page.relative_to(ROOT)}:{page.read_text()[: match.start(2)].count(chr(10))}",
        )
        for page in PAGES
        for match in re.finditer(
            rf"^([^\n]*)\n *```{language}\n(.*?)```", page.read_text(), re.MULTILINE | re.DOTALL
        )
        if not match[1].startswith(NOT_RUN) and not match[2].startswith(STUDY_FILE)
    ]
    assert found
    return found


def commands() -> list[object]:
    """What stands between the quotes of `python -c "..."` in the blocks of the shell."""
    return [
        pytest.param(code, id=param.id)
        for param in blocks("sh")
        for code in re.findall(r'^python -c "\n(.*?)"$', param.values[0], re.MULTILINE | re.DOTALL)
    ]


def run(code: str, folder: Path) -> str:
    """What it prints, in a process of its own: it may register what others must not see."""
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def using_a_model(wanted: bool) -> list[object]:
    """The blocks of Python that use a model or its memory, or the others, which register something.

    Each takes seconds to start: `make test` runs those of the README, CI all.
    """
    uses = re.compile(r"Predictor|Forgetting|MunkeyClassifier|munkey\.deploy")
    chosen = []
    for param in blocks("python"):
        if bool(uses.search(param.values[0])) is wanted:
            marks = () if param.id.startswith("README.md") else pytest.mark.ci
            chosen.append(pytest.param(*param.values, id=param.id, marks=marks))
    return chosen


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what these blocks name: an exported model and pictures."""
    folder = tmp_path_factory.mktemp("model")
    export(
        result_in(folder / "results" / "default", folder / "pictures", "digits"),
        folder / "models" / "digits",
    )
    shutil.copy(folder / "pictures" / "a" / "00.png", folder / "picture.png")
    return folder


@pytest.mark.parametrize("code", using_a_model(True))
def test_python_that_uses_a_model_runs_as_printed(code: str, model: Path, tmp_path: Path) -> None:
    assert run(code, Path(shutil.copytree(model, tmp_path / "copy")))


def test_the_class_in_the_readme_is_the_first_folder_not_that_of_a_visit() -> None:
    [line] = re.findall(r"^labels = .+$", (ROOT / "README.md").read_text(), flags=re.MULTILINE)
    names = {"files": [Path("pictures/benign/Klinik Süd/0007/2021-03-04/b.jpg")]}
    exec(line, names)
    assert names["labels"] == ["benign"]


@pytest.mark.parametrize("code", using_a_model(False))
def test_python_as_printed_runs_and_registers_what_it_shows(code: str, tmp_path: Path) -> None:
    registries = [
        "from munkey.unlearn.contract import METHODS as methods",
        "from munkey.data.registry import DATASETS as sets",
        "from munkey.encoders.registry import ENCODERS as encoders",
        "from munkey.audits.registry import AUDITS as audits",
    ]
    check = "print(*(name for names in (methods, sets, encoders, audits) for name in names if name.startswith('my-')))"
    assert run("\n".join([code, *registries, check]), tmp_path).startswith("my-")


@pytest.mark.parametrize("code", commands())
def test_python_on_the_command_line_runs(code: str, tmp_path: Path) -> None:
    pets_in(tmp_path).rename(tmp_path / "pictures")
    run(code, tmp_path)


@pytest.mark.parametrize("text", blocks("yaml"))
def test_yaml_as_printed_names_sections_of_the_parameters(text: str) -> None:
    sections = set(yaml.safe_load((ROOT / "params.yaml").read_text()))
    assert set(yaml.safe_load(text)) <= sections | {"rounding"}  # a study that the page adds


def test_every_page_is_in_the_navigation_of_the_website() -> None:
    contents = (ROOT / "docs/site/contents.py").read_text()
    assert [
        page.name for page in (ROOT / "docs").glob("*.md") if f'"docs/{page.stem}"' not in contents
    ] == []


def imported(file: Path) -> set[str]:
    """The modules that a file of Python or of the workflow imports, anywhere in it."""
    text = file.read_text() if file.suffix == ".py" else ""
    if file.suffix == ".smk":
        text = "\n".join(re.findall(r"^from .+ import .+$", file.read_text(), flags=re.MULTILINE))
    lines = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom)]
    return {
        name
        for line in lines
        for name in (line.module, *(f"{line.module}.{each.name}" for each in line.names))
    }


@pytest.mark.parametrize(
    "walk", (ROOT / "docs/layout.md").read_text().split("\n## ")[1:], ids=lambda walk: walk[:12]
)
def test_each_step_of_a_walk_is_imported_by_an_earlier_one(walk: str) -> None:
    """Apart from jobs, which rules name, and from families and methods, which registries find."""
    files = [ROOT / "docs" / link for link in re.findall(r"\]\((\.\./[^)]+)\)", walk)]
    assert len(files) > 5 and all(file.exists() for file in files)
    for number, file in enumerate(files[1:], start=1):
        if file.is_relative_to(ROOT / "docs/../src") and file.parent.name not in {
            "jobs",
            "families",
            "methods",
            "params",
            "plan",
        }:
            module = ".".join(file.resolve().relative_to(ROOT / "src").with_suffix("").parts)
            assert any(module in imported(earlier) for earlier in files[:number]), module


OF_RESULTS = [ROOT / "README.md", ROOT / "docs/results.md", ROOT / "docs/faq.md"]
COMPARES = re.compile(
    r"(more|less) accurate|\bahead of\b|\btold apart\b|\bwins\b"
    r"|\bdiffer significantly\b|\bsignificantly different\b"
)
POINTS = re.compile(r"\d points?\b|\bby \d")


def comparisons(page: Path) -> list[str]:
    """The sentences of a page, its tables left out, that say by how much one system is better than another."""
    prose = "\n".join(line for line in page.read_text().splitlines() if not line.startswith("|"))
    sentences = re.split(r"(?<=\.)\s+|\n\n", prose)
    return [
        " ".join(each.split())
        for each in sentences
        if COMPARES.search(each) and POINTS.search(each)
    ]


def test_a_difference_in_accuracy_stands_with_its_interval() -> None:
    """As `munkey.report.tables.comparisons` writes it: value [low, high]."""
    every = [each for page in OF_RESULTS for each in comparisons(page)]
    assert every
    assert not [each for each in every if not re.search(r"\[-?\d+\.\d, -?\d+\.\d\]", each)]
