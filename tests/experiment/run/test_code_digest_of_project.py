"""The digests of this project's scripts: what counts for them, and what does not."""

import ast
import itertools
import re
import shutil
import subprocess
import sys

import pytest

from munkey.experiment.run.code_digest import NO_INFLUENCE, PACKAGE, digest, explain

ROOT = PACKAGE.parents[1]
SCRIPTS = sorted((ROOT / "workflow/scripts").glob("*.py"))
ROOTS = {
    "train.py": ("munkey.models.families.munkey:MunkeyFamily.train",),
    "evaluate.py": ("munkey.models.families.munkey:MunkeyFamily.logits",),
    "unlearn.py": ("munkey.unlearn.methods.scrub:scrub", "munkey.models.families.vit:ViTFamily.build"),
}


@pytest.fixture
def copied(tmp_path):
    """A copy of the package and of the scripts, with each text changed by a function."""
    folders = (tmp_path / str(number) for number in itertools.count())

    def make(change):
        folder = next(folders)
        for path in [*PACKAGE.rglob("*.py"), *SCRIPTS]:
            target = folder / path.relative_to(PACKAGE.parent if path.is_relative_to(PACKAGE) else ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(change(path.read_text(), path))
        return folder

    return make


def digests(folder=None, roots=ROOTS):
    """Of the scripts of this project, or of a changed copy."""
    package = folder / "munkey" if folder else PACKAGE
    scripts = [(folder or ROOT) / path.relative_to(ROOT) for path in SCRIPTS]
    return {path.name: digest(path, *roots.get(path.name, ()), package=package) for path in scripts}


class Plain(ast.NodeTransformer):
    """Removes docstrings and the annotations of functions."""

    def visit_FunctionDef(self, node):
        node.returns = None
        return self.generic_visit(node)

    def visit_arg(self, node):
        node.annotation = None
        return node

    def visit_Expr(self, node):
        is_text = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        return ast.Expr(ast.Constant(...)) if is_text else self.generic_visit(node)


def added(text, path):
    """With definitions that nothing uses."""
    return f"{text}\n\nUNUSED_LIMIT = 3\n\n\ndef unused_sum(a, b):\n    return a + b\n\n\nclass UnusedKind:\n    pass\n"


def renamed(text, _):
    for old, new in [("data", "samples"), ("training", "learning"), ("evaluation", "judging")]:
        text = re.sub(rf"\bmunkey\.{old}\b", f"munkey.{new}", text)
    return re.sub(r"\bmunkey\.memory\.exemplars\b", "munkey.memory.keepsakes", text)


def test_neither_style_nor_unused_definitions_change_a_digest_of_this_project(copied):
    before = digests()
    assert len(before) == len(SCRIPTS) > 0
    assert len(set(before.values())) == len(before)
    assert all(re.fullmatch("[0-9a-f]{16}", each) for each in before.values())
    assert digests(copied(lambda text, _: ast.unparse(Plain().visit(ast.parse(text))))) == before
    assert digests(copied(lambda text, path: added(text, path) if path.is_relative_to(PACKAGE) else text)) == before


def test_renamed_packages_do_not_change_a_digest_of_this_project(copied):
    before = digests()
    folder = copied(renamed)
    for old, new in [("data", "samples"), ("training", "learning"), ("evaluation", "judging")]:
        shutil.move(folder / "munkey" / old, folder / "munkey" / new)
    shutil.move(folder / "munkey/memory/exemplars.py", folder / "munkey/memory/keepsakes.py")
    assert digests(folder) == before


@pytest.mark.parametrize(
    ("module", "old", "new", "changed", "unchanged"),
    [
        ("core/files", "0o644", "0o640", {"train.py", "unlearn.py", "summary.py", "track.py"}, set()),
        ("training/loop", "math.cos", "math.sin", {"train.py"}, {"evaluate.py", "metrics.py", "tables.py"}),
        ("models/forward", "def answers(", "@print\ndef answers(", {"evaluate.py"}, {"train.py", "unlearn.py"}),
        ("unlearn/methods/scrub", "student", "pupil", {"unlearn.py"}, {"train.py", "evaluate.py", "tables.py"}),
        ("pipeline/job", "redirect_stdout", "redirect_nothing", set(), {script.name for script in SCRIPTS}),
        ("settings", "ge=1", "ge=2", set(), {script.name for script in SCRIPTS}),
        ("pipeline/job", '"history": ', '"past": ', {"train.py", "unlearn.py"}, {"evaluate.py", "tables.py"}),
        ("core/gpu", "non_blocking=True", "non_blocking=False", {"train.py", "evaluate.py"}, {"tables.py"}),
        ("core/ids", "NOBODY = -1", "NOBODY = -2", {"train.py", "evaluate.py", "neighbors.py"}, {"tables.py"}),
        ("core/randomness", "sha256", "sha512", {"train.py", "forget.py"}, {"tables.py"}),
        ("training/precision", "set_to_none=True", "", {"train.py", "unlearn.py"}, {"evaluate.py", "tables.py"}),
    ],
)  # fmt: skip
def test_an_edit_changes_the_digests_of_the_scripts_that_use_it(copied, module, old, new, changed, unchanged):
    before = digests()
    after = digests(copied(lambda text, path: text.replace(old, new) if path == PACKAGE / f"{module}.py" else text))
    different = {name for name in before if after[name] != before[name]}
    assert old in (PACKAGE / f"{module}.py").read_text()
    assert changed <= different
    assert not unchanged & different


def test_edits_of_what_surrounds_the_work_change_no_digest(copied):
    edits = {
        ("pipeline/job", "milliseconds", "seconds"),
        ("pipeline/job", "2**31 - 1", "2**31 - 2"),
        ("core/registry", "is registered twice", "is known"),
        ("data/registry", "needs_path, folder, archive", "needs_path or False, folder, archive"),
        ("encoders/registry", "revision, hub, weights, build))", "revision or None, hub, weights, build))"),
        ("unlearn/contract", "latex_title or title", "latex_title if latex_title else title"),
        ("core/console", "s left", "seconds left"),
        ("core/device", "/dev/nvidia0", "/dev/nvidia1"),
        ("core/device", "if not gpus", "if gpus < 1"),
    }

    def edited(text, path):
        for module, old, new in edits:
            assert path != PACKAGE / f"{module}.py" or old in path.read_text()
            text = text.replace(old, new) if path == PACKAGE / f"{module}.py" else text
        return text

    registered = {
        "data.py": ("munkey.data.sets.digits:digits",),
        "keys.py": ("munkey.encoders.embedded:efficientnet_lite0",),
    }
    assert digests(copied(edited), ROOTS | registered) == digests(roots=ROOTS | registered)


@pytest.mark.parametrize(
    ("script", "used", "unused"),
    [
        (
            "train.py",
            {"training.loop:adamw", "models.networks.munkey:Munkey", "memory.exemplars:ExemplarMemory",
             "data.loader:Loader", "models.system:save", "models.families.munkey:MunkeyFamily.train"},
            {"models.system:load", "memory.exemplars:fuse", "models.families.munkey:MunkeyFamily.logits"},
        ),
        (
            "evaluate.py",
            {"models.networks.munkey:Munkey", "memory.exemplars:rank_weights", "models.system:load"},
            {"models.families.munkey:MunkeyFamily.train", "training.loop:adamw", "models.system:save"},
        ),
        ("metrics.py", {"core.files:write_csv", "data.forget_sets:read"}, {"core.files:write_npz"}),
        ("tables.py", {"core.files:write_text"}, {"core.files:write_npz"}),
        ("track.py", {"pipeline.mlflow_store:Store", "core.files:write_json"}, {"pipeline.tracking:outcome"}),
    ],
)  # fmt: skip
def test_scripts_depend_on_the_definitions_that_make_their_results(script, used, unused):
    (path,) = (path for path in SCRIPTS if path.name == script)
    found = {name.removeprefix("munkey.") for name in explain(path, *ROOTS.get(script, ()))}
    assert used <= found
    assert not unused & found


def test_no_result_depends_on_the_checks_of_parameters_or_on_the_job_around_it():
    modules = ("tracked", "tracking", "views", "mirror", "checkout", "job")
    mirrored = ("pipeline.mlflow_", *(f"pipeline.{name}." for name in modules))
    for script in SCRIPTS:
        for name in explain(script, *ROOTS.get(script.name, ())):
            dotted = f"{name.removeprefix('munkey.').replace(':', '.')}."
            assert not dotted.startswith(tuple(f"{each}." for each in NO_INFLUENCE))
            assert not dotted.startswith("pipeline.") or dotted.startswith(mirrored)


def test_what_is_said_to_have_no_influence_exists():
    for name in NO_INFLUENCE:
        module, _, definition = name.rpartition(".")
        if not (PACKAGE / f"{name.replace('.', '/')}.py").exists():
            tree = ast.parse((PACKAGE / f"{module.replace('.', '/')}.py").read_text())
            assert definition in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_settings_check_values_and_compute_none():
    """They are said to have no influence: a property that computes something would have one."""
    classes = [node for node in ast.parse((PACKAGE / "settings.py").read_text()).body if isinstance(node, ast.ClassDef)]
    methods = [node for each in classes for node in each.body if isinstance(node, ast.FunctionDef)]
    for method in methods:
        assert any("validator" in ast.unparse(decorator) for decorator in method.decorator_list), method.name
        assert [ast.unparse(node) for node in ast.walk(method) if isinstance(node, ast.Return)] == ["return self"]


def test_each_file_is_read_once_however_many_digests_are_wanted(copied, monkeypatch):
    folder, parsed = copied(lambda text, _: text), []
    parse = ast.parse
    monkeypatch.setattr(ast, "parse", lambda text: parsed.append(text) or parse(text))
    for _ in range(10):
        digests(folder)
    assert 0 < len(parsed) <= len(list(folder.rglob("*.py")))


def test_it_can_be_asked_what_counts_for_a_script():
    command = [sys.executable, "-m", "munkey.experiment.run.code_digest", ROOT / "workflow/scripts/forget.py"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == explain(ROOT / "workflow/scripts/forget.py")
    assert "munkey.core.randomness:Stage" in done.stdout.splitlines()
