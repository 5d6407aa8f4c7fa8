"""The estimators: what scikit-learn asks of them, and that what they hold after `forget` is a fit on the rest."""

import json
import os
import pickle
import shutil
import subprocess
import sys
from importlib.metadata import version

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import check_estimator
from typer.testing import CliRunner

import munkey
from munkey import Predictor
from munkey.cli.app import app
from munkey.deploy.errors import PictureError, UnreadableModelError
from munkey.encoders.keys import normalize_rows
from munkey.memory.memory_file import MemoryFile
from tests.estimators.inputs import KINDS, content

each = pytest.mark.parametrize("kind", KINDS)
# they take numpy's arrays alone; the check runs only where an environment asks for it
SKIPPED = {"check_array_api_input"}

GENERATOR = np.random.default_rng(0)
N = 60
Y = GENERATOR.integers(0, 4, N)
X = GENERATOR.normal(size=(N, 5)) + 2 * np.eye(5)[Y]
X[7] = 0  # a row without direction
PEOPLE = [f"person {number}" for number in GENERATOR.integers(0, 12, N)]
QUERIES = GENERATOR.normal(size=(9, 5))


def keys_of(model):
    """The keys of the rows, by ascending id, from where they lie."""
    if model.directory_ is None:
        return model._rows._state.columns.keys
    with MemoryFile.open(model.directory_ / "memory.db") as file:
        memory = file.snapshot().memory
        return memory.keys[memory.live_rows]


def bits(model):
    """Everything that it answers from, and its answers."""
    held = [
        model.ids_,
        model.units_.tolist(),
        model.classes_,
        keys_of(model),
        model.predict_proba(QUERIES),
    ]
    if hasattr(model, "coef_"):
        held += [model.coef_, model.intercept_]
    return [part.tobytes() if isinstance(part, np.ndarray) else part for part in held]


def fitted_on(kind, rows, y=Y):
    """A fit to some rows under the ids that they have."""
    return kind().fit(X[rows], y[rows], ids=rows, units=[PEOPLE[row] for row in rows])


@each
@pytest.mark.filterwarnings("ignore")  # of scikit-learn's own data
def test_scikit_learns_checks_pass(kind):
    results = check_estimator(kind(), on_skip=None, on_fail=None)
    others = {one["check_name"]: one["exception"] for one in results if one["status"] != "passed"}
    assert len(results) > 50 and set(others) <= SKIPPED, others


@each
@settings(max_examples=8, deadline=None)
@given(st.permutations(range(N)), st.integers(0, N - 1), st.integers(1, 4))
def test_any_deletions_leave_the_bytes_of_a_fit_on_the_rest(kind, order, gone, batches):
    """Also where a class goes with its last row."""
    model = fitted_on(kind, np.arange(N))
    for batch in np.array_split(np.array(order[:gone], dtype=int), batches):
        assert model.forget(batch).tolist() == sorted(batch.tolist())
    assert bits(model) == bits(fitted_on(kind, np.sort(order[gone:]).astype(int)))


@each
def test_a_person_goes_with_all_rows_and_a_class_with_its_last_one(kind):
    # each person a class, as in face recognition
    model = fitted_on(kind, np.arange(N), y=np.array(PEOPLE))
    gone = model.forget(units=["person 3", "person 5"])
    left = np.array([row for row in range(N) if PEOPLE[row] not in {"person 3", "person 5"}])
    assert gone.tolist() == sorted(set(range(N)) - set(left.tolist()))
    assert "person 3" not in model.classes_ and model.predict_proba(QUERIES).shape == (9, 10)
    assert bits(model) == bits(fitted_on(kind, left, y=np.array(PEOPLE)))


@each
def test_what_is_added_is_as_if_it_had_been_there_and_no_id_is_used_twice(kind):
    model = kind().fit(X[:40], Y[:40], units=PEOPLE[:40])
    model.forget(39)
    assert model.add(X[40:], Y[40:], units=PEOPLE[40:]).tolist() == list(range(40, N))
    assert bits(model) == bits(fitted_on(kind, np.r_[:39, 40:N]))
    assert model.add(X[:1], [9]).tolist() == [N] and 9 in model.classes_
    model.forget([N])
    assert model.add(X[:1], [9]).tolist() == [N + 1]


@each
def test_a_directory_forgets_with_its_estimator(kind, tmp_path):
    model = fitted_on(kind, np.arange(N), y=np.array(PEOPLE))
    model.save(tmp_path / "people")
    loaded = kind.load(tmp_path / "people")
    assert bits(loaded) == bits(model) and loaded.get_params() == model.get_params()
    loaded.forget(units="person 3")
    model.forget(units="person 4")  # the other has forgotten meanwhile
    assert bits(kind.load(tmp_path / "people")) == bits(model)
    left = np.array([row for row in range(N) if PEOPLE[row] not in {"person 3", "person 4"}])
    assert bits(model) == bits(fitted_on(kind, left, y=np.array(PEOPLE)))
    written = content(tmp_path / "people")
    assert b"person 5" in written and b"person 3" not in written and b"person 4" not in written
    gone = normalize_rows(X[[PEOPLE.index("person 4")]])
    assert gone.tobytes() not in written
    assert model.add(X[:2], ["person 3", "new"]).tolist() == [N, N + 1]
    assert bits(kind.load(tmp_path / "people")) == bits(model)
    with MemoryFile.open(tmp_path / "people" / "memory.db") as file:
        assert file.verify().sound and len(file.log()) == 2


def test_a_row_comes_to_unit_norm_by_itself():
    wild = np.vstack([X, 1e300 * X[:1], 1e-300 * X[:1]])
    keys = normalize_rows(wild)
    for row in range(len(wild)):
        assert normalize_rows(wild[[row]]).tobytes() == keys[[row]].tobytes()
        assert (
            normalize_rows(np.asfortranarray(wild)[row : row + 3])[:1].tobytes()
            == keys[[row]].tobytes()
        )
    assert not keys[7].any()
    np.testing.assert_allclose(np.linalg.norm(np.delete(keys, 7, axis=0), axis=1), 1, rtol=1e-6)


def test_pipelines_cross_validation_and_searches_take_them():
    images, digits = load_digits(return_X_y=True)
    images, digits = images[:400], digits[:400]
    piped = make_pipeline(FunctionTransformer(np.sqrt), munkey.ForgettingLDA())
    assert cross_val_score(piped, images, digits, cv=3).mean() > 0.85
    search = GridSearchCV(
        munkey.ForgettingKNN(), {"k": np.array([1, 5]), "vote": ["equal", "rank"]}, cv=3
    )
    assert search.fit(images, digits).best_score_ > 0.85
    assert search.best_estimator_.forget([0, 3]).tolist() == [0, 3]
    piped.fit(images, digits, forgettinglda__ids=np.arange(400) + 1000)
    assert piped[-1].forget(1000).tolist() == [1000]


@each
def test_copies_are_whole_and_apart(kind):
    model = fitted_on(kind, np.arange(N))
    copied = pickle.loads(pickle.dumps(model))
    copied.forget(one for one in [1])
    assert bits(model) == bits(fitted_on(kind, np.arange(N))) and 1 not in copied.ids_
    assert not hasattr(clone(model), "ids_")


def test_what_cannot_be_done_is_said_and_changes_nothing(tmp_path):
    kind = munkey.ForgettingLDA
    model = fitted_on(kind, np.arange(N))
    model.save(tmp_path / "model")
    before = bits(model)
    for wanted in ({"ids": [1, N]}, {"units": ["person 1", "Nobody"]}):
        with pytest.raises(KeyError, match=r"so nothing was forgotten: (60|unit 'Nobody')"):
            model.forget(**wanted)
    with pytest.raises(ValueError, match="name the samples to forget"):
        model.forget()
    with pytest.raises(ValueError, match="already has rows with these ids: 3"):
        model.add(X[:2], Y[:2], ids=[3, 99])
    with pytest.raises(ValueError, match="got 1 distinct ids for 2 rows"):
        model.add(X[:2], Y[:2], ids=[99, 99])
    with pytest.raises(ValueError, match="the model's are integers"):
        model.add(X[:1], ["cat"])
    with pytest.raises(ValueError, match="a list of 2"):
        model.add(X[:2], Y[:2], units=["Anna"])
    with pytest.raises(FileExistsError):
        model.save(tmp_path / "model")
    assert bits(model) == before == bits(kind.load(tmp_path / "model"))
    model.forget(model.ids_)
    with pytest.raises(ValueError, match="every row was forgotten"):
        model.predict(X)
    model.add(X, Y, ids=N + np.arange(N), units=PEOPLE)
    assert bits(model) == bits(kind.load(tmp_path / "model"))
    assert bits(model)[1:] == before[1:]  # the same rows under other ids: none is used twice


@each
def test_until_it_is_fitted_there_is_nothing_to_add_to_forget_or_save(kind, tmp_path):
    for use in (
        lambda made: made.add(X, Y),
        lambda made: made.forget([1]),
        lambda made: made.save(tmp_path / "m"),
    ):
        with pytest.raises(NotFittedError):
            use(kind())
    assert not (tmp_path / "m").exists()


def test_a_setting_that_makes_no_sense_is_refused():
    with pytest.raises(ValueError, match="alpha"):
        munkey.ForgettingLDA(alpha=2.0).fit(X, Y)


def test_a_directory_that_is_none_damaged_or_of_another_kind_is_refused(tmp_path):
    model = fitted_on(munkey.ForgettingLDA, np.arange(N))
    model.save(tmp_path / "model")
    for kind, folder, said in (
        (munkey.ForgettingLDA, tmp_path, r"it has no manifest\.json"),
        (munkey.ForgettingKNN, tmp_path / "model", 'holds the family "lda", not knn'),
    ):
        with pytest.raises(UnreadableModelError, match=said):
            kind.load(folder)
    manifest = tmp_path / "model" / "manifest.json"
    manifest.write_text(manifest.read_text().replace("0.2", "0.3"))
    with pytest.raises(UnreadableModelError, match="was changed after it was written"):
        munkey.ForgettingLDA.load(tmp_path / "model")


def test_a_memory_that_is_not_that_of_its_model_is_refused(tmp_path):
    kind = munkey.ForgettingNCM
    for name in ("model", "other", "labels"):
        fitted_on(kind, np.arange(N)).save(tmp_path / name)
    shutil.copy(tmp_path / "other" / "memory.db", tmp_path / "model" / "memory.db")
    with MemoryFile.open(tmp_path / "labels" / "memory.db") as file:
        memory = file.snapshot().memory
        file.add([N], memory.keys[:1], memory.tokens[:1], [4])
    for name, said in (
        ("model", "is the memory of another model"),
        ("labels", "whose label is not a class"),
    ):
        with pytest.raises(UnreadableModelError, match=rf"{name}/memory.db: .*{said}"):
            kind.load(tmp_path / name)


@each
def test_the_names_of_columns_are_kept_in_the_directory(kind, tmp_path):
    table = pd.DataFrame(X, columns=list("abcde"))
    kind().fit(table, Y).save(tmp_path / "model")
    loaded = kind.load(tmp_path / "model")
    assert loaded.feature_names_in_.tolist() == list("abcde")
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(table[list("edcba")])


@pytest.mark.parametrize("named", [True, False])
def test_predict_takes_a_table_of_vectors_as_pandas_writes_it(named, tmp_path):
    rows = pd.DataFrame(X).set_axis(list("abcde"), axis=1) if named else pd.DataFrame(X)
    model = munkey.ForgettingLDA().fit(rows if named else X, Y)
    model.save(tmp_path / "model")
    asked = rows.head(4)[list("edcba")].assign(person="p1") if named else rows.head(4)
    asked.to_csv(tmp_path / "vectors.csv", sep=";", encoding="utf-8-sig")
    answer = CliRunner().invoke(
        app, ["predict", str(tmp_path / "model"), str(tmp_path / "vectors.csv"), "--json"]
    )
    assert answer.exit_code == 0, answer.output
    classes = [one["class"] for one in json.loads(answer.stdout)["predictions"]]
    assert classes == [str(label) for label in model.predict(rows.head(4) if named else X[:4])]


@each
def test_units_with_gaps_and_whole_numbers_are_those_that_a_person_names(kind):
    """pandas makes floats of whole numbers beside a gap; what stands for an empty cell is no unit."""
    column = pd.Series([7, None, 8] * 20, dtype="float64")
    model = kind().fit(X, Y, units=column)
    assert model.units_.tolist() == ["7", None, "8"] * 20
    for nobody in (None, "NA", float("nan"), pd.NA):
        with pytest.raises(ValueError, match="missing values, which no row has"):
            model.forget(units=[nobody])
    assert model.forget(units=[7]).tolist() == list(range(0, 60, 3))
    assert model.forget(units=["8.0"]).tolist() == list(range(2, 60, 3))
    texts = pd.Series(["Zoe\u0308 ", pd.NA, "NA"] * 20, dtype="string")
    assert kind().fit(X, Y, units=texts).units_.tolist() == ["Zo\u00eb", None, None] * 20


def test_a_unit_of_an_older_directory_is_found_as_people_type_it(tmp_path):
    model = munkey.ForgettingLDA().fit(X, Y, units=["Anna K."] * 30 + ["Bob"] * 30)
    with pytest.raises(
        KeyError, match=r"no row has these names.*unit 'anna k.'.* for 'anna k.': 'Anna K.'"
    ):
        model.forget(units="anna k.")
    model.save(tmp_path / "model")
    with munkey.Predictor.load(tmp_path / "model") as predictor:
        memory = predictor._file.snapshot().memory
        predictor._file.add(
            [100, 101], memory.keys[:2], memory.tokens[:2], [0, 0], None, ["Zoe\u0308 ", "8.0"]
        )
    assert model.forget(units=["Zo\u00eb", 8]).tolist() == [100, 101]


def test_what_munkey_does_not_have_is_no_attribute_of_it():
    with pytest.raises(AttributeError, match="module 'munkey' has no attribute 'nothing'"):
        munkey.nothing  # noqa: B018


def test_public_names_are_listed_with_the_version():
    assert {*munkey.__all__, "__version__"} <= {*dir(munkey)}
    assert munkey.__version__ == version("munkey")


def run_code(code):
    """The words that a fresh interpreter prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_an_estimator_of_vectors_is_imported_without_torch():
    heavy = {"torch", "torchvision", "timm", "transformers", "safetensors", "faiss", "PIL"}
    code = (
        "import sys\nfrom munkey import ForgettingKNN, ForgettingKRR, ForgettingLDA, ForgettingNCM,"
        " ForgettingRanPAC, UnknownRowsError\n"
        f"print(*{heavy} & set(sys.modules))"
    )
    assert run_code(code) == []


def test_to_fit_answer_forget_and_save_it_needs_torch_but_no_encoder(tmp_path):
    heavy = {"torchvision", "timm", "transformers", "PIL"}
    code = (
        "import sys\nfrom munkey import ForgettingLDA\n"
        "model = ForgettingLDA().fit([[1.0, 0.0], [0.9, 0.2], [0.0, 1.0]], ['right', 'right', 'up'])\n"
        f"model.forget(0)\nmodel.save({str(tmp_path / 'model')!r})\n"
        f"print(*model.predict([[1.0, 0.1]]), *{heavy} & set(sys.modules))"
    )
    assert run_code(code) == ["right"]


def test_without_scikit_learn_it_is_said_what_to_install():
    code = "import sys; sys.modules['sklearn'] = None; import munkey; munkey.ForgettingLDA"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=os.environ
    )
    assert done.returncode and "pip install 'munkey[estimators]'" in done.stderr


@each
def test_the_commands_and_predictor_take_what_an_estimator_saved_and_it_takes_what_they_changed(
    kind, tmp_path
):
    folder, rows = tmp_path / "model", tmp_path / "rows.npy"
    model = fitted_on(kind, np.arange(N), y=np.array(PEOPLE))
    model.save(folder)
    np.save(rows, QUERIES)
    run(folder, "predict", str(rows))
    with Predictor.load(folder) as deployed:
        answer = deployed.predict(rows)
        assert list(answer.names) == model.classes_.tolist()
        np.testing.assert_allclose(answer.probabilities, model.predict_proba(QUERIES), atol=1e-5)
        with pytest.raises(PictureError, match="rows of 5 finite numbers"):
            deployed.predict(np.zeros((2, 8, 8, 3), np.uint8))
    deleted = run(
        folder, "forget", "--class", "person 3", "--certificate", str(tmp_path / "proof.json")
    )
    assert deleted["deleted"] == PEOPLE.count("person 3")
    assert b"person 3" not in content(folder)
    left = np.array([row for row in range(N) if PEOPLE[row] != "person 3"])
    loaded = kind.load(folder)
    assert bits(loaded) == bits(fitted_on(kind, left, y=np.array(PEOPLE)))
    assert run(folder, "inspect")["provenance"] == "an estimator"
    assert run(folder, "verify")["sound"] and len(run(folder, "list")["samples"]) == len(left)
    with Predictor.load(folder) as deployed:
        assert deployed.add(X[:1], ["person 5"]).ids.tolist() == [N]
    # who was not there when it was loaded
    assert loaded.add(X[1:2], ["someone else"]).tolist() == [N + 1]
    with Predictor.load(folder) as deployed:
        found = deployed.predict(QUERIES).probabilities.max(axis=1)
    np.testing.assert_allclose(found, loaded.predict_proba(QUERIES).max(axis=1), atol=1e-5)


def run(folder, command, *more):
    """What a command says about a directory."""
    done = CliRunner().invoke(app, [command, str(folder), *more, "--json"])
    assert not done.exit_code, done.output
    return json.loads(done.stdout)


def test_the_name_of_an_empty_class_goes_with_a_purge(tmp_path):
    munkey.ForgettingNCM().fit(X, np.array(PEOPLE)).save(tmp_path / "model")
    with Predictor.load(tmp_path / "model") as model:
        model.forget([row for row in range(N) if PEOPLE[row] == "person 3"])
        assert b"person 3" in content(tmp_path / "model")
        model.purge()
        assert b"person 3" not in content(tmp_path / "model")


@pytest.mark.parametrize("kind", KINDS)
def test_of_a_class_that_is_gone_not_even_the_length_of_its_name_stays(kind, tmp_path):
    """It stood in the type of the other classes."""
    names = np.array(["cat", "a person with a long name"])[np.arange(20) % 2]
    rows = np.random.default_rng(0).normal(size=(20, 4))
    for folder in ("here", "there"):
        kind().fit(rows, names, units=names.tolist()).save(tmp_path / folder)
    kind.load(tmp_path / "here").forget(units=["a person with a long name"])
    with Predictor.load(tmp_path / "there") as model:
        model.forget(model.select(units=["a person with a long name"]).ids)
        model.purge()
    for folder in ("here", "there"):
        with Predictor.load(tmp_path / folder) as model:
            assert model.classes == ((None, "cat"), "<U")
        assert b"a person" not in content(tmp_path / folder)
        assert kind.load(tmp_path / folder).predict(rows).tolist() == ["cat"] * 20


def test_a_class_that_a_purge_took_cannot_be_used(tmp_path):
    munkey.ForgettingNCM().fit(X, Y).save(tmp_path / "model")
    with Predictor.load(tmp_path / "model") as model:
        model.forget(np.flatnonzero(Y == 2))
        assert model.classes.names == (0, 1, 2, 3)
        model.purge()
        assert model.classes.names == (0, 1, None, 3)
        for label in (2, "2", ""):
            with pytest.raises(ValueError, match="is not the name of a class"):
                model.add(QUERIES[:1], [label])
    assert munkey.ForgettingNCM.load(tmp_path / "model").classes_.tolist() == [0, 1, 3]
