"""What pandas users pass to estimators as ids, units and classes, and what they are told of a deletion."""

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
from munkey import InvalidRequestError, Predictor, RequestError, UnknownRowsError, UsedIdError
from munkey.cli.app import app
from munkey.deploy.json_format import format_deletion
from munkey.estimators import classifier, exact, names, pictures, ridge
from munkey.estimators import munkey as of_pictures
from tests.data.inputs import picture
from tests.estimators.inputs import KINDS

each = pytest.mark.parametrize("kind", KINDS)
GENERATOR = np.random.default_rng(0)
N = 40
Y = np.arange(N) % 4
X = GENERATOR.normal(size=(N, 5)) + 2 * np.eye(5)[Y]
PATIENTS = np.arange(N) % 10
FRAME = pd.DataFrame(X, columns=list("abcde")).assign(patient=PATIENTS, label=Y)


def model_of(kind, place, tmp_path, **more):
    """A fitted estimator, in memory or in a directory."""
    model = kind().fit(X, Y, **{"units": PATIENTS, **more})
    if place == "directory":
        model.save(tmp_path / "model")
    return model


places = pytest.mark.parametrize("place", ["memory", "directory"])


@each
@places
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
def test_units_are_taken_as_tables_hold_them(kind, place, units, patients, tmp_path):
    model = model_of(kind, place, tmp_path)
    assert (
        model.forget(units=units).tolist() == np.flatnonzero(np.isin(PATIENTS, patients)).tolist()
    )


@each
@places
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
def test_ids_are_taken_as_tables_hold_them(kind, place, ids, tmp_path):
    assert model_of(kind, place, tmp_path).forget(ids).tolist() == [3, 9]


@each
def test_the_index_of_a_table_gives_the_ids(kind):
    train, _ = train_test_split(FRAME, random_state=0)
    rows = train[list("abcde")]
    whole = (rows, train.label, train.patient)
    plain = rows.to_numpy()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = kind().fit(*whole[:2], units=train.patient)
    assert model.ids_.tolist() == sorted(train.index)
    for y, units, name in (
        (train.label, None, "y"),
        (train.label.to_numpy(), train.patient, "units"),
    ):
        # Their user may take row numbers for ids.
        said = f"the index of {name} gives the ids.*the first row has the id {train.index[0]}"
        with pytest.warns(UserWarning, match=said) as caught:
            model = kind().fit(plain, y, units=units)
        assert len(caught) == 1
        assert model.ids_.tolist() == sorted(train.index)
    gone = train.index[train.patient == 3]
    model = kind().fit(*whole[:2], units=train.patient)
    assert model.forget(ids=gone).tolist() == sorted(gone)
    assert "3" not in model.units_


@each
@pytest.mark.parametrize(
    ("index", "why"),
    [
        (
            [f"row {number}" for number in range(N)],
            "does not consist of distinct nonnegative integers",
        ),
        ([0, *range(N - 1)], "does not consist of distinct nonnegative integers"),
        (range(-1, N - 1), "does not consist of distinct nonnegative integers"),
    ],
)
def test_an_index_that_cannot_give_the_ids_is_warned_of(kind, index, why):
    frame = FRAME.set_axis(list(index))
    with pytest.warns(UserWarning, match=why) as caught:
        model = kind().fit(frame[list("abcde")], frame.label)  # where the warning points to
    assert caught[0].filename == __file__
    assert model.ids_.tolist() == list(range(N))
    with pytest.warns(UserWarning, match="differs from the others"):
        kind().fit(
            FRAME[list("abcde")].set_axis(range(5, N + 5)), FRAME.label.set_axis(range(6, N + 6))
        )


@each
@places
def test_missing_units_are_no_unit(kind, place, tmp_path):
    units = pd.Series(
        ["Anna", None, np.nan, pd.NA, pd.NaT, "", "NA", "nan", "None", "<NA>", "NaT"]
        + ["Ben"] * (N - 11)
    )
    model = model_of(kind, place, tmp_path, units=units.astype("object"))
    assert model.units_.tolist() == ["Anna", *[None] * 10, *["Ben"] * (N - 11)]
    for gap in (None, np.nan, pd.NA, "NA"):
        with pytest.raises(InvalidRequestError, match="1 of 2 are missing values"):
            model.forget(units=["Anna", gap])
    assert model.forget(units="Anna").tolist() == [0]


@each
@places
def test_names_are_compared_trimmed_and_in_one_unicode_form(kind, place, tmp_path):
    model = model_of(kind, place, tmp_path, units=["Zoe\u0308 "] * 3 + ["Ben"] * (N - 3))
    assert len(model.forget(units="Zoë")) == 3


@each
@places
def test_classes_can_be_named(kind, place, tmp_path):
    model = model_of(kind, place, tmp_path)
    receipt = model.forget(labels=[1, np.int64(2)])
    assert receipt.tolist() == np.flatnonzero(np.isin(Y, [1, 2])).tolist()
    assert model.classes_.tolist() == [0, 3]
    assert receipt.emptied == ("1", "2")
    with pytest.raises(UnknownRowsError, match="class 1"):
        model.forget(labels=1)
    with pytest.raises(InvalidRequestError, match="cannot be combined"):
        model.forget(labels=0, units=3)


@each
@places
def test_a_dry_run_changes_nothing_and_says_what_a_deletion_would(kind, place, tmp_path):
    model = model_of(kind, place, tmp_path)
    before = model.predict_proba(X)
    wanted = model.forget(units=[3, 4], dry_run=True)
    assert model.predict_proba(X).tobytes() == before.tobytes()
    assert len(model.ids_) == N
    assert (
        format_deletion(wanted)["would_delete"]
        == wanted.tolist()
        == model.forget(units=[3, 4]).tolist()
    )
    assert wanted.left == N - len(wanted) == len(model.ids_)
    assert sum(format_deletion(wanted)["classes"].values()) == len(wanted)
    assert re.search(r"would forget 8 samples \(.*\) and keep 32", str(wanted))


@each
@places
def test_what_is_not_there_is_refused_or_listed(kind, place, tmp_path):
    model = model_of(kind, place, tmp_path)
    wanted = {"ids": [3, 99], "units": ["Nobody", 7], "files": "a.png"}
    with pytest.raises(UnknownRowsError, match=r"99, unit 'Nobody', file 'a\.png'") as caught:
        model.forget(**wanted)
    assert isinstance(caught.value, KeyError)
    assert isinstance(caught.value, RequestError)
    assert caught.value.missing == ("99", "unit 'Nobody'", "file 'a.png'")
    assert len(model.ids_) == N
    receipt = model.forget(**wanted, ignore_missing=True)
    assert receipt.tolist() == [3, 7, 17, 27, 37]
    assert receipt.missing == caught.value.missing
    nothing = model.forget(ids=99, ignore_missing=True)
    assert len(nothing) == 0
    assert "found nothing now; deleted nothing" in str(nothing)
    assert len(model.ids_) == N - 5


@each
@places
@pytest.mark.parametrize(
    "wanted",
    [
        {},
        {"ids": [True, False]},
        {"ids": 1.5},
        {"ids": [np.nan]},
        {"ids": -1},
        {"ids": "Anna"},
        {"files": ""},
    ],
    ids=str,
)
def test_what_names_no_rows_is_refused_in_one_family_of_errors(kind, place, wanted, tmp_path):
    model = model_of(kind, place, tmp_path)
    if wanted == {"files": ""} and place == "memory":
        wanted = {"units": ""}
    with pytest.raises(InvalidRequestError) as caught:
        model.forget(**wanted)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, RequestError)
    assert len(model.ids_) == N


@each
@places
def test_exact_copies_that_stay_are_named(kind, place, tmp_path):
    rows = np.vstack([X, X[[3]]])
    model = kind().fit(rows, np.r_[Y, Y[3]], units=np.r_[PATIENTS, 77])
    if place == "directory":
        model.save(tmp_path / "model")
    asked = model.forget(ids=3, dry_run=True)
    assert asked.copies == [{"id": N, "unit": "77"}]
    with pytest.warns(
        UserWarning,
        match=r"exact copies of these remain: ids 40, of unit 77; .*forget\(ids=\[40\]\)",
    ):
        receipt = model.forget(ids=3)
    assert receipt.copies == [{"id": N, "unit": "77"}]
    assert format_deletion(receipt)["identical"] == [N]


@each
def test_the_receipt_says_what_the_command_says(kind, tmp_path):
    for name in ("python", "command"):
        kind().fit(X, Y, units=PATIENTS).save(tmp_path / name)
    for more, options in (({"dry_run": True}, ["--dry-run"]), ({}, [])):
        receipt = kind.load(tmp_path / "python").forget(units="3", **more)
        words = [
            "forget",
            str(tmp_path / "command"),
            "--unit",
            "3",
            "--json",
            *options,
        ]
        done = CliRunner().invoke(app, words)
        answer = json.loads(done.stdout)
        # the estimator purges at once
        changing = {"when", "memory", "before", "head", "purged", "missing"}
        known = {name: value for name, value in answer.items() if name not in changing}
        assert known == {name: format_deletion(receipt)[name] for name in known}
    with Predictor.load(tmp_path / "python") as model:
        assert format_deletion(receipt)["head"] == model.head
    assert format_deletion(receipt)["purged"]


@each
@places
def test_no_id_is_used_twice(kind, place, tmp_path):
    model = model_of(kind, place, tmp_path)
    assert model.add(X[:1], Y[:1], ids=[100]).tolist() == [100]
    # nothing was forgotten yet, so it is new
    assert model.add(X[:1], Y[:1], ids=[50]).tolist() == [50]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of copies
        model.forget(ids=[3, 50])
    for taken in (3, 50, 60):
        with pytest.raises(
            UsedIdError, match=rf"may have belonged to forgotten rows.*: {taken}; use 101"
        ):
            model.add(X[:1], Y[:1], ids=[taken])
    with pytest.raises(UsedIdError, match="already has rows with these ids: 4"):
        model.add(X[:1], Y[:1], ids=[4])
    assert model.add(X[:1], Y[:1], ids=[101]).tolist() == [101]
    # an index 0, 1 says nothing
    assert model.add(FRAME[list("abcde")][:2], FRAME.label[:2]).tolist() == [102, 103]


@each
def test_an_id_that_was_forgotten_before_the_first_save_is_not_used_again(kind, tmp_path):
    model = kind().fit(X, Y)
    model.forget(ids=[3])
    model.save(tmp_path / "model")
    for one in (model, kind.load(tmp_path / "model")):
        with pytest.raises(UsedIdError, match=r"may have belonged to forgotten rows.*: 3; use 40"):
            one.add(X[:1], Y[:1], ids=[3])


@each
def test_ids_that_no_directory_can_hold_are_refused_at_once(kind, tmp_path):
    ids = np.arange(N) + 2**62 - N
    model = kind().fit(X, Y, ids=ids)
    model.save(tmp_path / "model")
    assert kind.load(tmp_path / "model").ids_[-1] == 2**62 - 1
    for refused in (lambda: model.add(X[:1], Y[:1]), lambda: kind().fit(X, Y, ids=ids + 1)):
        with pytest.raises(InvalidRequestError, match=r"ids must be below 2\^62"):
            refused()
    with pytest.raises(KeyError, match="no row has these names"):
        model.forget(ids=2**62)


def test_a_grid_search_warns_of_an_index_once():
    """And not at each of its 12 fits for a measurement, whose models forget nothing."""
    frame = FRAME.set_axis([f"row {number}" for number in range(N)])
    search = GridSearchCV(munkey.ForgettingNCM(), {"temperature": [0.1, 1.0]}, cv=2)
    with pytest.warns(UserWarning, match="does not consist of distinct") as caught:
        search.fit(frame[list("abcde")], frame.label)
    assert [one.filename for one in caught] == [__file__]


def test_names_equal_as_numbers_are_offered():
    model = munkey.ForgettingNCM().fit(X, Y, units=[f"{row % 20:04}" for row in range(N)])
    for asked, similar in (("7", "0007"), (12.0, "0012"), ("0", "0000")):
        with pytest.raises(KeyError, match=f"Similar unit names for '.*': '{similar}'"):
            model.forget(units=asked)


@each
def test_a_second_save_says_that_the_first_directory_is_left(kind, tmp_path):
    model = kind().fit(X, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.save(tmp_path / "first")
    with pytest.warns(UserWarning, match="first is no longer changed by this estimator"):
        model.save(tmp_path / "second")
    model.forget(ids=3)
    assert 3 in kind.load(tmp_path / "first").ids_


@each
@places
def test_a_model_without_rows_can_be_saved_and_takes_rows_again(kind, place, tmp_path):
    model = model_of(kind, place, tmp_path)
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


@each
def test_a_directory_that_exists_is_refused_before_the_fit(kind, tmp_path, monkeypatch):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "mine.txt").touch()
    monkeypatch.setattr(
        classifier.ForgettingClassifier,
        "_validate_rows",
        lambda *_, **__: pytest.fail("rows were read"),
    )
    with pytest.raises(FileExistsError, match="choose a new or empty folder"):
        kind().fit(X, Y, save_to=tmp_path / "model")
    with pytest.raises(FileExistsError, match="choose a new or empty folder"):
        munkey.MunkeyClassifier().fit("no pictures", [1], save_to=tmp_path / "model")
    monkeypatch.undo()
    assert kind().fit(X, Y, save_to=tmp_path / "new").directory_ == tmp_path / "new"


def test_pictures_are_named_in_the_same_ways(tmp_path):
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
    with pytest.warns(UserWarning, match="exact copies of these remain: ids 27, of unit 5"):
        assert model.forget(pd.Index([26])).copies == [{"id": 27, "unit": "5"}]
    model.save(tmp_path / "first")
    with pytest.warns(UserWarning, match="first is no longer changed") as caught:
        model.save(tmp_path / "second")
    assert caught[0].filename == __file__
    assert model.forget(labels=["dog"]).tolist() == [23, 25, 27]
    rows = munkey.ForgettingLDA.load(tmp_path / "second")
    assert rows.forget(files="pets/9.png", ignore_missing=True).missing == ("file 'pets/9.png'",)
    assert rows.forget(files=str(files[4])).tolist() == [24]
    with pytest.raises(InvalidRequestError, match="numbers its rows itself"):
        rows.add(np.ones((1, rows.n_features_in_)), ["cat"], ids=[99])


@pytest.mark.parametrize(
    "module", [classifier, exact, names, pictures, ridge, of_pictures], ids=lambda one: one.__name__
)
def test_the_examples_in_docstrings_give_what_they_show(module):
    assert doctest.testmod(module).failed == 0
