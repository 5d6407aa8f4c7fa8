"""Draws single changes ("mutants") of the package, applies each to a copy, and lists which ones the tests notice.

    python -m tools.mutants --map                        which test runs which line: once for a state of src, 15 minutes
    python -m tools.mutants --count 150 --seed 0 --jobs 2 --rooms deploy experiment

A room is a folder or module of src/munkey. The tests that run a changed line come first; then all beside the module and
of its room, tests/ROOM, since what runs in jobs and at import has no line of the map. The copy is a clone of the last
commit. A change that no test notices is a hole, or changes nothing that matters.
"""

import argparse
import ast
import contextlib
import os
import queue
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import coverage

ROOT = Path(__file__).parents[1]
PACKAGE = Path("src/munkey")
FOLDER = ROOT / "cache" / "mutants"
TEST = "MUTANTS_TEST"  # the test that runs, for the processes that it starts
MOST = 200  # tests that run a line and are tried for it
TESTS_OF = {  # of rooms without a folder of tests, and what runs their jobs
    "settings.py": ["tests/experiment"],
    "jobs": ["tests/jobs", "tests/integration/test_paper.py"],
    "__init__.py": ["tests/deploy/model"],
}
PAIRS = ("Lt LtE", "Gt GtE", "Eq NotEq", "Is IsNot", "In NotIn", "And Or", "Add Sub", "Mult Div")
OPPOSITE: dict[type[ast.AST], Any] = {}
for one, other in (pair.split() for pair in PAIRS):
    OPPOSITE |= {getattr(ast, one): getattr(ast, other), getattr(ast, other): getattr(ast, one)}
SWAPPED = {"min": "max", "max": "min"}
UNCHANGED_CALLS = {"Option", "Argument", "Field", "dataclass", "TypeVar", "cast", "Typer"}  # of texts and types
UNCHANGED_KEYWORDS = {"strict", "encoding", "help", "metavar", "title", "description", "citation", "label"}
Located = ast.expr | ast.stmt
tracing: list[Any] = [None]  # what notes the lines that run


@dataclass(frozen=True)
class Mutant:
    """A change of one node. start, end: bytes of the file; new: the text that replaces what stands there."""

    path: Path
    line: int
    start: int
    end: int
    old: str
    new: str

    @property
    def room(self) -> str:
        """The folder or module below the package."""
        return self.path.relative_to(PACKAGE).parts[0]

    @property
    def tests(self) -> list[str]:
        """Folders of tests: the nearest first, then those of the room."""
        room = TESTS_OF.get(self.room, [f"tests/{self.room}"])
        nearest = [] if self.path.parent == PACKAGE else [f"tests/{self.path.parent.relative_to(PACKAGE)}"]
        return list(dict.fromkeys(each for each in (*nearest, *room) if (ROOT / each).exists()))

    def ran(self, lines: dict[int, list[str]]) -> list[str]:
        """The tests that run a changed line, those beside the module first and whole pipelines last."""
        changed = range(self.line, self.line + self.old.count("\n") + 1)
        own = {test.partition("[")[0] for line in changed for test in lines.get(line, ())} - {""}
        near = self.tests[0] if self.tests else ""
        return sorted(own, key=lambda test: ("/integration/" in test, not test.startswith(near), test))[:MOST]

    def changed(self, source: bytes) -> bytes:
        """The file with this change."""
        return source[: self.start] + self.new.encode() + source[self.end :]

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {' '.join(self.old.split())} -> {self.new}"


def changes(node: ast.AST) -> Iterator[tuple[Located, Located]]:  # noqa: PLR0912 (a case for each kind of node)
    """Pairs of a node and what may stand in its place, for this node alone."""
    match node:
        case ast.Compare(ops=[op]) if type(op) in OPPOSITE:
            yield node, ast.Compare(node.left, [OPPOSITE[type(op)]()], node.comparators)
        case ast.BoolOp():
            yield node, ast.BoolOp(OPPOSITE[type(node.op)](), node.values)
        case ast.BinOp() if type(node.op) in OPPOSITE and not any(map(_is_text, (node.left, node.right))):
            yield node, ast.BinOp(node.left, OPPOSITE[type(node.op)](), node.right)
        case ast.Constant(value=bool() as value):
            yield node, ast.Constant(not value)
        case ast.Constant(value=int() | float() as value):
            yield node, ast.Constant(value + 1)
        case ast.Slice():
            for end, change in ((node.lower, ast.Add()), (node.upper, ast.Sub())):
                if end is not None and not isinstance(end, ast.Constant):
                    yield end, ast.BinOp(end, change, ast.Constant(1))
        case ast.Raise() | ast.Expr(value=ast.Call()):
            yield node, ast.Pass()
        case ast.If() | ast.While() | ast.IfExp():
            yield from ((node.test, ast.Constant(value)) for value in (True, False))
        case ast.comprehension(ifs=[test]):
            yield test, ast.Constant(True)
        case ast.Call():
            if isinstance(node.func, ast.Name) and node.func.id in SWAPPED:
                yield node.func, ast.Name(SWAPPED[node.func.id])
            for place, keyword in enumerate(node.keywords):
                if keyword.arg and keyword.arg not in UNCHANGED_KEYWORDS:
                    yield node, ast.Call(node.func, node.args, node.keywords[:place] + node.keywords[place + 1 :])


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def nodes(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes that a run depends on: no annotations, texts, imports for types, options of commands, strict=True."""
    if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in UNCHANGED_CALLS:
        return
    if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)):
        return
    if isinstance(node, ast.keyword) and node.arg in UNCHANGED_KEYWORDS:
        return
    yield node
    for name, value in ast.iter_fields(node):
        if name not in {"annotation", "returns"}:
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from nodes(child)


def mutants_of(path: Path) -> list[Mutant]:
    """All single changes of a file, a few of which are no valid Python. path: relative to the project."""
    source = (ROOT / path).read_bytes()
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found = []
    for old, new in (pair for node in nodes(ast.parse(source)) for pair in changes(node)):
        start = starts[old.lineno - 1] + old.col_offset
        end = starts[(old.end_lineno or old.lineno) - 1] + (old.end_col_offset or 0)
        text = ast.unparse(ast.fix_missing_locations(new))
        if text == ast.unparse(old):  # `while True`
            continue
        text = f"({text})" if isinstance(new, ast.BinOp | ast.BoolOp | ast.Compare) else text
        found.append(Mutant(path, old.lineno, start, end, source[start:end].decode(), text))
    return found


def draw(count: int, seed: int, rooms: list[str]) -> list[Mutant]:
    """Different changes, each room's number growing with the square root of how many are possible there."""
    by_room: dict[str, list[Mutant]] = defaultdict(list)
    for path in sorted((ROOT / PACKAGE).rglob("*.py")):
        for mutant in mutants_of(path.relative_to(ROOT)):
            if not rooms or mutant.room.removesuffix(".py") in rooms:
                by_room[mutant.room].append(mutant)
    if not by_room:
        raise SystemExit(f"nothing to change in {', '.join(rooms)}")
    chance = random.Random(seed)
    weights = [len(each) ** 0.5 for each in by_room.values()]
    drawn: list[Mutant] = []
    while len(drawn) < count and any(by_room.values()):
        (room,) = chance.choices(list(by_room), weights)
        if by_room[room]:
            mutant = by_room[room].pop(chance.randrange(len(by_room[room])))
            with contextlib.suppress(SyntaxError):
                ast.parse(mutant.changed((ROOT / mutant.path).read_bytes()))
                drawn.append(mutant)
    return drawn


def pytest_runtest_logstart(nodeid: str) -> None:
    """As a plugin of pytest: what runs from now on is run by this test."""
    os.environ[TEST] = nodeid
    if measured := coverage.Coverage.current():
        tracing[0] = sys.gettrace() or tracing[0]
        sys.settrace(tracing[0])  # the debuggers that are tested leave none
        measured.switch_context(nodeid)


def map_file() -> Path:
    """Where the map of this state of src lies."""
    tree = subprocess.run(["git", "rev-parse", "HEAD:src"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return FOLDER / f"{tree.strip()}.coverage"


def draw_map(jobs: int) -> None:
    """Run all tests once, and note which of them run which line. Says if some fail: they would notice any change."""
    clone(project := FOLDER / "project")
    parts = FOLDER / "parts"
    shutil.rmtree(parts, ignore_errors=True)
    settings = f"source = {project / PACKAGE}\ndata_file = {parts}/part\nparallel = true\nsigterm = true"
    (FOLDER / "coverage.ini").write_text(f"[run]\n{settings}\ncontext = ${{{TEST}-}}\n")
    os.environ["COVERAGE_PROCESS_START"] = str(FOLDER / "coverage.ini")
    passed = passes(project, ["-p", "tools.mutants", "-n", str(jobs), "--dist", "loadfile"], 7200, output=None)
    made = coverage.Coverage(map_file(), config_file=FOLDER / "coverage.ini")
    made.combine([str(part) for part in parts.iterdir()], strict=True)
    made.save()
    print(map_file(), "" if passed else "; the tests above fail without any change", sep="")


def passes(project: Path, tests: list[str], timeout: float, output: int | None = subprocess.DEVNULL) -> bool:
    """Whether these tests of a copy of the project pass; not if they take too long."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
    paths = {"PYTHONPATH": f"{project}/src", "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        command, cwd=project, env=os.environ | paths, stdout=output, stderr=output, start_new_session=True
    ) as process:
        try:
            return process.wait(timeout) == 0
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return False


def clone(project: Path) -> None:
    """A new copy of the last commit, in place of what is left of an old one."""
    shutil.rmtree(project, ignore_errors=True)
    subprocess.run(["git", "clone", "-q", "--shared", ROOT, project], check=True)


def run(drawn: list[Mutant], jobs: int, timeout: float) -> None:
    """Try each change in one of `jobs` copies, and print if it is noticed. Raises SystemExit without a map."""
    if not map_file().exists():
        raise SystemExit("no map of this state of src: first, python -m tools.mutants --map")
    known = coverage.CoverageData(map_file())
    known.read()
    lines = {path: known.contexts_by_lineno(str(FOLDER / "project" / path)) for path in {each.path for each in drawn}}
    copies: queue.Queue[Path] = queue.Queue()
    noticed: dict[str, list[bool]] = defaultdict(list)

    def try_out(mutant: Mutant) -> None:
        project = copies.get()
        file = project / mutant.path
        source = file.read_bytes()
        file.write_bytes(mutant.changed(source))
        tried = (tests for tests in (mutant.ran(lines[mutant.path]), *([each] for each in mutant.tests)) if tests)
        found = not all(passes(project, ["-x", *tests], timeout) for tests in tried)
        if file.exists():
            file.write_bytes(source)
        else:  # a change can make the tests remove their own copy
            clone(project)
        copies.put(project)
        noticed[mutant.room].append(found)
        print(f"{'noticed  ' if found else 'UNNOTICED'}  {mutant}", flush=True)

    with tempfile.TemporaryDirectory(prefix="mutants-") as folder, ThreadPoolExecutor(jobs) as workers:
        for number in range(jobs):
            clone(Path(folder, str(number)))
            copies.put(Path(folder, str(number)))
        list(workers.map(try_out, drawn))
    rooms = [*sorted(noticed.items()), ("all", [each for found in noticed.values() for each in found])]
    for room, outcomes in rooms:
        print(f"{room:12} {sum(outcomes):4} of {len(outcomes):4}  {sum(outcomes) / len(outcomes):.0%}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=150)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rooms", nargs="*", default=[], help="folders of src/munkey; default: all")
    parser.add_argument("--jobs", type=int, default=2, help="copies that are tested at once (default: %(default)s)")
    parser.add_argument("--timeout", type=float, default=900, help="seconds for one folder of tests")
    parser.add_argument("--map", action="store_true", help="note which test runs which line, and stop")
    asked = parser.parse_args()
    draw_map(asked.jobs) if asked.map else run(draw(asked.count, asked.seed, asked.rooms), asked.jobs, asked.timeout)
