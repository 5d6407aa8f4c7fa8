"""Pictures in a pipeline: their keys are those of the project, and a picture is forgotten by its number."""

import warnings

import numpy as np
import pytest
from PIL import Image
from sklearn.base import clone
from sklearn.model_selection import GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.validation import check_is_fitted

from munkey import ForgettingLDA, MunkeyClassifier, PictureKeys, readable_pictures
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
    settings = EncoderSettings(
        encoder="efficientnet-lite0", revision=None, image_size=SIDE, batch_size=64
    )
    encode = find(settings.encoder).build(settings, "cpu")
    keys = clone(PictureKeys(image_size=SIDE)).fit_transform(images)
    np.testing.assert_allclose(
        keys, extract(encode, images, 64, "cpu", lambda starts: starts), atol=1e-3
    )
    of_files = PictureKeys(image_size=SIDE).transform(files)
    assert of_files.shape == (6, keys.shape[1])
    assert (
        PictureKeys(image_size=SIDE).transform(np.array([str(file) for file in files])).tobytes()
        == of_files.tobytes()
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


def bad_among(files, folder):
    """The pictures with two that cannot be read among them: their places are 2 and 5."""
    (folder / "zero.png").write_bytes(b"")
    (folder / "cut.png").write_bytes(files[0].read_bytes()[:100])
    return [*files[:2], folder / "zero.png", *files[2:4], folder / "cut.png", *files[4:]]


def test_all_that_cannot_be_read_is_named_at_once_or_skipped_with_a_warning(files, tmp_path):
    given = bad_among(files, tmp_path)
    with pytest.raises(PictureError, match=r"(?s)2 pictures cannot be used:.*zero\.png.*cut\.png"):
        PictureKeys(image_size=SIDE).transform(given)
    with pytest.warns(
        UserWarning, match=r"(?s)skipped 2 pictures: .*zero\.png.*cut\.png"
    ) as warned:
        keys = PictureKeys(image_size=SIDE, on_bad="skip").transform(given)
    assert warned[0].filename == __file__
    readable = np.isfinite(keys).all(axis=1)
    assert readable.tolist() == [True, True, False, True, True, False, True, True]
    assert keys[readable].tobytes() == PictureKeys(image_size=SIDE).transform(files).tobytes()
    with pytest.raises(ValueError, match="on_bad must be one of raise, skip, not 'ignore'"):
        PictureKeys(image_size=SIDE, on_bad="ignore").transform(given)


def test_one_picture_in_two_classes_or_under_two_persons_is_warned_of_with_two_examples(files):
    given = [*files, *files[:3]]
    people = ["Anna", "Ben", "Cleo", "Dora", "Emil", "Fay", "Ben", "Ben", None]
    model = make_pipeline(PictureKeys(image_size=SIDE), ForgettingLDA())
    with pytest.warns(UserWarning, match="as exact copies") as warned:
        model.fit(given, ["cat"] * 6 + ["dog"] * 3, forgettinglda__units=people)
    said = [str(one.message) for one in warned]
    assert said[0].startswith(
        "3 samples are in two or more classes, as exact copies: id 0 (cat) and id 6 (dog); id 1"
    )
    assert said[1].startswith(
        "1 sample is in two or more units, as exact copies: id 0 (Anna) and id 6 (Ben)."
    )


def test_gray_of_twelve_bits_is_warned_of_and_scaled_by_the_setting(tmp_path):
    values = np.random.default_rng(0).integers(0, 4096, (SIDE, SIDE))
    for name, scaled in (("twelve", values), ("eight", np.rint(values * (255 / 4095)))):
        Image.fromarray(scaled.astype(np.uint16 if name == "twelve" else np.uint8)).save(
            tmp_path / f"{name}.png"
        )
    with pytest.warns(UserWarning, match="set white to 4095"):
        PictureKeys(image_size=SIDE).transform([tmp_path / "twelve.png"])
    scaled = PictureKeys(image_size=SIDE, white=4095).transform([tmp_path / "twelve.png"])
    assert (
        scaled.tobytes()
        == PictureKeys(image_size=SIDE).transform([tmp_path / "eight.png"]).tobytes()
    )


def test_a_bright_picture_does_not_silence_the_warning_for_the_dim_ones(tmp_path):
    values = np.random.default_rng(0).integers(0, 4096, (SIDE, SIDE))
    bright = values * 16
    bright[0, 0] = 65_535
    for name, gray in (("twelve", values), ("sixteen", bright)):
        Image.fromarray(gray.astype(np.uint16)).save(tmp_path / f"{name}.png")
    files = [tmp_path / "twelve.png", tmp_path / "sixteen.png"]
    advice = r"in 1 picture, .*set white to \[4095, 65535\], for the 1 brighter one too"
    with pytest.warns(UserWarning, match=advice):
        PictureKeys(image_size=SIDE).transform(files)
    mixed = PictureKeys(image_size=SIDE, white=[4095, 65_535]).transform(files)
    for key, file, white in zip(mixed, files, (4095, 65_535), strict=True):
        alone = PictureKeys(image_size=SIDE, white=white).transform([file])
        assert np.array_equal(key, alone[0])


def test_progress_is_shown_while_pictures_are_read_and_keys_are_made(files, capsys):
    PictureKeys(image_size=SIDE, batch_size=64).transform(files * 20)
    assert "pictures 120/120" in (out := capsys.readouterr().out) and "keys 2/2" in out
    PictureKeys(image_size=SIDE).transform(files)
    assert capsys.readouterr().out == ""


def test_progress_can_be_silenced(files, capsys, monkeypatch):
    labels = ["cat", "dog"] * 60
    model = MunkeyClassifier(family="ncm", encoder="pixels", device="cpu")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of copies
        model.fit(files * 20, labels)
        assert "pictures 120/120" in capsys.readouterr().out
        model.set_params(verbose=False).fit(files * 20, labels)
        assert capsys.readouterr().out == ""
        monkeypatch.setenv("MUNKEY_PROGRESS", "0")
        model.set_params(verbose=True).fit(files * 20, labels)
    readable_pictures(files)
    assert capsys.readouterr().out == ""


def test_copies_are_named_by_their_files(files):
    with pytest.warns(UserWarning, match="as exact copies") as warned:
        MunkeyClassifier(family="ncm", encoder="pixels", device="cpu").fit(
            [*files, files[0]], ["cat"] * len(files) + ["dog"]
        )
    assert f"{files[0]} (cat) and {files[0]} (dog)" in str(warned[0].message)


def test_pixels_have_a_small_side_unless_one_is_chosen(files):
    assert PictureKeys(encoder="pixels").transform(files).shape[1] == 3 * 16**2
    assert PictureKeys(encoder="pixels", image_size=8).transform(files).shape[1] == 3 * 8**2
    both = PictureKeys(encoder="efficientnet-lite0+pixels").transform(files)
    assert both.shape[1] == 1280 + 3 * 16**2
    model = MunkeyClassifier(family="ncm", encoder="pixels", device="cpu")
    model.fit(files, ["cat", "dog"] * (len(files) // 2))
    assert model._handle.model.key_width == 3 * 16**2
    assert MunkeyClassifier.load(model.directory_).key_size == "auto"


def test_it_needs_no_fit():
    check_is_fitted(PictureKeys())


def test_readable_pictures_leaves_out_what_is_no_picture_and_what_cannot_be_read(tmp_path):
    good = [tmp_path / "pets" / "cat" / f"{number}.png" for number in range(2)]
    for file in good:
        picture(file)
    for name in ("cat/scan.pdf", "Thumbs.db", "dog/@eaDir/1.png", "cat/._0.png"):
        file = tmp_path / "pets" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"nothing")
    empty = tmp_path / "pets" / "cat" / "empty.jpg"
    empty.touch()
    with pytest.warns(UserWarning, match="left out") as warned:
        pictures = readable_pictures(tmp_path / "pets")
    assert pictures == sorted(good)
    notes, bad = (str(one.message) for one in warned)
    assert "skipped 3 files next to the pictures" in notes
    assert "left out 1 picture that cannot be read" in bad
    assert str(empty) in bad
    assert readable_pictures([str(good[1]), good[0]]) == sorted(good)
    with pytest.warns(
        UserWarning, match=r"skipped 1 file next to the pictures: 1 \._ \(metadata of"
    ):
        assert readable_pictures([*good, good[0].with_name("._0.png")]) == sorted(good)
    for number in range(45):
        (tmp_path / "bad").mkdir(exist_ok=True)
        (tmp_path / "bad" / f"{number}.png").touch()
    with pytest.warns(UserWarning, match=r"(?s)left out 45 pictures .*\.\.\. and 40 more"):
        assert readable_pictures(tmp_path / "bad") == []
    with pytest.raises(NotADirectoryError, match="there is no such folder"):
        readable_pictures(tmp_path / "pest")


def test_cross_validation_of_readable_pictures_meets_no_bad_one(tmp_path):
    for number in range(8):
        picture(tmp_path / "pets" / ("cat", "dog")[number % 2] / f"{number}.png", seed=number)
    (tmp_path / "pets" / "cat" / "9.png").write_bytes(b"nothing")
    with pytest.warns(UserWarning, match="cannot be read"):
        files = readable_pictures(tmp_path / "pets")
    labels = [file.parent.name for file in files]
    model = MunkeyClassifier(family="lda", key_size=SIDE, device="cpu", verbose=False)
    groups = [number // 2 for number in range(8)]
    scores = cross_val_score(model, files, labels, groups=groups, cv=GroupKFold(2))
    assert np.isfinite(scores).all()
