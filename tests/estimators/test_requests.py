"""Requests with ids, units and classes as pandas holds them, and the receipts of deletions.

One kind of estimator stands for all: `test_every_kind_reads_requests_in_the_base_class`.
"""

import doctest
import json
import re
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import GridSearchCV, train_test_split
from typer.testing import CliRunner

import munkey
from munkey import (
    ForgettingKNN,
    ForgettingLDA,
    ForgettingNCM,
    InvalidRequestError,
    Predictor,
    RequestError,
    UnknownRowsError,
    UsedIdError,
)
from munkey.cli.app import app
from munkey.deploy.json_format import format_deletion
from munkey.estimators import classifier, exact, names, pictures, ridge
from munkey.estimators import munkey as of_pictures
from tests.data.inputs import picture
from tests.estimators.inputs import KINDS, each_place, put

N = 40
Y = np.arange(N) % 4
X = np.random.default_rng(0).normal(size=(N, 5)) + 2 * np.eye(5)[Y]
PATIENTS = np.arange(N) % 10
FEATURES = list("abcde")
FRAME = pd.DataFrame(X, columns=FEATURES).assign(patient=PATIENTS, label=Y)


def model_of(units=PATIENTS):
    """An estimator fitted to all rows."""
    return ForgettingNCM().fit(X, Y, units=units)


@pytest.mark.parametrize(
    ("units", "patients"),
    [
        (FRAME.patient[:2], [0, 1]),
        (np.array([3, 4]), [3, 4]),
        (np.array(["3", " 4"]), [3, 4]),
        (pd.Index([5]), [5]),
        (pd.Series([7.0, 8.0]), [7, 8]),
        (7, [7]),
        (np.int64(7), [7]),
        (7.0, [7]),
        ("7", [7]),
        ({1, 2}, [1, 2]),
        ((1, np.float64(2)), [1, 2]),
    ],
    ids=str,
)
def test_units_are_taken_in_any_type_of_a_table(units, patients):
    expected = np.flatnonzero(np.isin(PATIENTS, patients))
    assert model_of().forget(units=units).tolist() == expected.tolist()


@each_place
@pytest.mark.parametrize("classes", [[1, 2, 3], ["1", "2", "3"]], ids=str)
def test_a_number_and_its_text_are_one_class(classes, place, tmp_path):
    model = put(ForgettingNCM().fit(X[:30], classes * 10), place, tmp_path)
    expected = list(range(1, 30, 3))
    for labels in (2, "2", " 2", np.int64(2), 2.0):
        assert model.forget(labels=labels, dry_run=True).tolist() == expected
    for unknown in (0, "2.0", "4"):
        with pytest.raises(UnknownRowsError):
            model.forget(labels=unknown)


@pytest.mark.parametrize("wrong", ["\u0667", "-7", "7.5", "9007199254740992.0", ""])
def test_an_id_in_a_text_is_read_as_by_the_command(wrong):
    assert model_of().forget([" 3", "9.0"], dry_run=True).tolist() == [3, 9]
    with pytest.raises(InvalidRequestError, match="nonnegative integers"):
        model_of().forget([wrong])


@pytest.mark.parametrize(
    "ids",
    [
        pd.Series([3, 9]),
        pd.Index([9, 3]),
        np.array([3.0, 9.0]),
        ["3", "9"],
        {3, 9},
        (3, np.int32(9)),
    ],
    ids=str,
)
def test_ids_are_taken_in_any_type_of_a_table(ids):
    assert model_of().forget(ids).tolist() == [3, 9]


def test_the_index_of_a_table_gives_the_ids():
    train, _ = train_test_split(FRAME, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = ForgettingNCM().fit(train[FEATURES], train.label, units=train.patient)
    assert model.ids_.tolist() == sorted(train.index)
    ids = train.index[train.patient == 3]
    assert model.forget(ids=ids).tolist() == sorted(ids)
    assert "3" not in model.units_


@pytest.mark.parametrize("column", ["y", "units"])
def test_an_index_of_a_column_beside_an_array_gives_the_ids_with_a_warning(column):
    """Users who pass an array may take row numbers for ids."""
    train, _ = train_test_split(FRAME, random_state=0)
    rows = train[FEATURES].to_numpy()
    columns = {"y": train.label, "units": train.patient.to_numpy()}
    if column == "units":
        columns = {"y": train.label.to_numpy(), "units": train.patient}
    advice = f"index of {column} .*the id {train.index[0]}"
    with pytest.warns(UserWarning, match=advice) as caught:
        model = ForgettingNCM().fit(rows, **columns)
    assert len(caught) == 1
    assert model.ids_.tolist() == sorted(train.index)


@pytest.mark.parametrize(
    "index",
    [[f"row {number}" for number in range(N)], [0, *range(N - 1)], range(-1, N - 1)],
    ids=["text", "repeated", "negative"],
)
def test_an_index_that_cannot_give_the_ids_is_warned_of(index):
    frame = FRAME.set_axis(list(index))
    with pytest.warns(UserWarning, match="distinct nonnegative integers") as caught:
        model = ForgettingNCM().fit(frame[FEATURES], frame.label)  # where the warning points to
    assert caught[0].filename == __file__
    assert model.ids_.tolist() == list(range(N))


def test_an_index_that_differs_from_the_others_is_warned_of():
    rows = FRAME[FEATURES].set_axis(range(5, N + 5))
    labels = FRAME.label.set_axis(range(6, N + 6))
    with pytest.warns(UserWarning, match="differs from the others"):
        ForgettingNCM().fit(rows, labels)


@each_place
def test_missing_values_among_units_are_not_units(place, tmp_path):
    gaps = [None, np.nan, pd.NA, pd.NaT, "", "NA", "nan", "None", "<NA>", "NaT"]
    units = pd.Series(["Anna", *gaps, *["Ben"] * (N - 11)], dtype="object")
    model = put(model_of(units), place, tmp_path)
    assert model.units_.tolist() == ["Anna", *[None] * 10, *["Ben"] * (N - 11)]
    for gap in (None, np.nan, pd.NA, "NA"):
        with pytest.raises(InvalidRequestError, match="1 of 2 are missing"):
            model.forget(units=["Anna", gap])
    assert model.forget(units="Anna").tolist() == [0]


@each_place
def test_names_are_compared_trimmed_and_in_one_unicode_form(place, tmp_path):
    model = put(model_of(["Zoe\u0308 "] * 3 + ["Ben"] * (N - 3)), place, tmp_path)
    assert len(model.forget(units="Zoë")) == 3


@each_place
def test_classes_are_forgotten_by_name(place, tmp_path):
    model = put(model_of(), place, tmp_path)
    receipt = model.forget(labels=[1, np.int64(2)])
    assert receipt.tolist() == np.flatnonzero(np.isin(Y, [1, 2])).tolist()
    assert model.classes_.tolist() == [0, 3]
    assert receipt.emptied == ("1", "2")
    with pytest.raises(UnknownRowsError, match="class 1"):
        model.forget(labels=1)
    with pytest.raises(InvalidRequestError, match="cannot be combined"):
        model.forget(labels=0, units=3)
    with pytest.raises(InvalidRequestError, match="cannot be combined"):
        model.forget(files=["a"], units=3)


@each_place
def test_a_dry_run_changes_nothing_and_gives_the_receipt_of_a_deletion(place, tmp_path):
    model = put(model_of(), place, tmp_path)
    before = model.predict_proba(X)
    preview = model.forget(units=[3, 4], dry_run=True)
    assert model.predict_proba(X).tobytes() == before.tobytes()
    assert len(model.ids_) == N
    assert format_deletion(preview)["would_delete"] == preview.tolist()
    assert model.forget(units=[3, 4]).tolist() == preview.tolist()
    assert preview.left == len(model.ids_) == N - len(preview)
    assert sum(format_deletion(preview)["classes"].values()) == len(preview)
    assert re.search(r"would forget 8 samples \(.*\) and keep 32", str(preview))


@each_place
def test_absent_rows_are_refused_or_listed(place, tmp_path):
    model = put(model_of(), place, tmp_path)
    with pytest.raises(UnknownRowsError, match=r"file 'a\.png'"):
        model.forget(files="a.png")
    request = {"ids": [3, 99], "units": ["Nobody", 7]}
    with pytest.raises(UnknownRowsError, match="99, unit 'Nobody'") as caught:
        model.forget(**request)
    assert isinstance(caught.value, KeyError)
    assert isinstance(caught.value, RequestError)
    assert caught.value.missing == ("99", "unit 'Nobody'")
    assert len(model.ids_) == N
    receipt = model.forget(**request, ignore_missing=True)
    assert receipt.tolist() == [3, 7, 17, 27, 37]
    assert receipt.missing == caught.value.missing
    empty_receipt = model.forget(ids=99, ignore_missing=True)
    assert len(empty_receipt) == 0
    assert "deleted nothing" in str(empty_receipt)
    assert len(model.ids_) == N - 5


@pytest.mark.parametrize(
    "selection",
    [
        {},
        {"ids": [True, False]},
        {"ids": 1.5},
        {"ids": [np.nan]},
        {"ids": -1},
        {"ids": "Anna"},
        {"files": ""},
        {"units": ""},
    ],
    ids=str,
)
def test_a_selection_that_names_no_rows_is_refused(selection, tmp_path):
    model = put(model_of(), "directory", tmp_path)  # rows in memory have no files
    with pytest.raises(InvalidRequestError) as caught:
        model.forget(**selection)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, RequestError)
    assert len(model.ids_) == N


@pytest.mark.parametrize("kind", [ForgettingNCM, ForgettingKNN])  # which store keys in two forms
@each_place
def test_exact_copies_of_forgotten_rows_are_named(kind, place, tmp_path):
    rows = np.vstack([X, X[[3]]])
    model = kind().fit(rows, np.r_[Y, Y[3]], units=np.r_[PATIENTS, 77])
    model = put(model, place, tmp_path)
    preview = model.forget(ids=3, dry_run=True)
    assert preview.copies == [{"id": N, "unit": "77"}]
    with pytest.warns(UserWarning, match=r"ids 40, of unit 77; .*forget\(ids=\[40\]\)"):
        receipt = model.forget(ids=3)
    assert receipt.copies == [{"id": N, "unit": "77"}]
    assert format_deletion(receipt)["identical"] == [N]


def test_the_receipt_of_an_estimator_equals_that_of_the_command(tmp_path):
    for name in ("python", "command"):
        model_of().save(tmp_path / name)
    command = ["forget", str(tmp_path / "command"), "--unit", "3", "--json"]
    for dry_run in (True, False):
        receipt = ForgettingNCM.load(tmp_path / "python").forget(units="3", dry_run=dry_run)
        done = CliRunner().invoke(app, [*command, "--dry-run"] if dry_run else command)
        in_python = format_deletion(receipt)
        for name, value in json.loads(done.stdout).items():
            # These differ between directories, or as an estimator purges at once.
            if name not in {"when", "memory", "before", "head", "purged", "missing"}:
                assert in_python[name] == value
    with Predictor.load(tmp_path / "python") as model:
        assert in_python["head"] == model.head
    assert in_python["purged"]


@each_place
def test_no_id_is_used_twice(place, tmp_path):
    model = put(model_of(), place, tmp_path)
    assert model.add(X[:1], Y[:1], ids=[100]).tolist() == [100]
    # No row was forgotten yet, so this id is new.
    assert model.add(X[:1], Y[:1], ids=[50]).tolist() == [50]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of copies
        model.forget(ids=[3, 50])
    for old_id in (3, 50, 60):
        with pytest.raises(UsedIdError, match=rf"forgotten rows.*: {old_id}; use 101"):
            model.add(X[:1], Y[:1], ids=[old_id])
    with pytest.raises(UsedIdError, match="these ids: 4"):
        model.add(X[:1], Y[:1], ids=[4])
    assert model.add(X[:1], Y[:1], ids=[101]).tolist() == [101]
    # An index 0, 1, ... is the one that pandas makes up, and gives no ids.
    assert model.add(FRAME[FEATURES][:2], FRAME.label[:2]).tolist() == [102, 103]


def test_an_id_that_was_forgotten_before_the_first_save_is_not_used_again(tmp_path):
    model = model_of()
    model.forget(ids=[3])
    model.save(tmp_path / "model")
    for estimator in (model, ForgettingNCM.load(tmp_path / "model")):
        with pytest.raises(UsedIdError, match=r"forgotten rows.*: 3; use 40"):
            estimator.add(X[:1], Y[:1], ids=[3])


def test_ids_that_no_directory_can_hold_are_refused_at_once(tmp_path):
    ids = np.arange(N) + 2**62 - N
    model = ForgettingNCM().fit(X, Y, ids=ids)
    model.save(tmp_path / "model")
    assert ForgettingNCM.load(tmp_path / "model").ids_[-1] == 2**62 - 1
    with pytest.raises(InvalidRequestError, match=r"ids must be below 2\^62"):
        model.add(X[:1], Y[:1])
    with pytest.raises(InvalidRequestError, match=r"ids must be below 2\^62"):
        ForgettingNCM().fit(X, Y, ids=ids + 1)
    with pytest.raises(KeyError, match="no row has these names"):
        model.forget(ids=2**62)


def test_a_grid_search_warns_of_an_index_once():
    """The models of its other fits, one for each measurement, forget nothing."""
    frame = FRAME.set_axis([f"row {number}" for number in range(N)])
    search = GridSearchCV(ForgettingNCM(), {"temperature": [0.1, 1.0]}, cv=2)
    with pytest.warns(UserWarning, match="does not consist of distinct") as caught:
        search.fit(frame[FEATURES], frame.label)
    [warning] = caught
    assert warning.filename == __file__


def test_a_name_that_is_the_same_number_is_suggested():
    model = ForgettingNCM().fit(X, Y, units=[f"{row % 20:04}" for row in range(N)])
    for name, similar_name in (("7", "0007"), (12.0, "0012"), ("0", "0000")):
        with pytest.raises(KeyError, match=f"Similar .*'{similar_name}'"):
            model.forget(units=name)


@pytest.mark.parametrize(
    ("kind", "place"), [*((kind, "memory") for kind in KINDS), (ForgettingNCM, "directory")]
)
def test_a_model_without_rows_can_be_saved_and_takes_rows_again(kind, place, tmp_path):
    model = put(kind().fit(X, Y), place, tmp_path)
    model.forget(ids=model.ids_)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.save(tmp_path / "empty")
    loaded = kind.load(tmp_path / "empty")
    assert len(loaded.ids_) == len(loaded.classes_) == 0
    with pytest.raises(ValueError, match="every row was forgotten"):
        loaded.predict(X)
    loaded.add(X, Y)
    assert loaded.predict_proba(X).tobytes() == kind().fit(X, Y).predict_proba(X).tobytes()


def test_a_folder_with_files_is_refused_before_the_fit(tmp_path, monkeypatch):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "mine.txt").touch()

    def fail(*_, **__):
        pytest.fail("rows were read")

    monkeypatch.setattr(classifier.ForgettingClassifier, "_validate_rows", fail)
    with pytest.raises(FileExistsError, match="empty folder"):
        ForgettingNCM().fit(X, Y, save_to=tmp_path / "model")
    with pytest.raises(FileExistsError, match="empty folder"):
        munkey.MunkeyClassifier().fit("no pictures", [1], save_to=tmp_path / "model")
    monkeypatch.undo()
    saved = ForgettingNCM().fit(X, Y, save_to=tmp_path / "new")
    assert saved.directory_ == tmp_path / "new"


def test_pictures_are_named_by_ids_units_files_and_classes(tmp_path):
    files = [tmp_path / "pets" / f"{number}.png" for number in range(8)]
    for number, file in enumerate(files):
        picture(file, size=(32, 32), seed=number)
    picture(files[7], size=(32, 32), seed=6)  # an exact copy of the one before
    table = pd.DataFrame(
        {"pet": ["cat", "dog"] * 4, "patient": [1, 1, 2, 2, np.nan, 3, 4, 5]}, index=range(20, 28)
    )
    model = munkey.MunkeyClassifier(family="lda", key_size=32, verbose=False, device="cpu")
    model.fit(files, table.pet, units=table.patient)
    assert model.ids_.tolist() == table.index.tolist()
    assert model.forget(units=table.patient[:1], dry_run=True).tolist() == [20, 21]
    assert model.forget(units=1).tolist() == [20, 21]
    assert model.forget(files=files[2]).tolist() == [22]
    with pytest.raises(UnknownRowsError, match="class 'cow'"):
        model.forget(labels="cow")
    with pytest.warns(UserWarning, match="exact copies .*ids 27, of unit 5"):
        assert model.forget(pd.Index([26])).copies == [{"id": 27, "unit": "5"}]
    model.save(tmp_path / "first")
    with pytest.warns(UserWarning, match="first is no longer changed") as caught:
        model.save(tmp_path / "second")
    assert caught[0].filename == __file__
    assert model.forget(labels=["dog"]).tolist() == [23, 25, 27]
    rows = ForgettingLDA.load(tmp_path / "second")
    assert rows.forget(files="pets/9.png", ignore_missing=True).missing == ("file 'pets/9.png'",)
    assert rows.forget(files=str(files[4])).tolist() == [24]
    with pytest.raises(InvalidRequestError, match=r"files .*not 3"):
        rows.forget(files=3)
    with pytest.raises(InvalidRequestError, match="numbers its rows itself"):
        rows.add(np.ones((1, rows.n_features_in_)), ["cat"], ids=[99])


@pytest.mark.parametrize(
    "module", [classifier, exact, names, pictures, ridge, of_pictures], ids=lambda one: one.__name__
)
def test_the_examples_in_docstrings_run(module):
    assert doctest.testmod(module).failed == 0


ROWS = np.random.default_rng(1).normal(size=(6, 4))
PEOPLE = ["Anna", "Ben", "Cem", "Dan", "Eve", "Fay"]


def small_model(labels=tuple("ababab"), **arguments) -> ForgettingNCM:
    """Six rows of six people."""
    return ForgettingNCM().fit(ROWS, labels, **arguments)


@pytest.mark.parametrize("name", ["ids_", "units_", "classes_"])
def test_what_a_user_changes_in_an_attribute_changes_no_row(name):
    model = small_model(units=PEOPLE)
    values = getattr(model, name)
    values[:] = values[::-1].copy()
    assert model.forget(units="Anna").tolist() == [0]
    assert model.units_.tolist() == PEOPLE[1:]
    assert set(model.predict(ROWS)) <= {"a", "b"}


def test_a_table_is_no_list_of_names():
    model = small_model(units=PEOPLE)
    for request in ({"ids": pd.DataFrame([3, 5])}, {"units": pd.DataFrame(["3", "5"])}):
        with pytest.raises(InvalidRequestError, match="not a DataFrame"):
            model.forget(**request)
    with pytest.raises(InvalidRequestError, match="not a dict"):
        model.forget(units={"Anna": 1})
    for units in (np.array(PEOPLE)[:, None], set(PEOPLE)):
        with pytest.raises(InvalidRequestError, match="one name for each row"):
            small_model(units=units)
    with pytest.raises(InvalidRequestError, match="one id for each row"):
        small_model(ids=set(range(6)))


def test_a_mask_is_no_list_of_classes():
    labels = [0, 1, 0, 1, 0, 1]
    model = small_model(labels)
    with pytest.raises(InvalidRequestError, match="boolean mask"):
        model.forget(labels=np.array(labels) == 1)
    with pytest.raises(InvalidRequestError, match="boolean mask"):
        small_model([True, False] * 3).forget(labels=1)
    for missing in (None, np.nan):
        with pytest.raises(InvalidRequestError, match="class is missing"):
            model.forget(labels=[missing], ignore_missing=True)
    assert len(model.ids_) == 6


def test_a_large_float_is_no_id():
    large = 2**53
    model = small_model(ids=[large, large + 1, large + 2, 3, 4, 5])
    with pytest.raises(InvalidRequestError, match=r"2\^53"):
        model.forget(pd.Series([large + 1, np.nan]).dropna())
    assert model.forget(np.array([np.int64(large + 1)], dtype=object)).tolist() == [large + 1]


def test_the_same_index_in_another_order_is_refused():
    frame = pd.DataFrame(ROWS)
    for tables in (
        (frame, pd.Series(list("ababab"), index=range(5, -1, -1)), None),
        (frame.iloc[::-1], list("ababab"), pd.Series(PEOPLE)),
    ):
        with pytest.raises(InvalidRequestError, match="another order"):
            ForgettingNCM().fit(tables[0], tables[1], units=tables[2])


def test_hashes_as_an_index_are_no_ids():
    frame = pd.DataFrame(ROWS, index=np.array([2**63 + 5, 1, 2, 3, 4, 5], dtype=np.uint64))
    with pytest.warns(UserWarning, match="distinct nonnegative integers"):
        model = ForgettingNCM().fit(frame, list("ababab"))
    assert model.ids_.tolist() == list(range(6))


def test_a_fit_that_fails_leaves_the_model_as_it_was():
    frame = pd.DataFrame(ROWS, columns=list("wxyz"))
    model = ForgettingNCM().fit(frame, list("ababab"))
    answers = model.predict(frame)
    with pytest.raises(ValueError, match="distinct ids"):
        model.fit(ROWS[:, :3], list("ababab"), ids=[0, 0, 1, 2, 3, 4])
    assert model.feature_names_in_.tolist() == list("wxyz")
    assert model.predict(frame).tolist() == answers.tolist()


def test_the_smallest_integer_is_not_within_a_bound():
    rows = np.array([[-32768, 10], [5, 20], [7, 3], [1, 2]], dtype=np.int16)
    with pytest.raises(ValueError, match="reaches 32768"):
        ForgettingNCM(norm=None, bound=1024).fit(rows, list("abab"))


def test_multiples_of_a_row_are_not_called_copies():
    rows = np.array([[1.0, 1], [2, 2], [5, 5], [0, 3]])
    model = ForgettingNCM().fit(rows, list("aabb"), units=PEOPLE[:4])
    with pytest.warns(UserWarning, match="same key .*ids 1, 2"):
        model.forget(units="Anna")


def test_dates_are_no_classes():
    with pytest.raises(ValueError, match="make them text"):
        small_model(np.array(["2020-01-01", "2021-01-01"] * 3, dtype="M8[D]"))


def test_unsigned_classes_stay_integers():
    model = small_model([0, 1] * 3)
    model.add(ROWS[:2], np.array([0, 5], dtype=np.uint64))
    assert model.classes_.tolist() == [0, 1, 5]
    assert model.classes_.dtype.kind == "i"
