"""The code in README.md, in the pages beside it and in docs/ runs as it is printed."""

import os
import re
import shutil
from pathlib import Path

import pytest
import yaml

from munkey.deploy.model.export import export
from tests.conftest import ROOT
from tests.data.inputs import pets_in
from tests.deploy.inputs import result_in
from tests.integration import warm

PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
NOT_RUN = "<!-- not run: "  # on the line above a block; then why
STUDY_FILE = "# src/munkey/studies/"  # a block that is a file of a study: tests/studies/test_new_study.py runs it


def blocks(language: str) -> list[object]:
    """The blocks of a language on all pages, without those that are marked as not run."""
    block = re.compile(rf"^([^\n]*)\n *```{language}\n(.*?)```", re.MULTILINE | re.DOTALL)
    params = []
    for page in PAGES:
        text = page.read_text()
        for match in block.finditer(text):
            if match[1].startswith(NOT_RUN) or match[2].startswith(STUDY_FILE):
                continue
            line = text[: match.start(2)].count("\n")
            params.append(pytest.param(match[2], id=f"{page.relative_to(ROOT)}:{line}"))
    assert params
    return params


def commands() -> list[object]:
    """What stands between the quotes of `python -c "..."` in the blocks of the shell."""
    command = re.compile(r'^python -c "\n(.*?)"$', re.MULTILINE | re.DOTALL)
    params = []
    for param in blocks("sh"):
        for code in command.findall(param.values[0]):
            params.append(pytest.param(code, id=param.id))
    assert params
    return params


def run(code: str, folder: Path) -> str:
    """What it prints, in a fork of its own: it may register what others must not see."""
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    script = folder / "block.py"
    script.write_text(f"import warnings\n\nwarnings.simplefilter('error')\n{code}")
    done = warm.run((str(script),), folder, environment, 600)
    assert done.returncode == 0, done.stderr
    return done.stdout


def python_blocks(with_model: bool) -> list[object]:
    """The blocks of Python that use a model or its memory, or the others, which register something.

    Each takes seconds to start: `make test` runs those of the README, CI all.
    """
    uses_model = re.compile(r"Predictor|Forgetting|MunkeyClassifier|munkey\.deploy")
    params = []
    for param in blocks("python"):
        if bool(uses_model.search(param.values[0])) is with_model:
            marks = [] if param.id.startswith("README.md") else [pytest.mark.ci]
            params.append(pytest.param(*param.values, id=param.id, marks=marks))
    return params


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


@pytest.mark.parametrize("code", python_blocks(with_model=True))
def test_python_that_uses_a_model_runs_and_prints(code: str, model: Path, tmp_path: Path) -> None:
    assert run(code, Path(shutil.copytree(model, tmp_path / "copy")))


def test_the_label_in_the_readme_is_the_first_folder_of_a_path() -> None:
    [line] = re.findall(r"^labels = .+$", (ROOT / "README.md").read_text(), flags=re.MULTILINE)
    names = {"files": [Path("pictures/benign/Klinik Süd/0007/2021-03-04/b.jpg")]}
    exec(line, names)
    assert names["labels"] == ["benign"]


@pytest.mark.parametrize("code", python_blocks(with_model=False))
def test_python_that_registers_a_plug_in_runs_as_printed(code: str, tmp_path: Path) -> None:
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
    for page in (ROOT / "docs").glob("*.md"):
        assert f'"docs/{page.stem}"' in contents
