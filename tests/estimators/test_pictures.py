"""Pictures in a pipeline: their keys are those of the project, and a picture is forgotten by its number."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.utils.validation import check_is_fitted

from munkey import ForgettingLDA, PictureKeys
from munkey.deploy.errors import PictureError
from munkey.encoders.keys import extract
from munkey.encoders.registry import find
from munkey.settings import EncoderSettings
from tests.data.inputs import picture

SIDE = 32


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pictures")
    made = [folder / f"{number}.png" for number in range(6)]
    for number, file in enumerate(made):
        picture(file, size=(SIDE, SIDE), seed=number)
    return made


def test_keys_are_those_of_the_encoder_for_files_and_arrays(files):
    images = np.random.default_rng(0).integers(0, 256, (5, SIDE, SIDE, 3), dtype=np.uint8)
    settings = EncoderSettings(encoder="efficientnet-lite0", revision=None, image_size=SIDE, batch_size=64)
    encode = find(settings.encoder).build(settings, "cpu")
    keys = clone(PictureKeys(image_size=SIDE)).fit_transform(images)
    np.testing.assert_allclose(keys, extract(encode, images, 64, "cpu", lambda starts: starts), atol=1e-3)
    of_files = PictureKeys(image_size=SIDE).transform(files)
    assert of_files.shape == (6, keys.shape[1])
    assert (
        PictureKeys(image_size=SIDE).transform(np.array([str(file) for file in files])).tobytes() == of_files.tobytes()
    )


def test_a_pipeline_forgets_the_pictures_of_a_person(files):
    labels, people = ["cat", "dog"] * 3, ["Anna", "Ben", "Ben", "Anna", None, None]
    model = make_pipeline(PictureKeys(image_size=SIDE), ForgettingLDA())
    model.fit(files, labels, forgettinglda__units=people)
    assert model[-1].forget(units=["Ben"]).tolist() == [1, 2]
    kept = [0, 3, 4, 5]
    never = clone(model).fit([files[row] for row in kept], [labels[row] for row in kept])
    assert model.predict_proba(files).tobytes() == never.predict_proba(files).tobytes()


def test_what_is_no_picture_is_named(tmp_path):
    with pytest.raises(PictureError, match=r"none\.png: there is no such file"):
        PictureKeys(image_size=SIDE).transform([tmp_path / "none.png"])


def test_it_needs_no_fit():
    check_is_fitted(PictureKeys())
