"""The estimators: scikit-learn's checks and tools, and models after `forget` that equal a fit on the rest."""

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
from typer.testing import CliRunner

import munkey
from munkey import Predictor
from munkey.cli.app import app
from munkey.deploy.errors import PictureError, UnreadableModelError
from munkey.encoders.keys import normalize_rows
from munkey.estimators.classifier import ForgettingClassifier
from munkey.memory.memory_file import MemoryFile
from tests.estimators.inputs import BASE_METHODS, check_scikit_learn, content, each_kind

N = 60
Y = np.random.default_rng(0).integers(0, 4, N)
X = np.random.default_rng(1).normal(size=(N, 5)) + 2 * np.eye(5)[Y]
X[7] = 0  # a row without direction
PEOPLE = np.array([f"person {number}" for number in np.random.default_rng(2).integers(0, 12, N)])
QUERIES = np.random.default_rng(3).normal(size=(9, 5))


def keys_of(model):
    """The keys of the rows by ascending id, from memory or the directory."""
    if model.directory_ is None:
        return model._rows._state.columns.keys
    with MemoryFile.open(model.directory_ / "memory.db") as file:
        memory = file.snapshot().memory
        return memory.keys[memory.live_rows]


def bits(model):
    """The rows, coefficients, and answers of a model."""
    parts = [
        model.ids_,
        model.units_.tolist(),
        model.classes_,
        keys_of(model),
        model.predict_proba(QUERIES),
    ]
    if hasattr(model, "coef_"):
        parts += [model.coef_, model.intercept_]
    return [part.tobytes() if isinstance(part, np.ndarray) else part for part in parts]


def model_of(kind, rows, y=Y):
    """An estimator fitted to these rows, whose ids are their numbers."""
    return kind().fit(X[rows], y[rows], ids=rows, units=PEOPLE[rows])


def rows_without(*people):
    """The rows of all other people."""
    return np.flatnonzero(~np.isin(PEOPLE, people))


@each_kind
def test_every_kind_reads_requests_in_the_base_class(kind):
    """So one kind stands for all in tests of ids, units, classes and directories."""
    for name in BASE_METHODS:
        overriding = [owner for owner in kind.__mro__ if name in vars(owner)]
        assert overriding[0] not in kind.__mro__[: kind.__mro__.index(ForgettingClassifier)], name


@each_kind
@pytest.mark.filterwarnings("ignore")  # of scikit-learn's own data
def test_scikit_learns_checks_pass(kind):
    check_scikit_learn(kind())


@each_kind
@settings(max_examples=8, deadline=None)
@given(st.permutations(range(N)), st.integers(0, N - 1), st.integers(1, 4))
def test_any_deletions_leave_the_bytes_of_a_fit_on_the_rest(kind, order, count, batches):
    """Also where a class goes with its last row."""
    model = model_of(kind, np.arange(N))
    for batch in np.array_split(np.array(order[:count], dtype=int), batches):
        assert model.forget(batch).tolist() == sorted(batch.tolist())
    assert bits(model) == bits(model_of(kind, np.sort(order[count:]).astype(int)))


@each_kind
def test_a_person_goes_with_all_rows_and_a_class_with_its_last_one(kind):
    # Each person is a class, as in face recognition.
    model = model_of(kind, np.arange(N), y=PEOPLE)
    receipt = model.forget(units=["person 3", "person 5"])
    rows = rows_without("person 3", "person 5")
    assert receipt.tolist() == np.setdiff1d(np.arange(N), rows).tolist()
    assert "person 3" not in model.classes_
    assert model.predict_proba(QUERIES).shape == (9, 10)
    assert bits(model) == bits(model_of(kind, rows, y=PEOPLE))


@each_kind
def test_added_rows_give_the_bytes_of_one_fit_and_no_id_is_used_twice(kind):
    model = kind().fit(X[:40], Y[:40], units=PEOPLE[:40])
    model.forget(39)
    assert model.add(X[40:], Y[40:], units=PEOPLE[40:]).tolist() == list(range(40, N))
    assert bits(model) == bits(model_of(kind, np.r_[:39, 40:N]))
    assert model.add(X[:1], [9]).tolist() == [N]
    assert 9 in model.classes_
    model.forget([N])
    assert model.add(X[:1], [9]).tolist() == [N + 1]


@each_kind
def test_a_directory_forgets_with_its_estimator(kind, tmp_path):
    model = model_of(kind, np.arange(N), y=PEOPLE)
    model.save(tmp_path / "people")
    loaded = kind.load(tmp_path / "people")
    assert bits(loaded) == bits(model)
    assert loaded.get_params() == model.get_params()
    loaded.forget(units="person 3")
    model.forget(units="person 4")  # after the other one
    assert bits(kind.load(tmp_path / "people")) == bits(model)
    rows = rows_without("person 3", "person 4")
    assert bits(model) == bits(model_of(kind, rows, y=PEOPLE))
    written = content(tmp_path / "people")
    assert b"person 5" in written
    assert b"person 3" not in written
    assert b"person 4" not in written
    [first_key, *_] = normalize_rows(X[PEOPLE == "person 4"])
    assert first_key.tobytes() not in written
    assert model.add(X[:2], ["person 3", "new"]).tolist() == [N, N + 1]
    assert bits(kind.load(tmp_path / "people")) == bits(model)
    with MemoryFile.open(tmp_path / "people" / "memory.db") as file:
        assert file.verify().sound
        assert len(file.log()) == 2


def test_the_key_of_a_row_does_not_depend_on_other_rows():
    rows = np.vstack([X, 1e300 * X[:1], 1e-300 * X[:1]])
    columns_first = np.asfortranarray(rows)
    keys = normalize_rows(rows)
    for number, key in enumerate(keys):
        assert normalize_rows(rows[[number]]).tobytes() == key.tobytes()
        [first_key, *_] = normalize_rows(columns_first[number : number + 3])
        assert first_key.tobytes() == key.tobytes()
    assert not keys[7].any()
    np.testing.assert_allclose(np.linalg.norm(np.delete(keys, 7, axis=0), axis=1), 1, rtol=1e-6)


def test_pipelines_cross_validation_and_searches_take_estimators():
    images, digits = load_digits(return_X_y=True)
    images = images[:400]
    digits = digits[:400]
    pipeline = make_pipeline(FunctionTransformer(np.sqrt), munkey.ForgettingLDA())
    assert cross_val_score(pipeline, images, digits, cv=3).mean() > 0.85
    grid = {"k": np.array([1, 5]), "vote": ["equal", "rank"]}
    search = GridSearchCV(munkey.ForgettingKNN(), grid, cv=3)
    assert search.fit(images, digits).best_score_ > 0.85
    assert search.best_estimator_.forget([0, 3]).tolist() == [0, 3]
    pipeline.fit(images, digits, forgettinglda__ids=np.arange(400) + 1000)
    assert pipeline[-1].forget(1000).tolist() == [1000]


@each_kind
def test_a_copy_has_all_rows_and_changes_alone(kind):
    model = model_of(kind, np.arange(N))
    copied = pickle.loads(pickle.dumps(model))
    assert bits(copied) == bits(model)
    copied.forget(iter([1]))
    assert bits(model) == bits(model_of(kind, np.arange(N)))
    assert 1 not in copied.ids_
    assert not hasattr(clone(model), "ids_")


def test_a_refused_request_changes_nothing(tmp_path):
    kind = munkey.ForgettingLDA
    model = model_of(kind, np.arange(N))
    model.save(tmp_path / "model")
    before = bits(model)
    with pytest.raises(KeyError, match="60"):
        model.forget(ids=[1, N])
    with pytest.raises(KeyError, match="unit 'Nobody'"):
        model.forget(units=["person 1", "Nobody"])
    with pytest.raises(ValueError, match="these ids: 3"):
        model.add(X[:2], Y[:2], ids=[3, 99])
    with pytest.raises(ValueError, match="1 distinct ids for 2 rows"):
        model.add(X[:2], Y[:2], ids=[99, 99])
    with pytest.raises(ValueError, match="are integers"):
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
    assert bits(model)[1:] == before[1:]  # all but the ids, of which none is used twice


def test_an_unfitted_estimator_refuses_to_add_forget_and_save(tmp_path):
    unfitted = munkey.ForgettingNCM()
    with pytest.raises(NotFittedError):
        unfitted.add(X, Y)
    with pytest.raises(NotFittedError):
        unfitted.forget([1])
    with pytest.raises(NotFittedError):
        unfitted.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_an_alpha_above_1_is_refused():
    with pytest.raises(ValueError, match="alpha"):
        munkey.ForgettingLDA(alpha=2.0).fit(X, Y)


def test_a_folder_without_a_model_of_another_kind_or_damaged_is_refused(tmp_path):
    model = model_of(munkey.ForgettingLDA, np.arange(N))
    model.save(tmp_path / "model")
    with pytest.raises(UnreadableModelError, match=r"it has no manifest\.json"):
        munkey.ForgettingLDA.load(tmp_path)
    with pytest.raises(UnreadableModelError, match='"lda", not knn'):
        munkey.ForgettingKNN.load(tmp_path / "model")
    manifest = tmp_path / "model" / "manifest.json"
    manifest.write_text(manifest.read_text().replace("0.2", "0.3"))
    with pytest.raises(UnreadableModelError, match="was changed"):
        munkey.ForgettingLDA.load(tmp_path / "model")


def test_a_memory_of_another_model_is_refused(tmp_path):
    kind = munkey.ForgettingNCM
    for name in ("model", "other", "labels"):
        model_of(kind, np.arange(N)).save(tmp_path / name)
    shutil.copy(tmp_path / "other" / "memory.db", tmp_path / "model" / "memory.db")
    with MemoryFile.open(tmp_path / "labels" / "memory.db") as file:
        memory = file.snapshot().memory
        file.add([N], memory.keys[:1], memory.tokens[:1], [4])
    with pytest.raises(UnreadableModelError, match=r"model/memory.db: .*another model"):
        kind.load(tmp_path / "model")
    with pytest.raises(UnreadableModelError, match=r"labels/memory.db: .*label"):
        kind.load(tmp_path / "labels")


def test_the_names_of_columns_are_in_the_directory(tmp_path):
    table = pd.DataFrame(X, columns=list("abcde"))
    munkey.ForgettingNCM().fit(table, Y).save(tmp_path / "model")
    loaded = munkey.ForgettingNCM.load(tmp_path / "model")
    assert loaded.feature_names_in_.tolist() == list("abcde")
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(table[list("edcba")])


@pytest.mark.parametrize("has_names", [True, False])
def test_predict_takes_a_table_of_vectors_as_pandas_writes_it(has_names, tmp_path):
    rows = X
    table = pd.DataFrame(X[:4])
    if has_names:
        rows = pd.DataFrame(X, columns=list("abcde"))
        table = rows[:4][list("edcba")].assign(person="p1")
    model = munkey.ForgettingLDA().fit(rows, Y)
    model.save(tmp_path / "model")
    table.to_csv(tmp_path / "vectors.csv", sep=";", encoding="utf-8-sig")
    answer = run(tmp_path / "model", "predict", str(tmp_path / "vectors.csv"))
    classes = [prediction["class"] for prediction in answer["predictions"]]
    assert classes == [str(label) for label in model.predict(rows[:4])]


def test_units_are_found_by_whole_numbers_where_gaps_made_them_floats():
    """pandas makes floats of whole numbers beside a gap."""
    column = pd.Series([7, None, 8] * 20, dtype="float64")
    model = munkey.ForgettingNCM().fit(X, Y, units=column)
    assert model.units_.tolist() == ["7", None, "8"] * 20
    assert model.forget(units=[7]).tolist() == list(range(0, 60, 3))
    assert model.forget(units=["8.0"]).tolist() == list(range(2, 60, 3))


def test_a_unit_of_an_older_directory_is_found_as_people_type_it(tmp_path):
    model = munkey.ForgettingLDA().fit(X, Y, units=["Anna K."] * 30 + ["Bob"] * 30)
    with pytest.raises(KeyError, match=r"'anna k.': 'Anna K.'"):
        model.forget(units="anna k.")
    model.save(tmp_path / "model")
    with munkey.Predictor.load(tmp_path / "model") as predictor:
        memory = predictor._file.snapshot().memory
        predictor._file.add(
            [100, 101], memory.keys[:2], memory.tokens[:2], [0, 0], None, ["Zoe\u0308 ", "8.0"]
        )
    assert model.forget(units=["Zo\u00eb", 8]).tolist() == [100, 101]


def test_an_attribute_that_munkey_lacks_is_named():
    with pytest.raises(AttributeError, match="'nothing'"):
        munkey.nothing  # noqa: B018


def test_public_names_are_listed_with_the_version():
    assert {*munkey.__all__, "__version__"} <= {*dir(munkey)}
    assert munkey.__version__ == version("munkey")


def printed_words(code):
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
    assert printed_words(code) == []


def test_an_estimator_of_vectors_is_used_without_encoders(tmp_path):
    heavy = {"torchvision", "timm", "transformers", "PIL"}
    code = (
        "import sys\nfrom munkey import ForgettingLDA\n"
        "model = ForgettingLDA().fit([[1.0, 0.0], [0.9, 0.2], [0.0, 1.0]], ['right', 'right', 'up'])\n"
        f"model.forget(0)\nmodel.save({str(tmp_path / 'model')!r})\n"
        f"print(*model.predict([[1.0, 0.1]]), *{heavy} & set(sys.modules))"
    )
    assert printed_words(code) == ["right"]


def test_without_scikit_learn_the_error_names_the_extra():
    code = "import sys; sys.modules['sklearn'] = None; import munkey; munkey.ForgettingLDA"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=os.environ
    )
    assert done.returncode != 0
    assert "pip install 'munkey[estimators]'" in done.stderr


@each_kind
def test_an_estimator_the_commands_and_the_predictor_share_a_directory(kind, tmp_path):
    folder = tmp_path / "model"
    rows = tmp_path / "rows.npy"
    model = model_of(kind, np.arange(N), y=PEOPLE)
    model.save(folder)
    np.save(rows, QUERIES)
    run(folder, "predict", str(rows))
    with Predictor.load(folder) as deployed:
        answer = deployed.predict(rows)
        assert list(answer.names) == model.classes_.tolist()
        np.testing.assert_allclose(answer.probabilities, model.predict_proba(QUERIES), atol=1e-5)
        with pytest.raises(PictureError, match="rows of 5"):
            deployed.predict(np.zeros((2, 8, 8, 3), np.uint8))
    certificate = str(tmp_path / "proof.json")
    deletion = run(folder, "forget", "--class", "person 3", "--certificate", certificate)
    assert deletion["deleted"] == np.count_nonzero(PEOPLE == "person 3")
    assert b"person 3" not in content(folder)
    remaining = rows_without("person 3")
    loaded = kind.load(folder)
    assert bits(loaded) == bits(model_of(kind, remaining, y=PEOPLE))
    assert run(folder, "inspect")["provenance"] == "an estimator"
    assert run(folder, "verify")["sound"]
    assert len(run(folder, "list")["samples"]) == len(remaining)
    with Predictor.load(folder) as deployed:
        assert deployed.add(X[:1], ["person 5"]).ids.tolist() == [N]
    assert loaded.add(X[1:2], ["a new class"]).tolist() == [N + 1]
    with Predictor.load(folder) as deployed:
        highest = deployed.predict(QUERIES).probabilities.max(axis=1)
    np.testing.assert_allclose(highest, loaded.predict_proba(QUERIES).max(axis=1), atol=1e-5)


def run(folder, command, *options):
    """The JSON that a command prints about a directory."""
    done = CliRunner().invoke(app, [command, str(folder), *options, "--json"])
    assert not done.exit_code, done.output
    return json.loads(done.stdout)


def test_the_name_of_an_empty_class_goes_with_a_purge(tmp_path):
    munkey.ForgettingNCM().fit(X, PEOPLE).save(tmp_path / "model")
    with Predictor.load(tmp_path / "model") as model:
        model.forget(np.flatnonzero(PEOPLE == "person 3"))
        assert b"person 3" in content(tmp_path / "model")
        model.purge()
        assert b"person 3" not in content(tmp_path / "model")


def test_the_length_of_the_name_of_an_empty_class_goes_too(tmp_path):
    """The failure: the length was in the type of the other classes."""
    names = np.array(["cat", "a person with a long name"])[np.arange(20) % 2]
    rows = np.random.default_rng(0).normal(size=(20, 4))
    for folder in ("here", "there"):
        munkey.ForgettingNCM().fit(rows, names, units=names.tolist()).save(tmp_path / folder)
    munkey.ForgettingNCM.load(tmp_path / "here").forget(units=["a person with a long name"])
    with Predictor.load(tmp_path / "there") as model:
        model.forget(model.select(units=["a person with a long name"]).ids)
        model.purge()
    for folder in ("here", "there"):
        with Predictor.load(tmp_path / folder) as model:
            assert model.classes == ((None, "cat"), "<U")
        assert b"a person" not in content(tmp_path / folder)
        loaded = munkey.ForgettingNCM.load(tmp_path / folder)
        assert loaded.predict(rows).tolist() == ["cat"] * 20


def test_a_class_without_rows_cannot_be_used_after_a_purge(tmp_path):
    munkey.ForgettingNCM().fit(X, Y).save(tmp_path / "model")
    with Predictor.load(tmp_path / "model") as model:
        model.forget(np.flatnonzero(Y == 2))
        assert model.classes.names == (0, 1, 2, 3)
        model.purge()
        assert model.classes.names == (0, 1, None, 3)
        for label in (2, "2", ""):
            with pytest.raises(ValueError, match="is not a class"):
                model.add(QUERIES[:1], [label])
    assert munkey.ForgettingNCM.load(tmp_path / "model").classes_.tolist() == [0, 1, 3]
