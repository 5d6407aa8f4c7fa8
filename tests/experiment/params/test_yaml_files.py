"""Files that no reader of YAML should be left alone with are refused in a sentence that names file and place."""

from pathlib import Path

import pytest

from munkey.experiment.params.load import ParamsError
from munkey.experiment.params.yaml_files import check
from tests.conftest import ROOT

LINES = [
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
]
BOMB = "\n".join(["a: &a [x, x]", *LINES])


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"# nothing\n", "is empty"),
        (b"- a\n- b\n", "must hold keys at its top level"),
        (b"text", "must hold keys at its top level"),
        ("seeds: [0]".encode("utf-16"), "is not UTF-8 text (byte 0)"),
        (b"seeds: [0]\n\x9f\x92", "is not UTF-8 text (byte 11)"),
        (b"a: \x00", "not valid YAML"),
        (b"a: [1\nb: }", "not valid YAML"),
        (b"a: 1\n---\na: 2\n", "not valid YAML"),
        (b"a: *b\n", "not valid YAML"),
        (b"seeds: [0]\ntrain: {lr: 1.0}\nseeds: [1]\n", "the key 'seeds' stands on line 1 and again on line 3"),
        (b"train:\n  lr: 1.0\n  'lr': 2.0\n", "the key 'lr' stands on line 2 and again on line 3"),
        (b"a: [{b: 1, c: 2, b: 3}]", "the key 'b' stands on line 1 and again on line 1"),
        (BOMB.encode(), "its aliases (*NAME) make more than 100,000 values"),
        (BOMB.replace("[*", "{k: [*").replace("*]", "*]").replace("]", "]}").replace("x]}", "x]").encode(), "aliases"),
        (b"a: &a [*a]", "its aliases (*NAME) make more than 100,000 values of it, or refer to themselves"),
        (b"a: !!python/name:os.system", "holds something that is not a value: could not determine a constructor"),
        (b"a: 2026-11-32", "holds something that is not a value: day is out of range"),
        (b"a: " + b"1" * 5000, "holds something that is not a value: Exceeds the limit"),
        (b"{[1]: 2}", "holds something that is not a value: while constructing a mapping"),
        (b"a: " + b"[" * 50_000 + b"]" * 50_000, "is nested too deeply"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_in_a_sentence(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "x.yaml").write_bytes(content)
    with pytest.raises(ParamsError) as refused:
        check([tmp_path / "x.yaml"])
    said = str(refused.value)
    assert said.startswith(f"{tmp_path / 'x.yaml'}: ") and words in said and "\n" not in said


def test_the_projects_files_and_their_aliases_pass() -> None:
    check([ROOT / "params.yaml", *(ROOT / "workflow/presets").glob("*.yaml"), ROOT / "absent.yaml"])
