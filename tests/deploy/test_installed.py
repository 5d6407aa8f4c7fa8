"""The wheel, installed with its base dependencies: it predicts, forgets and verifies, and names a missing extra."""

import re
import shutil
import subprocess
import sys
import venv
import zipfile
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.conftest import ROOT
from tests.deploy.inputs import model_in, picture_in

pytestmark = [pytest.mark.slow, pytest.mark.ci]


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site-packages of an environment that holds the wheel of this project, what its base needs, and nothing else.

    Its dependencies are links to the packages of this environment.
    """
    folder = tmp_path_factory.mktemp("installed")
    for name in ("pyproject.toml", "setup.py", "LICENSE", "CITATION.cff"):
        shutil.copy(ROOT / name, folder)
    for page in ROOT.glob("*.md"):
        shutil.copy(page, folder)
    shutil.copytree(ROOT / "docs", folder / "docs")
    shutil.copytree(
        ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info")
    )
    build = "from setuptools.build_meta import build_wheel; build_wheel('.')"
    subprocess.run([sys.executable, "-c", build], cwd=folder, capture_output=True, check=True)
    venv.create(folder / "environment")
    (packages,) = (folder / "environment").glob("lib/python*/site-packages")
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)
    (metadata,) = packages.glob("munkey-*.dist-info")
    for needed in list_requirements(Distribution.at(metadata)).values():
        for name in {file.parts[0] for file in needed.files or ()} - {"..", "__pycache__"}:
            if not (packages / name).exists():
                (packages / name).symlink_to(str(needed.locate_file(name)))
    return packages


def list_requirements(project: Distribution) -> dict[str, Distribution]:
    """The distributions that a project needs without any extra, and all that they need, by name."""
    needed: dict[str, Distribution] = {}
    todo = [(line, "") for line in project.requires or ()]
    while todo:
        line, extra = todo.pop()
        requirement = Requirement(line)
        name = re.sub(r"[-_.]+", "-", requirement.name).lower()
        if requirement.marker and not requirement.marker.evaluate({"extra": extra}):
            continue
        if name in needed:
            continue
        needed[name] = distribution(name)
        for needed_line in needed[name].requires or ():
            todo += [(needed_line, "")]
            todo += [(needed_line, needed_extra) for needed_extra in requirement.extras]
    return needed


def python(packages: Path, *words: object) -> subprocess.CompletedProcess[str]:
    interpreter = packages.parents[2] / "bin" / "python"
    return subprocess.run(
        [interpreter, "-I", *map(str, words)], capture_output=True, text=True, check=False
    )


def test_the_wheel_has_every_file_of_the_package(packages):
    """Templates, tables and the mark that it has types among them."""
    for package in ("munkey", "snakemake_logger_plugin_munkey"):
        for path in (ROOT / "src" / package).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                assert (packages / path.relative_to(ROOT / "src")).is_file()


def test_the_wheel_has_every_page_that_the_package_names(packages):
    (pages,) = packages.glob("munkey-*.data/data/share/doc/munkey")
    named = set()
    for source in (ROOT / "src").rglob("*.py"):
        named.update(re.findall(r"docs/[\w/-]+\.md", source.read_text()))
    assert "docs/methods/newton.md" in named
    for page in [*named, "docs/nginx.conf", "docs/munkey.service", "SECURITY.md"]:
        assert (pages / page).read_bytes() == (ROOT / page).read_bytes()


def test_every_link_between_the_wheel_s_pages_leads_to_a_page(packages):
    (root,) = packages.glob("munkey-*.data/data/share/doc/munkey")
    links = []
    for page in root.rglob("*.md"):
        for target in re.findall(r"\]\(([^)#:\s]+)[)#]", page.read_text()):
            path = (page.parent / target).resolve()
            if path.is_relative_to(root / "docs"):
                links.append(path)
    assert len(links) > 300
    assert [path for path in links if not path.exists()] == []


def test_the_library_predicts_explains_forgets_and_verifies(packages, tmp_path):
    model = model_in(tmp_path / "model")
    picture = picture_in(tmp_path)
    code = f"""
from munkey import Predictor
from munkey.deploy.model import explain
with Predictor.load({str(model)!r}, device="cpu") as model:
    answer = model.predict({str(picture)!r})
    assert explain.table(answer)
    near = answer.neighbors.ids[0]
    deletion = model.forget(near[:1])
    assert near[0] not in model.predict({str(picture)!r}).neighbors.ids
    assert model.verify(deletion.receipt.after).sound
"""
    done = python(packages, "-c", code)
    assert done.returncode == 0, done.stderr


def test_the_command_forgets_and_verifies_and_says_what_else_it_needs(packages, tmp_path):
    model = model_in(tmp_path / "model")

    def munkey(*words: object) -> subprocess.CompletedProcess[str]:
        return python(packages, "-m", "munkey.cli", *words)

    for words in (
        ["--help"],
        ["forget", model, "--ids", "10", "--certificate", tmp_path / "certificate.json"],
        ["verify", model],
    ):
        done = munkey(*words)
        assert done.returncode == 0, done.stderr
    for words, extra in (
        (["serve", model], "service"),
        (["search-summary", tmp_path], "experiment"),
    ):
        done = munkey(*words)
        assert done.returncode == 2, done.stderr
        assert f"pip install 'munkey[{extra}]'" in done.stderr
        assert "Traceback" not in done.stderr
