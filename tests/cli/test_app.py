"""All commands but `forget`: their output, and how each ends: an error and a code, never a traceback."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from munkey import ForgettingLDA
from munkey.cli import output
from munkey.cli.app import CHECK, COMMANDS, USE
from munkey.cli.arguments import decode_cell, encode_cell
from munkey.core.console import escape_unprintable
from munkey.core.files import write_json
from munkey.deploy.http import server
from munkey.deploy.model.manifest import read_manifest
from munkey.deploy.predictor import Predictor
from tests.cli.conftest import replace_model
from tests.deploy.inputs import CLASSES, IDS, contents, picture_in
from tests.pages import blocks


def test_help_imports_nothing_heavy():
    code = (
        "import sys\nfrom munkey.cli.app import app\n"
        "try:\n    app(['forget', '--help'])\nexcept SystemExit:\n    pass\n"
        "print('HEAVY', *sorted({'torch', 'numpy', 'pandas', 'mlflow', 'fastapi', 'PIL'} & set(sys.modules)))\n"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert process.stdout.splitlines()[-1] == "HEAVY"


def test_forgetting_imports_no_torch(model):
    code = (
        f"import sys\nsys.argv = ['munkey', 'forget', '{model}', '--ids', '10']\nfrom munkey.cli.app import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\nprint('torch' in sys.modules)\n"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert process.stdout.startswith("forgot 1 sample,")
    assert process.stdout.endswith("\nFalse\n")


@pytest.mark.parametrize(
    "command_function", COMMANDS[USE] + COMMANDS[CHECK], ids=lambda function: function.__name__
)
def test_every_command_has_help_with_an_example_and_json(command_function, munkey):
    command = command_function.__name__.strip("_")
    result = munkey(command, "--help")
    assert result.code == 0
    assert f"munkey {command} " in result.out
    assert "--json" in result.out


def test_the_help_groups_the_commands_by_purpose(munkey):
    headings = re.findall(r"^(\S.*):$", munkey("--help").out, re.MULTILINE)
    assert headings == ["Options", "Use a model", "Check and maintain a model", "Run experiments"]
    assert "\n  compare-paper " in munkey("--help").out
    assert "external-state" not in munkey("--help").out


def test_predict_names_all_bad_pictures_at_once_or_leaves_them_out(
    munkey, model, tmp_path, monkeypatch
):
    monkeypatch.setattr("munkey.cli.use.BATCH_SIZE", 2)  # bad ones in parts of their own
    names = ["0.png", "1.png", "2.png", "3.png", "4.png"]
    for seed, name in enumerate(names):
        picture_in(tmp_path, name, seed)
    for name in ("1.png", "4.png"):
        (tmp_path / name).write_bytes(b"")
    words = ["predict", model, *(tmp_path / name for name in names)]
    result = munkey(*words)
    assert result.code == 2
    assert "1.png: cannot be read" in result.err
    assert "4.png: cannot be read" in result.err
    result = munkey(*words, "--on-bad", "skip", "--json")
    skipped = [Path(prediction["file"]).name for prediction in result.json["predictions"]]
    assert skipped == ["0.png", "2.png", "3.png"]
    assert "munkey: skipped 1 picture: " in result.err
    assert "1.png" in result.err
    assert "4.png" in result.err


def test_pictures_are_answered_as_by_the_predictor(munkey, model, tmp_path):
    files = [picture_in(tmp_path / "pictures", f"{seed}.png", seed) for seed in range(3)]
    result = munkey("predict", model, tmp_path / "pictures", "--json", "--explain")
    with Predictor.load(model) as predictor:
        expected = predictor.predict(files)
    answers = result.json["predictions"]
    assert [answer["file"] for answer in answers] == [str(file) for file in files]
    assert [answer["class"] for answer in answers] == list(expected.classes)
    for answer, row in zip(answers, expected.probabilities, strict=True):
        probabilities = dict(zip(CLASSES, row.tolist(), strict=True))
        assert answer["probabilities"] == pytest.approx(probabilities)
    assert [near["id"] for near in answers[0]["neighbors"]] == expected.neighbors.ids[0].tolist()
    text = munkey("predict", model, files[0], "--explain").out
    assert text.startswith(f"{files[0]}: {expected.classes[0]} (")
    assert text.count("\n") == 6
    assert result.json["basis"] in text
    assert "tokens" in text


def test_a_typed_unit_that_means_none_is_not_added(munkey, model, tmp_path):
    picture = picture_in(tmp_path, "Anna's.png", 3)
    result = munkey("add", model, picture, "--class", "cat", "--unit", "NA")
    assert result.code == 2
    assert "--unit 'NA' means no unit" in result.err
    assert not munkey("find", model, picture, "--above", 0.99999, "--json").json["pictures"][0][
        "samples"
    ]


def test_a_sample_is_found_by_its_picture_with_person_and_file(munkey, model, tmp_path):
    picture = picture_in(tmp_path, "Anna's.png", 3)
    result = munkey("add", model, picture, "--class", "cat", "--unit", "Anna K.", "--json")
    added = result.json["ids"]
    result = munkey("find", model, picture, "--count", 3, "--json")
    assert result.code == 0, result.err
    [answer] = result.json["pictures"]
    assert answer["file"] == str(picture)
    assert len(answer["samples"]) == 3
    first = answer["samples"][0]
    assert first.pop("cosine") == pytest.approx(1, abs=1e-5)
    expected = {"copy": True, "id": added[0], "class": "cat"}
    assert first == expected | {"unit": "Anna K.", "file": str(picture)}
    assert [sample["copy"] for sample in answer["samples"][1:]] == [False, False]
    text = munkey("find", model, picture, "--above", 0.9999).out
    assert text.splitlines()[0] == f"{picture}:"
    assert "exact copy" in text
    assert "Anna K." in text
    other = picture_in(tmp_path, "other.png", 4)
    assert "no sample is that similar" in munkey("find", model, other, "--above", 0.9999).out


def test_rows_of_several_files_are_numbered_in_each(munkey, tmp_path):
    rows = np.eye(6)
    ForgettingLDA().fit(rows, np.arange(6) % 2).save(tmp_path / "rows")
    files = [tmp_path / "first.npy", tmp_path / "second.npy"]
    for file in files:
        np.save(file, rows[:2])
    lines = munkey("find", tmp_path / "rows", *files, "--count", 1).out.splitlines()
    headings = [line for line in lines if line.endswith(":")]
    first, second = files
    assert headings[:2] == [f"{first}, row 1:", f"{first}, row 2:"]
    assert headings[2:] == [f"{second}, row 1:", f"{second}, row 2:"]


def test_find_refuses_a_file_that_is_no_picture(munkey, model, tmp_path):
    picture = picture_in(tmp_path)
    assert munkey("find", model, tmp_path / "nowhere.png").code == 2
    skipped = munkey("find", model, tmp_path / "nowhere.png", picture, "--on-bad", "skip")
    assert skipped.code == 0
    assert "munkey: skipped 1 picture" in skipped.err
    assert "nowhere.png" in skipped.err
    assert munkey("find", model, picture, "--count", 0).code == 2


@pytest.mark.parametrize("place", ["memory.db", "manifest.json", "new.json", "new/../new/one.json"])
@pytest.mark.parametrize(
    "words",
    [
        ["forget", "--ids", "10", "--certificate"],
        ["certificate"],
        ["explore", "--html"],
    ],
)
def test_nothing_is_written_into_a_model(words, place, munkey, model, tmp_path, monkeypatch):
    monkeypatch.chdir(picture_in(tmp_path).parent)
    munkey("forget", model, "--ids", "12")
    (tmp_path / "link").symlink_to(model)
    before = contents(model)
    for folder in (model, "model", "link"):
        result = munkey(words[0], "model", *words[1:], Path(folder) / place)
        assert result.code == 2
        assert f"{place}: is inside the model" in result.err
    assert contents(model) == before
    assert munkey("verify", model).code == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"encoder": "evil"}, "unknown encoder 'evil'"),
        ({"encoder": "timm:evil"}, "timm's model 'evil'"),
        ({"encoder": "none/evil"}, "no config.json"),
        ({"image_size": None}, "efficientnet-lite0 cannot be loaded"),
    ],
    ids=str,
)
def test_an_encoder_that_cannot_be_loaded_is_refused(changes, message, munkey, model, tmp_path):
    manifest = read_manifest(model)
    settings = manifest.encoder.settings.model_copy(update=changes)
    encoder = manifest.encoder.model_copy(update={"settings": settings})
    manifest.model_copy(update={"encoder": encoder}).write(model)
    result = munkey("predict", model, picture_in(tmp_path))
    assert result.code == 2
    assert result.out == ""
    assert result.err.startswith("munkey: ")
    assert message in result.err


def test_names_cannot_command_the_terminal(munkey, model, tmp_path):
    picture = picture_in(tmp_path, "a\x1b[2J\u202e\x9b1mb.png")
    for words in ([], ["--json"]):
        result = munkey("predict", model, picture, *words)
        assert result.code == 0
        assert r"a\u001b[2J\u202e\u009b1mb.png" in result.out
    assert result.json["predictions"][0]["file"] == str(picture)
    assert r"\u001b[2J" in munkey("predict", model, f"{picture}?").err


def test_added_pictures_are_listed_and_do_not_come_back_once_blocked(munkey, model, tmp_path):
    picture = picture_in(tmp_path)
    add = ["add", model, picture, "--class", "fish"]
    addition = munkey(*add, "--json")
    assert addition.code == 0
    assert addition.json["class"] == "fish"
    assert addition.json["identical"] == {}
    [first] = addition.json["ids"]
    with Predictor.load(model) as predictor:
        assert predictor.ids.tolist() == [*IDS, first]
    addition = munkey(*add, "--unit", "Anna", "--json")
    [second] = addition.json["ids"]
    assert addition.json["identical"] == {str(second): [first]}
    [sample] = munkey("list", model, "--unit", "Anna", "--json").json["samples"]
    assert sample["id"] == second
    munkey("forget", model, "--ids", f"{first},{second}", "--block-return")
    refused = munkey(*add)
    assert refused.code == 2
    assert f"{picture}; --allow-blocked" in refused.err
    assert munkey(*add, "--allow-blocked").code == 0
    for label in ("bird", "1"):
        refused = munkey("add", model, picture, "--class", label)
        assert refused.code == 2
        assert f"'{label}' is not a class" in refused.err
        assert "cat, dog & co, fish" in refused.err


def test_the_former_name_of_an_option_is_refused_with_the_new_one(munkey, model, tmp_path):
    refused = munkey("add", model, picture_in(tmp_path), "--label", "fish")
    assert refused.code == 2
    assert "renamed to --class" in " ".join(refused.err.split())
    assert "--label" not in munkey("add", "--help").out


def test_a_model_is_served_on_this_machine_alone_by_default(munkey, model, monkeypatch):
    calls = []
    monkeypatch.setattr(server, "serve", lambda *words: calls.append(words[:5]))
    munkey("serve", model)
    token = model / "token"
    options = ["--host", "0.0.0.0", "--port", 0, "--token-file", token, "--purge-within", "60"]
    munkey("serve", model, *options)
    assert calls == [
        (model, "127.0.0.1", 8000, None, 600),
        (model, "0.0.0.0", 0, token, 60),
    ]


def test_the_ids_of_added_pictures_are_printed(munkey, model, tmp_path):
    first, second, third = (picture_in(tmp_path, f"{name}.png") for name in "abc")
    single = munkey("add", model, first, "--class", "fish")
    assert "id 60" in single.out
    several = munkey("add", model, second, third, "--class", "fish")
    assert "ids 61 to 62" in several.out


def test_listed_samples_can_be_forgotten_by_the_printed_csv(munkey, model, tmp_path):
    classes = ["--class", "cat", "--class", "fish"]
    words = ["list", model, *classes, "--files", "glob:pets/1*.png", "glob:pets/2?.png"]
    samples = munkey(*words, "--json").json["samples"]
    assert [entry["id"] for entry in samples] == [12, 14, 18, 20, 24, 26]
    expected = {"id": 12, "class": "cat", "file": "pets/12.png", "unit": None}
    assert samples[0] == expected | {"added": samples[0]["added"]}
    lines = munkey(*words).out.splitlines()
    assert lines[0].split() == ["id", "class", "file", "unit", "added"]
    assert lines[-1] == "6 samples"
    (tmp_path / "requests.csv").write_text(munkey(*words, "--csv").out)
    result = munkey("forget", model, "--csv", tmp_path / "requests.csv", "--json")
    assert result.json["requests"][0]["deleted"] == 6
    assert munkey(*words).out.endswith("0 samples\n")  # there are such files, and such classes
    [entry] = munkey("log", model, "--json").json["log"]
    assert entry["deleted"] == 6
    assert entry["request"] is None
    assert entry["head"] in munkey("log", model).out


def test_inspect_prints_samples_classes_and_deletions(munkey, model):
    facts = munkey("inspect", model, "--json").json
    assert facts["samples"] == 24
    assert facts["classes"] == CLASSES
    assert facts["deleted samples"] == 0
    assert "classes: cat, dog & co, fish" in munkey("inspect", model).out


def test_verify_finds_a_changed_file_and_a_head_of_another_memory(munkey, model):
    head = munkey("forget", model, "--ids", "10", "--json").json["head"]
    for published in (head, head.upper()):
        assert munkey("verify", model, "--published", published, "--json").json["sound"]
    refused = munkey("verify", model, "--published", "0" * 64)
    assert refused.code == 1
    assert "this is an older copy" in refused.err
    card = model / "README.md"
    card.write_text(card.read_text() + "!")
    refused = munkey("verify", model, "--json")
    assert refused.code == 1
    assert refused.json["code"] == 1
    assert "NOT VERIFIED" in refused.json["error"]


def test_a_purge_keeps_the_remaining_samples(munkey, model):
    head = munkey("forget", model, "--ids", "10,12", "--no-purge", "--json").json["head"]
    assert munkey("inspect", model, "--json").json["purged"] == "due"
    purged = munkey("purge", model, "--json").json
    assert purged["samples"] == 22
    assert purged["head"] == head
    assert purged["foreign"] == []
    assert munkey("inspect", model, "--json").json["purged"] != "due"
    assert munkey("verify", model).code == 0


@pytest.mark.parametrize("umask", [0o022, 0o002, 0o077])
def test_the_users_umask_holds_for_every_file(umask, munkey, model, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "umap", None)  # it would compile for ten seconds
    before = os.umask(umask)
    try:
        files = ["--certificate", tmp_path / "made.json", "--salt-file", tmp_path / "salt"]
        deletion = munkey("forget", model, "--ids", "10", *files)
        munkey("explore", model, "--html", tmp_path / "page.html")
        ForgettingLDA().fit(np.eye(6), np.arange(6) % 2).save(tmp_path / "rows")
        write_json(tmp_path / "result.json", {})
    finally:
        os.umask(before)
    assert deletion.code == 0
    files = [tmp_path / name for name in ("made.json", "made.html", "page.html", "result.json")]
    files += [file for file in (tmp_path / "rows").rglob("*") if file.is_file()]
    for file in files:
        is_database = file.name in ("memory.db", "memory.db-wal", "memory.db-shm")
        allowed = 0o644 if is_database else 0o666  # as SQLite makes its files
        assert file.stat().st_mode & 0o777 == allowed & ~umask, file
    for folder in (tmp_path / "rows", *(tmp_path / "rows").rglob("*")):
        assert folder.is_file() or folder.stat().st_mode & 0o777 == 0o777 & ~umask
    assert (tmp_path / "salt").stat().st_mode & 0o777 == 0o600


NAMES = st.text(st.characters(codec="utf-8"), min_size=1) | st.text(
    "=+-@'\\u00a\t\n\r ", min_size=1
)


@given(name=NAMES)
def test_any_name_is_read_back_from_its_cell_and_no_cell_is_a_formula(name):
    cell = encode_cell(name)
    assert decode_cell(cell) == name
    assert cell[0] not in "=+-@\t\r\n\uff1d\uff0b\uff0d\uff20"
    assert escape_unprintable(cell) == cell
    assert "\t" not in cell


@pytest.mark.parametrize(
    ("name", "cell"),
    [
        ("=1+1", "'=1+1"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("-1", "'-1"),
        ("\tx", r"'\u0009x"),
        ("a\nb\\c", r"'a\u000ab\\c"),
        ("caf\\xe9.png", r"caf\xe9.png"),
        ("'tis.png", "''tis.png"),
        ("cats/a=1.png", "cats/a=1.png"),
    ],
)
def test_a_cell_is_the_name_itself_if_it_can_be(name, cell):
    assert encode_cell(name) == cell
    assert decode_cell(cell) == name


@pytest.mark.parametrize("name", ["'tis.png", r"'C:\pets", "'"])
def test_a_cell_that_a_person_wrote_is_the_name_itself(name):
    assert decode_cell(name) == name


def test_samples_of_any_unit_name_can_be_forgotten_by_the_printed_csv(munkey, model, tmp_path):
    units = ["=HYPERLINK(1)", "a\nb", "\x1b[31m", "'quoted", "\\", "+1", "Anna, K."]
    with Predictor.load(model, device="cpu") as predictor:
        random = np.random.default_rng(0)
        pictures = random.integers(0, 256, (len(units), 10, 10, 3), dtype=np.uint8)
        predictor.add(pictures, [0] * len(units), units=units)
    words = []
    for unit in units:
        words += ["--unit", unit]
    (tmp_path / "requests.csv").write_text(munkey("list", model, *words, "--csv").out)
    result = munkey("forget", model, "--csv", tmp_path / "requests.csv", "--json")
    assert result.code == 0
    assert result.json["requests"][0]["deleted"] == len(units)


def test_a_certificate_is_written_later_and_checked(munkey, model, tmp_path):
    receipt = tmp_path / "certificate.json"
    deletion = munkey("forget", model, "--ids", "10,12", "--certificate", receipt, "--json")
    salt = deletion.json["salt"]
    munkey("forget", model, "--ids", "14")
    check = ["certificate", model, receipt, "--check"]
    checked = munkey(*check, "--json").json
    assert checked["unconfirmed"] == [
        "written", "versions", "purged_at", "identical", "ids_sha256", "live"
    ]  # fmt: skip
    assert checked["sound"]
    assert checked["said"].endswith("how many samples were left")
    named = munkey(*check, "--ids", "12,10", "--salt", salt)
    assert "its hash matches" in named.out
    assert "bit for bit" not in named.out  # a network answered
    for words in (["--ids", "10", "--salt", salt], ["--ids", "10,12", "--salt", "00" * 16]):
        assert "not issued for these ids" in munkey(*check, *words).err
    assert munkey(*check, "--ids", "10", "--salt", "salt").code == 2
    for words in (["--ids", "10,12"], ["--salt", salt]):
        refused = munkey(*check, *words)
        assert refused.code == 2
        assert "--ids and --salt" in refused.err
    later = munkey("certificate", model, tmp_path / "later.json", "--json").json
    assert later["first"] == 3
    assert later["rows"] == 1
    assert later["ids_sha256"] is None
    earlier_file = tmp_path / "earlier.json"
    earlier = munkey("certificate", model, earlier_file, "--deletion", "2", "--json").json
    assert earlier["first"] == 1
    assert earlier["rows"] == 2
    assert (tmp_path / "earlier.html").exists()


def test_a_signed_certificate_is_checked_without_the_model(munkey, model, tmp_path):
    key = tmp_path / "key"
    public_key = f"{key}.pub"
    receipt = tmp_path / "certificate.json"
    fingerprint = munkey("keygen", key, "--json").json["fingerprint"]
    forgotten = munkey(
        "forget", model, "--ids", "10,12", "--certificate", receipt, "--sign", key, "--json"
    )
    check = ["certificate", receipt, "--check", "--key", public_key]
    checked = munkey(*check, "--ids", "10,12", "--salt", forgotten.json["salt"], "--json")
    assert checked.code == 0
    assert checked.json["certificate"]["signed_by"] == fingerprint
    other_ids = munkey(*check, "--ids", "10", "--salt", forgotten.json["salt"])
    assert other_ids.code == 1
    assert "not issued for these ids" in other_ids.err
    with_model = munkey("certificate", model, receipt, "--check", "--key", public_key)
    assert with_model.code == 0
    assert fingerprint in with_model.out
    assert "the chain contains" in with_model.out
    without_key = munkey("certificate", model, receipt, "--check", "--json").json
    assert "signature was not checked" in without_key["said"]
    assert not without_key["signature_checked"]
    later = tmp_path / "later.json"
    assert munkey("certificate", model, later, "--sign", key).code == 0
    assert munkey("certificate", later, "--check", "--key", public_key).code == 0
    receipt.write_text(receipt.read_text() + " ")
    altered = munkey(*check)
    assert altered.code == 1
    assert "changed after it was signed" in altered.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["certificate.json"], "munkey certificate DIR FILE"),
        (["certificate.json", "--check"], "munkey certificate DIR FILE"),
        (["MODEL", "certificate.json", "--key", "key.pub"], "--check"),
        (["MODEL", "certificate.json", "--check", "--sign", "key"], "--sign"),
        (["MODEL", "certificate.json", "--sign", "missing"], "missing: not a private key"),
        (["certificate.json", "--check", "--key", "missing"], "missing: not a public key"),
    ],
)
def test_options_of_signatures_that_contradict_each_other_are_refused(
    munkey, model, words, message
):
    refused = munkey("certificate", *replace_model(words, model))
    assert refused.code == 2
    assert message in refused.err


def test_a_key_that_cannot_be_read_deletes_nothing(munkey, model, tmp_path):
    certificate = ["--certificate", tmp_path / "certificate.json", "--sign", tmp_path / "missing"]
    refused = munkey("forget", model, "--ids", "10", *certificate)
    assert refused.code == 2
    nothing = munkey("certificate", model, tmp_path / "certificate.json")
    assert "0 deleted samples" in nothing.err


def test_a_check_that_finds_damage_ends_with_1_and_an_unreadable_file_with_2(
    munkey, model, tmp_path
):
    """As the help of `verify` and `certificate` says."""
    receipt = tmp_path / "certificate.json"
    backup = shutil.copytree(model, tmp_path / "backup")
    munkey("forget", model, "--ids", "10", "--certificate", receipt)
    restored = munkey("certificate", backup, receipt, "--check")
    assert restored.code == 1
    assert "this is an older copy" in restored.err
    receipt.write_text(receipt.read_text().replace('"rows": 1', '"rows": 2'))
    assert munkey("certificate", model, receipt, "--check").code == 2
    for file, code in ((model / "README.md", 1), (model / "memory.db", 2)):
        file.write_bytes(file.read_bytes()[:-1])
        assert munkey("verify", model).code == code


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["inspect", "nowhere"], 2, "nowhere: is not an exported model"),
        (["certificate", "MODEL", "text", "--check"], 2, "text: not a certificate"),
        (["certificate", "MODEL", "new.json"], 2, "the chain has 0 deleted samples"),
        (["certificate", "MODEL", "."], 2, "munkey: .: is a folder"),
        (["certificate", "MODEL", "certificate.html"], 2, "give the name of the JSON file"),
        (["export", "nothing/here", "new"], 2, "nothing/here: there is no such result"),
        (["export", "nothing/here", "new"], 2, "no folder results in /"),
        (["export", "nothing/here", "MODEL"], 2, "already contains files"),
        (["serve", "MODEL", "--token-file", "text"], 2, "16 characters"),
        (["serve", "MODEL", "--token-file", "nowhere"], 2, "No such file"),
        (["serve", "MODEL", "--token-file", "."], 2, "munkey: .: is a folder"),
        (["verify", "MODEL", "--published", "abc"], 2, "'abc' is not the head of a chain"),
        (["verify", "MODEL", "--published", "z" * 64], 2, "is not the head of a chain"),
        (["serve", "MODEL", "--port", "1", "--host", "192.0.2.1"], 4, ""),
    ],
)
def test_bad_input_ends_with_an_error_and_its_code(
    words, code, message, munkey, model, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text").write_text("no text")
    result = munkey(*replace_model(words, model))
    assert result.code == code
    assert result.out == ""
    assert result.err.startswith("munkey: ")
    assert message in result.err
    assert "Traceback" not in result.err


def test_a_wrong_option_ends_with_2(munkey, model):
    assert munkey("forget", model, "--idz", "1").code == 2
    assert munkey("forgive", model).code == 2


@pytest.mark.parametrize(
    ("heading", "samples", "page"),
    [
        ("The command `munkey`", 22, "certificate.html"),
        pytest.param("A privacy officer's day", 21, "proof-2026-18.html", marks=pytest.mark.ci),
    ],
)
def test_the_commands_of_the_docs_run_as_printed(
    heading, samples, page, munkey, model, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    picture_in(tmp_path)
    (tmp_path / "requests.csv").write_text("".join(blocks("serving", "text", heading)))
    for line in blocks("serving", "sh", heading)[0].splitlines():
        command, *words = shlex.split(line.partition(" >")[0], comments=True)
        result = munkey(*words)
        assert command == "munkey"
        assert result.code == 0, result.err
    assert munkey("inspect", model, "--json").json["samples"] == samples
    assert (tmp_path / page).exists()


def test_the_files_of_a_person_in_another_table_are_forgotten(munkey, model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.csv").write_text(
        'file,person\npets/14.png,Anna K.\n"pets/1,2.png",Anna K.\npets/16.png,Ben\n'
    )
    heading = "A privacy officer's day"
    [lookup] = blocks("serving", "python", heading)
    exec(lookup)
    command = shlex.split(blocks("serving", "sh", heading)[1])
    assert munkey(*command[1:], "--json").json["would_delete"] == [14]


@pytest.mark.parametrize(
    "code",
    [
        output.FAILED,
        output.BAD_INPUT,
        output.LOCKED,
        output.SYSTEM_ERROR,
        output.FOUND_NOTHING,
        output.INTERRUPTED,
    ],
)
def test_the_help_explains_every_exit_code(code, munkey):
    assert re.search(rf"^ +{code}  \w", munkey("--help").out, re.MULTILINE)
