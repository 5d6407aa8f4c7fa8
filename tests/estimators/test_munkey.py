"""The classifier of pictures: its fit makes a deployed directory, and scikit-learn's tools take it."""

import gc
import pickle
import re
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils import estimator_checks

import munkey
from munkey import MunkeyClassifier, Predictor
from munkey.deploy.errors import PictureError, UnknownNamesError, UnreadableModelError
from munkey.estimators import munkey as module
from munkey.estimators.errors import UnknownRowsError
from tests.conftest import read_config
from tests.estimators.inputs import EXACT

TINY = {
    "key_size": 32,
    "image_size": 16,
    "width": 16,
    "depth": 1,
    "epochs": 6,
    "batch_size": 8,
    "lr": 0.01,
    "device": "cpu",
}
Y = np.array([3, 7] * 12)
BRIGHTNESS = np.where(Y == 3, 40, 200)[:, None, None, None]
X = BRIGHTNESS + 60 * np.random.default_rng(0).normal(size=(24, 16, 16, 3))
X = np.clip(X, 0, 255).astype(np.uint8)
CHECKS = (
    "estimator_cloneable",
    "estimator_tags_renamed",
    "valid_tag_types",
    "estimator_repr",
    "set_params",
    "no_attributes_set_in_init",
    "parameters_default_constructible",
    "get_params_invariance",
)
PEOPLE = [f"person {row % 6}" for row in range(24)]
IDS = np.arange(100, 124)[::-1]
# Run in another process: the temporary folders as models are dropped and fitted, and a child ends.
PROCESS = """
import os, signal, sys, tempfile
from pathlib import Path
from munkey import MunkeyClassifier
from tests.estimators.test_munkey import X, Y
tempfile.tempdir = sys.argv[1]
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
def folders():
    return sorted(Path(sys.argv[1]).glob("munkey-*"))
def make():
    return MunkeyClassifier(family="lda", encoder="pixels", device="cpu", verbose=False)
dropped = make().fit(X, Y)
model = make().fit(X, Y)
assert len(folders()) == 2
del dropped
assert folders() == [model.directory_], "one that is dropped takes its folder along"
child = os.fork()
if not child:
    sys.exit(0)  # runs the finalizers
assert os.waitpid(child, 0)[1] == 0
assert folders() == [model.directory_], "a child has removed the folder of its parent"
model.fit(X[:20], Y[:20])
assert folders() == [model.directory_], "the folder of an earlier fit goes"
assert len(model.predict(X)) == len(Y)
print(model.directory_.stat().st_mode & 0o777, flush=True)
{end}
"""


def files_of(images, folder):
    """Image files named by their numbers."""
    files = [folder / f"{number}.png" for number in range(len(images))]
    for file, image in zip(files, images, strict=True):
        Image.fromarray(image).save(file)
    return files


@pytest.mark.parametrize("end", ["", "os.kill(os.getpid(), signal.SIGINT)"])
def test_a_process_that_ends_removes_the_temporary_folder_and_its_child_does_not(end, tmp_path):
    """One that is killed does not remove it, as docs/serving.md says."""
    command = [sys.executable, "-c", PROCESS.replace("{end}", end), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert bool(done.returncode) == bool(end), done.stderr
    assert done.stdout.split() == [str(0o700)]
    assert not list(tmp_path.glob("munkey-*"))


def test_fixed_settings_and_defaults_are_those_of_params_yaml():
    params = read_config()
    for family in ("lda", "ncm"):
        params[family]["temperature"] = "auto"  # by the rows of the user
    params["krr"]["lam"] = 0.03  # auto takes seven times as long after a deletion
    params["knn"] |= {"k": 16, "temperature": 0.02}  # those of params.yaml were chosen for digits
    for section, settings in module.FIXED_SETTINGS.items():
        assert settings == {name: params[section][name] for name in settings}, section
    sections = module._make_sections(MunkeyClassifier().get_params())  # with key_size="auto" read
    differences = []
    for parameter, place in module.SETTING_OF_PARAMETER.items():
        section, name = place.split(".")
        if sections[section][name] != params[section][name]:
            differences.append(parameter)
    # The pictures of a user are larger than digits, and have other keys.
    assert differences == ["encoder", "key_size", "image_size", "alpha"]


@pytest.mark.parametrize("check", CHECKS)
def test_scikit_learns_checks_that_need_no_rows_of_numbers_pass(check):
    """`check_estimator` itself runs the first one, and says that it has no pictures for the others."""
    getattr(estimator_checks, f"check_{check}")("MunkeyClassifier", MunkeyClassifier())


def test_a_munkey_model_learns_is_saved_forgets_and_adds(tmp_path):
    model = MunkeyClassifier(verbose=False, **TINY).fit(X, Y, ids=IDS, units=PEOPLE)
    assert model.score(X, Y) == 1
    assert model.predict(X).dtype == Y.dtype
    before = model.predict_proba(X)
    temporary = model.directory_
    model.save(tmp_path / "model")
    assert not temporary.exists()  # nothing would be deleted from it
    loaded = MunkeyClassifier.load(tmp_path / "model")
    assert loaded.predict_proba(X).tobytes() == before.tobytes()
    assert loaded.get_params() == model.get_params() | {"device": "auto"}
    receipt = loaded.forget([100], units=["person 1"])
    expected = np.union1d(IDS[np.array(PEOPLE) == "person 1"], [100])
    assert receipt.tolist() == expected.tolist()
    assert loaded.ids_.tolist() == np.setdiff1d(IDS, expected).tolist()
    with Predictor.load(tmp_path / "model") as deployed:
        assert deployed.verify().sound
        assert b"person 1" not in (tmp_path / "model/memory.db").read_bytes()
        after = deployed.predict(X).probabilities
    assert after.tobytes() == loaded.predict_proba(X).tobytes()
    assert after.tobytes() != before.tobytes()
    with pytest.raises(UnknownNamesError, match=r"person 1.*for 'person 1': 'person "):
        loaded.forget(units="person 1")
    assert loaded.add(X[:1], [3]).tolist() == [124]
    assert 124 in loaded.ids_
    assert loaded.forget(124).tolist() == [124]
    assert 124 not in loaded.ids_
    assert loaded.add(X[1:3], [3, 7], units=["person 8", 9]).tolist() == [125, 126]
    assert loaded.forget(units=[9]).tolist() == [126]
    assert loaded.forget(units="person 8").tolist() == [125]
    with pytest.raises(ValueError, match="new class"):
        loaded.add(X[:1], [5])
    with pytest.raises(ValueError, match="name the samples to forget"):
        loaded.forget()


def test_a_thread_may_answer_from_the_temporary_folder_until_it_has_finished(tmp_path):
    model = MunkeyClassifier(family="lda").fit(X, Y)
    temporary = model.directory_
    opened = model._handle.model  # as another thread has it
    model.save(tmp_path / "saved")
    assert len(opened.predict(X[:3])) == 3
    del opened
    gc.collect()
    assert not temporary.exists()


@pytest.mark.parametrize("family", ["lda", "ncm", "knn", "ranpac", "krr"])
def test_an_exact_family_equals_a_fit_on_the_rest_and_is_deployed_with_its_encoder(
    family, tmp_path, monkeypatch
):
    monkeypatch.setitem(module.FIXED_SETTINGS["ranpac"], "features", 50)  # quick to solve for
    model = MunkeyClassifier(family=family, key_size=32, verbose=False)
    model.fit(X, Y, units=PEOPLE)
    model.save(tmp_path / "model")
    assert len(model.forget(units=["person 1", "person 2"])) == 8
    rows = model.ids_
    never = clone(model).fit(X[rows], Y[rows], ids=rows)
    assert model.predict_proba(X).tobytes() == never.predict_proba(X).tobytes()
    with Predictor.load(tmp_path / "model") as deployed:
        assert deployed.predict(X).probabilities.tobytes() == never.predict_proba(X).tobytes()
        assert deployed.manifest.encoder.settings.image_size == 32
        assert deployed.verify().sound
    assert MunkeyClassifier.load(tmp_path / "model").get_params() == model.get_params()


def test_an_unfitted_classifier_can_be_pickled():
    unfitted = MunkeyClassifier(k=3, family="knn")
    assert pickle.loads(pickle.dumps(unfitted)).get_params() == unfitted.get_params()


def test_an_unfitted_classifier_refuses_to_save_forget_and_predict(tmp_path):
    unfitted = MunkeyClassifier()
    with pytest.raises(NotFittedError):
        unfitted.save(tmp_path / "model")
    with pytest.raises(NotFittedError):
        unfitted.forget(1)
    with pytest.raises(NotFittedError):
        unfitted.predict(X)


def test_a_faulty_parameter_is_refused_before_any_picture_is_read():
    with pytest.raises(ValueError, match="munkey, knn, lda"):
        MunkeyClassifier(family="vit").fit("no pictures", [1])
    with pytest.raises(ValueError, match="p_image"):
        MunkeyClassifier(p_image=2.0).fit("no pictures", [1])


@pytest.mark.parametrize("family", EXACT)
def test_the_error_for_a_model_of_rows_names_its_estimator(family, tmp_path):
    EXACT[family]().fit([[1.0, 0.0], [0.0, 1.0]], [0, 1]).save(tmp_path / "rows")
    with pytest.raises(UnreadableModelError) as error:
        MunkeyClassifier.load(tmp_path / "rows")
    advice = re.search(r"load it with (\w+)", str(error.value))
    assert getattr(munkey, advice[1]).load(tmp_path / "rows").family == family


def test_scikit_learns_tools_take_the_classifier_and_files(tmp_path):
    files = files_of(X[:12], tmp_path)
    model = MunkeyClassifier(verbose=False, **TINY | {"epochs": 1})
    assert len(cross_val_score(model, X[:12], Y[:12], cv=2)) == 2
    grid = {"munkeyclassifier__head": ["none", "lda"]}
    search = GridSearchCV(make_pipeline(model), grid, cv=2).fit(files, Y[:12])
    best = search.best_estimator_[-1]
    best.save(tmp_path / "best")
    with Predictor.load(tmp_path / "best") as deployed:
        assert deployed.select(files=[files[3]]).ids.tolist() == [3]
    with pytest.raises(TypeError, match="save"):
        best.__getstate__()
    with pytest.raises(PictureError, match="no such file"):
        clone(best).fit([*files[:1], tmp_path / "none.png"], [1, 2])
    with pytest.raises(ValueError, match="2 pictures but 1 labels"):
        clone(best).fit(files[:2], [1])


def test_a_file_is_found_by_its_relative_path_and_from_elsewhere_its_path_is_suggested(
    tmp_path, monkeypatch
):
    files = [tmp_path / "pets" / ("cat", "dog")[row % 2] / f"{row}[1].png" for row in range(8)]
    for file, image in zip(files, X[:8], strict=True):
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(file)
    model = MunkeyClassifier(family="lda", key_size=32, verbose=False)
    model.fit(files, [file.parent.name for file in files]).save(tmp_path / "model")
    monkeypatch.chdir(tmp_path / "pets")
    assert model.forget(files=["dog"], dry_run=True).tolist() == [1, 3, 5, 7]
    receipt = model.forget(files=["cat/2[1].png", "glob:dog/[13]*.png"])
    assert receipt.tolist() == [1, 2, 3]
    assert receipt.patterns == ("glob:dog/[13]*.png",)
    assert "given as patterns: glob:dog/[13]*.png" in str(receipt)
    monkeypatch.chdir("/")
    with pytest.raises(UnknownRowsError, match=r"'/.*/pets/cat/4\[1\].png'"):
        model.forget(files=["cat/4[1].png"])


def files_with_bad_ones(folder):
    """The files of 14 pictures, of which numbers 4 and 9 cannot be read."""
    files = files_of(X[:14], folder)
    files[4].write_bytes(b"")
    files[9].write_bytes(b"%PDF-1.4")
    return files


def test_unreadable_pictures_are_skipped_with_their_classes_and_units(tmp_path):
    files = files_with_bad_ones(tmp_path)
    model = MunkeyClassifier(family="lda", key_size=32, device="cpu")
    with pytest.warns(UserWarning, match=r"(?s)skipped 2 pictures: .*4\.png.*9\.png"):
        model.set_params(on_bad="skip").fit(files, Y[:14], ids=range(50, 64), units=range(14))
    assert model.ids_.tolist() == [*range(50, 54), *range(55, 59), *range(60, 64)]
    never = clone(model).fit(np.delete(files, [4, 9]).tolist(), np.delete(Y[:14], [4, 9]))
    assert model.predict_proba(X).tobytes() == never.predict_proba(X).tobytes()
    assert model.forget(units=[10.0]).tolist() == [60]


def test_gray_of_twelve_bits_is_warned_of_and_its_white_is_saved(tmp_path):
    model = MunkeyClassifier(family="ncm", key_size=32, device="cpu")
    values = np.random.default_rng(0).integers(0, 4096, (6, 16, 16)).astype(np.uint16)
    files = files_of(values, tmp_path)
    with pytest.warns(UserWarning, match="6 pictures, .*white to 4095"):
        model.fit(files, [3, 7] * 3)
    model.set_params(white=4095).fit(files, [3, 7] * 3)
    model.save(tmp_path / "model")
    bright = np.repeat(np.rint(values * (255 / 4095)).astype(np.uint8)[..., None], 3, axis=-1)
    with Predictor.load(tmp_path / "model") as deployed:
        logits = deployed.predict(files).logits
        np.testing.assert_array_equal(logits, deployed.predict(bright).logits)
    assert MunkeyClassifier.load(tmp_path / "model").white == 4095
