"""A digest changes with the code that a result depends on, and with nothing else."""

import importlib
import itertools
import os
import subprocess
import sys
from textwrap import dedent

import pytest

from munkey.experiment.run.code_digest import digest, explain

CODE = '''
"""Adds."""

def add(a, b):
    """The sum."""
    return a + b  # of both

class Sum:
    """Something."""
    zero: int = 0
'''


class Project:
    """A script and a package `munkey`; both can be changed only before the first digest."""

    def __init__(self, folder):
        self.package, self.path = folder / "munkey", folder / "script.py"

    def write(self, script, modules):
        for name, text in modules.items():
            path = self.package / f"{name}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(dedent(text))
        self.package.mkdir(exist_ok=True)
        self.path.write_text(dedent(script))
        return self

    def digest(self, *roots):
        return digest(self.path, *roots, package=self.package)

    def explain(self, *roots):
        return [name.removeprefix("munkey.") for name in explain(self.path, *roots, package=self.package)]


@pytest.fixture
def project(tmp_path):
    """A new project from the text of a script and of modules."""
    folders = (tmp_path / str(number) for number in itertools.count())

    def make(script, modules=None):
        folder = next(folders)
        folder.mkdir()
        return Project(folder).write(script, modules or {})

    return make


@pytest.mark.parametrize("where", ["script", "module"])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("  # of both", ""),
        ("# of both", "# of these two"),
        ("The sum.", "The sum of two numbers."),
        ('    """The sum."""\n', ""),
        ('    """Something."""\n', ""),
        ('"""Adds."""', ""),
        ("a + b", "(a\n            + b)"),
        ("(a, b)", "( a,b )"),
        ("(a, b)", "(a: int, b: 'float') -> float"),
        ("\nclass", "\n\n\nclass"),
    ],
)
def test_comments_docstrings_formatting_and_annotations_of_functions_do_not_count(project, where, old, new):
    assert old in CODE

    def digest_of(text):
        users = {"script": (text, {}), "module": ("from munkey.sums import Sum, add\nadd(Sum, 1)", {"sums": text})}
        return project(*users[where]).digest()

    assert digest_of(CODE.replace(old, new)) == digest_of(CODE)


@pytest.mark.parametrize("where", ["script", "module"])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("a + b", "a - b"),
        ("zero: int = 0", "zero: int = 1"),
        ("zero: int = 0", 'zero: int = "0"'),
        ("zero: int", "zero: float"),
        ("zero: int = 0", "zero: int"),
        ("(a, b)", "(a, b=1)"),
        ("def add", "@print\ndef add"),
    ],
)
def test_code_counts(project, where, old, new):
    assert old in CODE

    def digest_of(text):
        users = {"script": (text, {}), "module": ("from munkey.sums import Sum, add\nadd(Sum, 1)", {"sums": text})}
        return project(*users[where]).digest()

    assert digest_of(CODE.replace(old, new)) != digest_of(CODE)


def test_a_text_that_is_not_a_docstring_counts(project):
    assert project("def f():\n    return 'a'").digest() != project("def f():\n    return 'b'").digest()
    assert project("x = 1\n'''a'''\nx = 2").digest() != project("x = 1\n'''a'''\nx = 3").digest()


def test_annotations_of_variables_do_not_count(project):
    plain = project("from munkey.a import f\nf()", {"a": "LIMIT = 3\ndef f():\n    x = LIMIT\n    return x"})
    typed = project(
        "from munkey.a import f\nf()",
        {
            "a": "from munkey.b import T\nLIMIT: T = 3\ndef f():\n    x: T\n    x: T = LIMIT\n    return x",
            "b": "T = int",
        },
    )
    assert typed.digest() == plain.digest()
    assert typed.explain() == ["a:LIMIT", "a:f"]


USES = [
    "import munkey.data.files\nmunkey.data.files.write(1)",
    "import munkey.data.files as f\nf.write(1)",
    "from munkey.data import files\nfiles.write(1)",
    "from munkey.data.files import write\nwrite(1)",
    "from munkey.data.files import write as w\nw(1)",
    "from munkey import data\ndata.files.write(1)",
]


@pytest.mark.parametrize("use", USES)
def test_it_does_not_matter_how_a_definition_is_imported(project, use):
    files = {"data/files": "def write(x):\n    print(x)"}
    assert project(use, files).digest() == project(USES[0], files).digest()
    assert project(use, files).explain() == ["data.files:write"]


def test_a_module_can_be_renamed_or_moved_without_a_trace(project):
    tools = "from munkey import core\nimport munkey.sums\ndef twice(x):\n    return munkey.sums.add(x, x)"
    before = project(
        "from munkey import tools\nfrom munkey.core import sums\nprint(tools.twice(2), sums.ZERO)",
        {
            "tools": tools.replace("munkey.sums", "munkey.core.sums"),
            "core/sums": "ZERO = 0\ndef add(a, b): return a + b",
        },
    )
    after = project(
        "from munkey.math.double import twice as t\nimport munkey.math.plus.sums as s\nprint(t(2), s.ZERO)",
        {
            "math/double": "from munkey.math.plus.sums import add\ndef twice(x):\n    return add(x, x)",
            "math/plus/sums": "ZERO = 0\ndef add(a, b): return a + b",
            "math/plus/__init__": "",
        },
    )
    assert after.digest() == before.digest()


def test_a_registry_that_names_its_package_can_be_moved_with_it(project):
    script = "from munkey.{0} import ENTRIES\nprint(ENTRIES['a'])"
    registry = "class Entries(dict): pass\nENTRIES = Entries(package='munkey.{0}.sets')"
    before = project(script.format("data"), {"data/__init__": registry.format("data"), "data/sets/a": "A = 1"})
    after = project(script.format("input"), {"input/__init__": registry.format("input"), "input/sets/a": "A = 1"})
    assert after.digest() == before.digest()


def test_a_definition_counts_with_all_that_it_uses_at_any_depth_and_inside_functions(project):
    made = project(
        "import munkey.a\nimport numpy\nmunkey.a.f(numpy.ones(1))",
        {
            "a": "import munkey.b\nimport numpy\ndef f(x):\n    return munkey.b.f(x)",
            "b": "def f(x):\n    from munkey import c\n    return c.f(x)\ndef g():\n    from munkey import e",
            "c": "from munkey.d import thing as other\ndef f(x):\n    return x + other",
            "d": "thing = 1",
            "e": "import munkey.a",
        },
    )
    assert made.explain() == ["a:f", "b:f", "c:f", "d:thing"]


def test_what_imports_from_elsewhere_is_followed_to_where_it_is_defined(project):
    direct = project("from munkey.b import f\nf()", {"b": "def f(): pass"})
    through = project("from munkey.a import f\nf()", {"a/__init__": "from munkey.b import f", "b": "def f(): pass"})
    assert through.explain() == ["b:f"]
    assert through.digest() == direct.digest()


def test_an_edit_counts_for_what_uses_it_only(project):
    code = "LIMIT = 3\nclass Sum:\n    def add(self): return LIMIT\ndef f(): return Sum().add()\ndef g(): return 1"

    def digests(text):
        scripts = ("from munkey.a import f\nf()", "from munkey.a import Sum\nSum()", "from munkey.a import g\ng()")
        return [project(script, {"a": text}).digest() for script in scripts]

    original = digests(code)
    for old, new, expected in [
        ("LIMIT = 3", "LIMIT = 4", [True, True, False]),
        ("return LIMIT", "return -LIMIT", [True, True, False]),
        ("Sum().add()", "Sum().add() + 1", [True, False, False]),
        ("return 1", "return 2", [False, False, True]),
        ("def g", "def unused():\n    return LIMIT\nclass Unused: pass\nUNUSED = 5\ndef g", [False] * 3),
    ]:
        assert old in code
        changed = [now != before for now, before in zip(digests(code.replace(old, new)), original, strict=True)]
        assert changed == expected, new


def test_definitions_of_the_same_name_cannot_be_swapped_unnoticed(project):
    files = {"a": "def load(): return 1", "b": "def load(): return 2"}
    code = "from munkey import a, b\ndef run(): return {}.load() - {}.load()\nrun()"
    assert project(code.format("a", "b"), files).digest() != project(code.format("b", "a"), files).digest()
    script = "from munkey.c import run\nrun()"
    digests = [project(script, files | {"c": code.format(*names)}).digest() for names in ("ab", "ba")]
    assert digests[0] != digests[1]


def test_a_name_of_another_library_counts_by_where_it_is_from(project):
    def digest_of(head, name):
        return project("from munkey.a import f\nf()", {"a": f"{head}\ndef f(): return {name}(1)"}).digest()

    assert digest_of("from numpy import sqrt", "sqrt") == digest_of("import numpy as np", "np.sqrt")
    assert digest_of("from numpy import sqrt", "sqrt") != digest_of("from math import sqrt", "sqrt")


def test_what_only_types_need_stays_out_but_its_alternative_counts(project):
    made = project(
        "from munkey.a import f\nf()",
        {
            "a": """
            from typing import TYPE_CHECKING
            from munkey.b import thing
            if TYPE_CHECKING:
                from munkey.c import Thing
            else:
                from munkey.d import Thing
            def f(x: Thing) -> Thing:
                return Thing(thing)
            """,
            "b": "thing = 1",
            "c": "Thing = 1",
            "d": "Thing = 2",
        },
    )
    assert made.explain() == ["a:f", "b:thing", "d:Thing"]


def test_variables_of_a_function_are_not_taken_for_definitions_of_the_same_name(project):
    made = project(
        "from munkey.a import f\nf(1)",
        {
            "a": """
            from munkey import keys, rows
            def f(keys):
                rows = [cell for cell in keys]
                size = lambda limit: limit + 1
                for value in rows:
                    print(value, size(value))
            def cell(): return 1
            def value(): return 1
            limit = 1
            """,
            "keys": "KEY = 1",
            "rows": "ROW = 1",
        },
    )
    assert made.explain() == ["a:f"]


def test_defaults_decorators_first_iterables_and_global_names_are_seen_outside_of_the_function(project):
    made = project(
        "from munkey.a import f, g, h\nf(), g(), h()",
        {
            "a": """
            from munkey.b import limit, wrap, row
            count = 4
            def f(limit=limit):
                return limit
            @wrap
            def g(wrap):
                return [row for row in row]
            def h():
                global count
                count = count + 1
            """,
            "b": "limit = 1\nwrap = 2\nrow = 3\nother = 5",
        },
    )
    assert made.explain() == ["a:count", "a:f", "a:g", "a:h", "b:limit", "b:row", "b:wrap"]


def test_names_in_a_class_body_do_not_hide_those_outside_of_it(project):
    code = "from munkey.b import load\nclass A:\n    def load(self):\n        return load()"
    assert project("from munkey.a import A\nA()", {"a": code, "b": "def load(): pass"}).explain() == ["a:A", "b:load"]


def test_a_module_that_is_handed_on_counts_as_a_whole(project):
    files = {"a": "x = 1\ndef f(): return y", "b": "y = 1"}
    assert project("from munkey import a\nprint(a)", files).explain() == ["a:f", "a:x"]
    assert project("import munkey.a\nprint(vars(munkey.a))", files).explain() == ["a:f", "a:x"]
    assert project("from munkey import a\nprint(a.__file__)", files).explain() == ["a:f", "a:x"]


def test_a_definition_that_stands_in_for_an_import_counts_with_it(project):
    code = "try:\n    from munkey.fast import f\nexcept ImportError:\n    def f(): return 1"
    made = project("from munkey.a import f\nf()", {"a": code, "fast": "def f(): return 2"})
    assert made.explain() == ["a:f", "fast:f"]
    for old, new in [("return 1", "return 0"), ("ImportError", "OSError")]:
        assert (
            project("from munkey.a import f\nf()", {"a": code.replace(old, new), "fast": "def f(): return 2"}).digest()
            != made.digest()
        )


def test_statements_that_a_used_module_runs_on_import_count(project):
    code = "TABLE = {}\nTABLE['a'] = 1\nfor i in range(3):\n    TABLE[i] = i\ndef f(): return 1"
    script = "from munkey.a import f\nf()"
    made = project(script, {"a": code})
    assert made.explain() == ["a:<statements>", "a:TABLE", "a:f", "a:i"]
    for old, new in [("['a'] = 1", "['a'] = 2"), ("range(3)", "range(4)"), ("{}", "{0: 0}")]:
        assert project(script, {"a": code.replace(old, new)}).digest() != made.digest()
    assert project(script, {"a": f"{code}\nother = 1\n'''What it is.'''"}).digest() == made.digest()


def test_the_digest_is_the_same_in_every_process_and_whatever_the_order_of_files(project):
    files = {name: f"from munkey import c\ndef {name}(): return c.c(*{{'x', 'y'}})" for name in ("a", "b")}
    files["c"] = "def c(*names): return names"
    script = "from munkey import a, b\na.a(), b.b()"
    first, second = project(script, files), project(script, dict(reversed(files.items())))
    code = (
        "import sys; from pathlib import Path; from munkey.experiment.run.code_digest import digest;"
        "print(*(digest(Path(p, 'script.py'), package=Path(p, 'munkey')) for p in sys.argv[1:]))"
    )
    for hash_seed in ("1", "2", "3"):
        done = subprocess.run(
            [sys.executable, "-c", code, first.path.parent, second.path.parent],
            env=os.environ | {"PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.split() == [first.digest(), first.digest()]


# Roots

KINDS = """
from munkey.rest import Base, add, sub, half
def register(kind): return kind()
@register
class Vit(Base):
    def train(self): return self.build() + add(1)
    def answer(self): return sub(1)
    def build(self): return half(1)
    def other(self): return 1
"""
REST = """
class Base:
    def epochs(self): return EPOCHS
    def unused(self): return 1
EPOCHS = 2
def add(x): return x
def sub(x): return x
def half(x): return x
"""


def test_what_a_registry_finds_counts_where_it_is_named(project):
    made = project("x = 1", {"cf": "def f(): return g()\ndef g(): return 1", "ssd": "y = 2"})
    assert made.explain() == []
    assert made.explain("munkey.cf:f") == ["cf:f", "cf:g"]
    assert len({made.digest("munkey.cf:f"), made.digest("munkey.ssd:y"), made.digest()}) == 3
    assert made.digest("munkey.cf:f", "munkey.ssd:y") == made.digest("munkey.ssd:y", "munkey.cf:f")


@pytest.mark.parametrize("root", ["munkey.cf:h", "munkey.nothing:f", "numpy:sqrt", "munkey.cf", len, None, 3])
def test_a_root_that_the_package_does_not_define_is_refused(project, root):
    with pytest.raises(LookupError, match="is defined neither in munkey"):
        project("x = 1", {"cf": "def f(): return 1"}).digest(root)


def test_of_an_object_those_members_count_that_are_used(project):
    made = project("from elsewhere import KINDS\nKINDS[0].train().epochs()", {"kinds": KINDS, "rest": REST})
    expected = ["kinds:Vit.build", "kinds:Vit.epochs", "kinds:Vit.train", "rest:EPOCHS", "rest:add", "rest:half"]
    assert made.explain("munkey.kinds:Vit.train") == expected
    edited = KINDS.replace("sub(1)", "sub(2)").replace("return 1", "return 2")
    assert project(made.path.read_text(), {"kinds": edited, "rest": REST}).digest("munkey.kinds:Vit.train") == (
        made.digest("munkey.kinds:Vit.train")
    )
    for old, new in [("add(1)", "add(2)"), ("half(1)", "half(2)")]:
        edited = project(made.path.read_text(), {"kinds": KINDS.replace(old, new), "rest": REST})
        assert edited.digest("munkey.kinds:Vit.train") != made.digest("munkey.kinds:Vit.train")
    assert "kinds:Vit" in made.explain("munkey.kinds:Vit")


def test_roots_can_be_functions_classes_methods_and_objects(tmp_path, monkeypatch):
    package = tmp_path / "toolbox"
    package.mkdir()
    (package / "kinds.py").write_text(KINDS.replace("munkey", "toolbox"))
    (package / "rest.py").write_text(REST)
    script = tmp_path / "script.py"
    script.write_text("from elsewhere import kind\nkind.train()")
    monkeypatch.syspath_prepend(tmp_path)
    kinds, rest = importlib.import_module("toolbox.kinds"), importlib.import_module("toolbox.rest")

    def explained(root):
        return [name.removeprefix("toolbox.") for name in explain(script, root, package=package)]

    assert explained(rest.add) == ["rest:add"]
    assert explained(rest.Base) == ["rest:Base", "rest:EPOCHS"]
    train = ["kinds:Vit.build", "kinds:Vit.train", "rest:add", "rest:half"]
    assert explained(kinds.Vit) == explained(kinds.Vit.train) == train
    assert explained(kinds.Vit.epochs) == sorted([*train, "kinds:Vit.epochs", "rest:EPOCHS"])
    assert explained(type(kinds.Vit).answer) == sorted([*train, "kinds:Vit.answer", "rest:sub"])
    assert explained(kinds.register) == ["kinds:register"]
