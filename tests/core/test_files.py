"""A write succeeds whole or not at all; a damaged file is named, with what to do about it."""

import errno
import os
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from munkey.core.files import (
    CONFIGFILES,
    DamagedFileError,
    UnwritableFileError,
    atomic,
    checksum_path,
    map_npy,
    read_bytes,
    read_csv,
    read_json,
    read_npy,
    read_npz,
    read_table,
    write_csv,
    write_json,
    write_npy,
    write_npz,
    write_text,
)
from tests.conftest import full_disk, raise_full_disk

ARRAYS = {"ids": np.arange(5), "keys": np.linspace(0, 1, 10, dtype=np.float32).reshape(5, 2)}


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


def write_half(path):
    with atomic(path) as temporary:
        temporary.write_text("half")
        raise RuntimeError("midway")


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path):
    path = tmp_path / "out.json"
    write_json(path, {"old": 1})
    with pytest.raises(RuntimeError, match="midway"):
        write_half(path)
    assert read_json(path) == {"old": 1}
    assert names_in(tmp_path) == [".out.json.sha256", "out.json"]


def test_a_value_that_json_lacks_leaves_no_file(tmp_path):
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "out.json", {"loss": float("nan")})
    assert names_in(tmp_path) == []


def test_a_file_is_not_there_before_it_is_whole(tmp_path):
    path = tmp_path / "deep" / "out.txt"
    with atomic(path) as temporary:
        temporary.write_text("whole")
        assert not path.exists()
    assert path.read_text() == "whole"
    assert names_in(path.parent) == ["out.txt"]


KILLED = """
import os, signal, sys
from munkey.core.files import write_json, atomic
with atomic(sys.argv[1]) as temporary:
    temporary.write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_temporary_files_of_a_killed_process_are_removed_when_the_file_is_written_again(tmp_path):
    path = tmp_path / "out.json"
    other = tmp_path / "more.out.json"
    for target in (path, path, other):
        subprocess.run([sys.executable, "-c", KILLED, target], check=False)
    assert len(names_in(tmp_path)) == 2  # the second attempt removed what the first had left
    with atomic(path) as being_written:
        write_json(path, {})
        assert being_written.exists()  # this process is alive
        being_written.write_text("{}")
    of_other, *names = names_in(tmp_path)
    assert of_other.startswith(".more.out.json.")
    assert names == [".out.json.sha256", "out.json"]


@pytest.mark.parametrize(("error", "stays"), [(PermissionError, True), (ProcessLookupError, False)])
def test_a_temporary_file_of_another_users_process_stays(error, stays, tmp_path, monkeypatch):
    def refused(process, signal):
        raise error

    monkeypatch.setattr(os, "kill", refused)
    (tmp_path / ".out.txt.4711-x.txt").touch()
    with atomic(tmp_path / "out.txt"):
        pass
    assert (tmp_path / ".out.txt.4711-x.txt").exists() is stays


def test_a_written_file_can_be_read_by_others(tmp_path):
    write_json(tmp_path / "out.json", {})
    assert stat.S_IMODE((tmp_path / "out.json").stat().st_mode) == 0o644


@pytest.mark.parametrize(
    ("name", "write", "why"),
    [
        ("out.txt", lambda path: write_text(path, "word " * 1000), "File too large"),
        (
            "out.csv",
            lambda path: write_csv(path, [{"id": i} for i in range(1000)]),
            "File too large",
        ),
        ("out.npy", lambda path: write_npy(path, np.zeros(1000)), "is the disk full?"),
        ("out.npz", lambda path: write_npz(path, {"a": np.zeros(1000)}), "File too large"),
    ],
)
def test_a_full_disk_is_reported_with_the_path_and_the_old_file_stays(tmp_path, name, write, why):
    (tmp_path / name).write_text("old")
    with pytest.raises(OSError, match="no partial file") as refused, full_disk(1000):
        write(tmp_path / name)
    assert refused.value.filename == str(tmp_path / name)
    assert why in str(refused.value)
    assert refused.value.errno == (errno.EIO if name == "out.npy" else errno.EFBIG)
    assert names_in(tmp_path) == [name]
    assert (tmp_path / name).read_text() == "old"


def test_an_unwritable_folder_is_reported_with_the_path(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        write_json(tmp_path / "file" / "out.json", {})


def test_arrays_read_back_as_written_and_absent_ones_are_named(tmp_path):
    write_npz(tmp_path / "a.npz", ARRAYS)
    arrays = read_npz(tmp_path / "a.npz", "keys")
    assert list(arrays) == ["keys"]
    np.testing.assert_array_equal(arrays["keys"], ARRAYS["keys"])
    assert set(read_npz(tmp_path / "a.npz")) == {"ids", "keys"}
    with pytest.raises(DamagedFileError, match=r"a\.npz: .*'logits'"):
        read_npz(tmp_path / "a.npz", "ids", "logits")


def test_the_same_arrays_give_the_same_bytes(tmp_path, monkeypatch):
    write_npz(tmp_path / "a.npz", ARRAYS)
    monkeypatch.setattr("time.time", lambda: 2e9)  # years later
    write_npz(tmp_path / "b.npz", ARRAYS)
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


def test_an_array_that_could_run_code_is_not_read(tmp_path):
    write_npy(tmp_path / "a.npy", np.array([{"any": "object"}], dtype=object))
    write_npz(tmp_path / "a.npz", {"a": np.array([{"any": "object"}], dtype=object)})
    for read, name in ((read_npy, "a.npy"), (read_npz, "a.npz")):
        with pytest.raises(ValueError, match="allow_pickle=False"):
            read(tmp_path / name)


@pytest.mark.parametrize("read", [read_npz, map_npy])
@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: content[:10],
        lambda content: content[: len(content) // 2],
        lambda content: content[:-1],
        lambda content: content[:400] + b"?" + content[401:],
    ],
    ids=["emptied", "begun", "half", "almost whole", "a byte flipped"],
)
def test_a_damaged_file_is_refused_with_the_command_that_remakes_it(tmp_path, damage, read):
    path = tmp_path / "a.npz"
    write_npz(path, {"a": np.arange(1000)})
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(DamagedFileError, match=r"damaged.* --force -- \S*a\.npz`"):
        read(path)


@pytest.mark.parametrize("read", [read_json, read_csv, read_table, read_npy])
def test_every_reader_checks_the_sum(tmp_path, read):
    write_text(tmp_path / "a", "1")
    (tmp_path / "a").write_text("2")
    with pytest.raises(DamagedFileError, match="damaged"):
        read(tmp_path / "a")


def test_a_missing_file_is_named_and_not_called_damaged(tmp_path):
    for read in (read_json, read_csv, read_npz):
        with pytest.raises(FileNotFoundError, match="absent"):
            read(tmp_path / "absent")


def test_json_is_the_same_text_whatever_the_order_of_its_keys(tmp_path):
    write_json(tmp_path / "a.json", {"b": 1, "a": [1.5, None]})
    write_json(tmp_path / "b.json", {"a": [1.5, None], "b": 1})
    assert (tmp_path / "a.json").read_text() == (tmp_path / "b.json").read_text()


def test_rows_read_back_as_text(tmp_path):
    write_csv(tmp_path / "a.csv", [{"id": 1, "name": "a,b"}, {"id": 2, "name": 'c"'}])
    assert (tmp_path / "a.csv").read_bytes().startswith(b'id,name\n1,"a,b"\n')
    assert read_csv(tmp_path / "a.csv") == [{"id": "1", "name": "a,b"}, {"id": "2", "name": 'c"'}]


def test_a_table_without_rows_keeps_its_header(tmp_path):
    write_csv(tmp_path / "empty.csv", [], ["id", "label"])
    assert (tmp_path / "empty.csv").read_text() == "id,label\n"


# Sums


def test_the_sum_beside_a_file_is_what_sha256sum_checks(tmp_path):
    write_csv(tmp_path / "a.csv", [{"id": 1}])
    checked = subprocess.check_output(
        ["sha256sum", "--check", ".a.csv.sha256"], cwd=tmp_path, text=True
    )
    assert checked == "a.csv: OK\n"


@pytest.mark.parametrize("fault", ["missing", "empty", "of another file"])
def test_a_file_without_its_own_sum_is_refused(tmp_path, fault):
    write_json(tmp_path / "a.json", {"a": 1})
    write_json(tmp_path / "b.json", {"a": 1})
    beside = checksum_path(tmp_path / "a.json")
    if fault == "missing":
        beside.unlink()
    else:
        beside.write_bytes(
            b"" if fault == "empty" else checksum_path(tmp_path / "b.json").read_bytes()
        )
    with pytest.raises(DamagedFileError, match=r"a\.json: .*\.a\.json\.sha256"):
        read_json(tmp_path / "a.json")


def test_the_old_file_stays_valid_if_the_sum_of_the_new_one_cannot_be_written(
    tmp_path, monkeypatch
):
    write_text(tmp_path / "a.txt", "old")
    monkeypatch.setattr(Path, "write_bytes", raise_full_disk)
    with pytest.raises(UnwritableFileError, match=r"No space left .*a\.txt"):
        write_text(tmp_path / "a.txt", "new")
    assert read_bytes(tmp_path / "a.txt") == b"old"
    assert names_in(tmp_path) == [".a.txt.sha256", "a.txt"]


def test_the_old_file_is_damaged_if_the_process_is_killed_between_sum_and_file(
    tmp_path, monkeypatch
):
    write_text(tmp_path / "a.txt", "old")
    replace = Path.replace

    def killed(self, target):
        if target.name == "a.txt":
            raise KeyboardInterrupt
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        write_text(tmp_path / "a.txt", "new")
    with pytest.raises(DamagedFileError, match=r"a\.txt: damaged"):
        read_bytes(tmp_path / "a.txt")


def test_the_command_names_the_configuration_of_the_run_and_quotes_the_path(monkeypatch):
    command = "`snakemake --cores all --resources gpu=1 --force -- results/a.csv`"
    monkeypatch.delenv(CONFIGFILES, raising=False)
    error = DamagedFileError("results/a.csv", "damaged")
    assert command in str(error)
    monkeypatch.setenv(CONFIGFILES, "my.yaml 'other one.yaml'")
    error = DamagedFileError("a b.csv", "damaged")
    assert "gpu=1 --configfile my.yaml 'other one.yaml' --force -- 'a b.csv'`" in str(error)


def test_the_command_for_a_file_of_an_overlay_tells_to_add_the_configfile(monkeypatch):
    monkeypatch.delenv(CONFIGFILES, raising=False)
    hint = "adding each --configfile"
    for place in ("results/mine/a.csv", "/home/me/results/mine/a.csv"):
        assert hint in str(DamagedFileError(place, "damaged"))
    for place in ("results/default/a.csv", "cache/a.csv", "results"):
        assert hint not in str(DamagedFileError(place, "damaged"))
    monkeypatch.setenv(CONFIGFILES, "my.yaml")
    assert hint not in str(DamagedFileError("results/mine/a.csv", "damaged"))


def test_a_table_is_utf8_whatever_the_locale(tmp_path):
    code = "import sys; from munkey.core.files import write_csv; write_csv(sys.argv[1], [{'name': 'L\\xf6we'}])"
    ascii_only = os.environ | {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    subprocess.run([sys.executable, "-c", code, tmp_path / "a.csv"], check=True, env=ascii_only)
    assert read_csv(tmp_path / "a.csv") == [{"name": "Löwe"}]


def test_a_mapped_array_is_the_one_that_was_checked(tmp_path):
    write_npy(tmp_path / "a.npy", ARRAYS["keys"])
    mapped = map_npy(tmp_path / "a.npy")
    write_npy(tmp_path / "a.npy", 2 * ARRAYS["keys"])
    np.testing.assert_array_equal(mapped, ARRAYS["keys"])
    np.testing.assert_array_equal(map_npy(tmp_path / "a.npy"), 2 * ARRAYS["keys"])


def test_a_table_is_read_as_pandas_reads_it(tmp_path):
    frame = pd.DataFrame({"name": ["a,b", "c"], "value": [0.1 + 0.2, np.nan]})
    write_text(tmp_path / "a.csv", frame.to_csv(index=False))
    pd.testing.assert_frame_equal(read_table(tmp_path / "a.csv"), frame)
