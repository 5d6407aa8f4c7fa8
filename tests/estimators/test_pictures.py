"""Keys of pictures in a pipeline, and the pictures of a folder that can be read."""

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
from munkey.estimators import pictures
from munkey.settings import EncoderSettings
from tests.data.inputs import picture

SIDE = 32


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Six pictures."""
    folder = tmp_path_factory.mktemp("pictures")
    paths = [folder / f"{number}.png" for number in range(6)]
    for number, path in enumerate(paths):
        picture(path, size=(SIDE, SIDE), seed=number)
    return paths


@pytest.fixture
def files_with_bad_ones(files, tmp_path):
    """The six pictures and two files that cannot be read, at places 2 and 5."""
    empty = tmp_path / "empty.png"
    empty.touch()
    cut = tmp_path / "cut.png"
    cut.write_bytes(files[0].read_bytes()[:100])
    return [*files[:2], empty, *files[2:4], cut, *files[4:]]


def keys_of(pictures, **settings):
    """The keys that the encoder computes."""
    return PictureKeys(image_size=SIDE, **settings).transform(pictures)


def gray_file(path, values):
    """A gray picture of 16 bits per pixel."""
    Image.fromarray(values.astype(np.uint16)).save(path)
    return path


def test_keys_are_those_of_the_encoder_for_files_and_arrays(files):
    images = np.random.default_rng(0).integers(0, 256, (5, SIDE, SIDE, 3), dtype=np.uint8)
    settings = EncoderSettings(
        encoder="efficientnet-lite0", revision=None, image_size=SIDE, batch_size=64
    )
    encode = find(settings.encoder).build(settings, "cpu")
    keys = clone(PictureKeys(image_size=SIDE)).fit_transform(images)
    expected = extract(encode, images, 64, "cpu", lambda starts: starts)
    np.testing.assert_allclose(keys, expected, atol=1e-3)
    keys_of_paths = keys_of(files)
    assert keys_of_paths.shape == (6, keys.shape[1])
    assert keys_of(np.array(list(map(str, files)))).tobytes() == keys_of_paths.tobytes()


def test_a_pipeline_forgets_the_pictures_of_a_person(files):
    labels = ["cat", "dog"] * 3
    people = ["Anna", "Ben", "Ben", "Anna", None, None]
    model = make_pipeline(PictureKeys(image_size=SIDE), ForgettingLDA())
    model.fit(files, labels, forgettinglda__units=people)
    assert model[-1].forget(units=["Ben"]).tolist() == [1, 2]
    never = clone(model).fit([files[0], *files[3:]], [labels[0], *labels[3:]])
    assert model.predict_proba(files).tobytes() == never.predict_proba(files).tobytes()


def test_unreadable_pictures_are_named_together_or_skipped_with_a_warning(
    files, files_with_bad_ones
):
    with pytest.raises(PictureError, match=r"(?s)2 pictures.*empty\.png.*cut\.png"):
        keys_of(files_with_bad_ones)
    encoder = PictureKeys(image_size=SIDE, on_bad="skip")
    skipped = r"(?s)skipped 2 pictures: .*empty\.png.*cut\.png"
    with pytest.warns(UserWarning, match=skipped) as warned:
        keys = encoder.transform(files_with_bad_ones)  # where the warning points to
    assert warned[0].filename == __file__
    readable = np.isfinite(keys).all(axis=1)
    assert readable.tolist() == [True, True, False, True, True, False, True, True]
    assert keys[readable].tobytes() == keys_of(files).tobytes()
    with pytest.raises(ValueError, match=r"on_bad .*'ignore'"):
        keys_of(files_with_bad_ones, on_bad="ignore")


def test_one_picture_in_two_classes_or_units_is_warned_of_with_two_examples(files):
    people = ["Anna", "Ben", "Cleo", "Dora", "Emil", "Fay", "Ben", "Ben", None]
    model = make_pipeline(PictureKeys(image_size=SIDE), ForgettingLDA())
    with pytest.warns(UserWarning, match="as exact copies") as warned:
        model.fit([*files, *files[:3]], ["cat"] * 6 + ["dog"] * 3, forgettinglda__units=people)
    of_classes, of_units, *_ = (str(warning.message) for warning in warned)
    assert of_classes.startswith("3 samples")
    assert "id 0 (cat) and id 6 (dog); id 1" in of_classes
    assert of_units.startswith("1 sample")
    assert "id 0 (Anna) and id 6 (Ben)." in of_units


def test_a_bright_picture_does_not_silence_the_warning_for_the_dim_ones(tmp_path):
    values = np.random.default_rng(0).integers(0, 4096, (SIDE, SIDE))
    bright = values * 16
    bright[0, 0] = 65_535
    dim_file = gray_file(tmp_path / "twelve.png", values)
    bright_file = gray_file(tmp_path / "sixteen.png", bright)
    advice = r"1 picture, .*white to \[4095, 65535\], for the 1 brighter"
    with pytest.warns(UserWarning, match=advice):
        keys_of([dim_file, bright_file])
    dim_key, bright_key = keys_of([dim_file, bright_file], white=[4095, 65_535])
    assert np.array_equal(dim_key, keys_of([dim_file], white=4095)[0])
    assert np.array_equal(bright_key, keys_of([bright_file], white=65_535)[0])


@pytest.mark.parametrize(
    ("encoder", "side"), [("vit-b16", None), ("efficientnet-lite0", 96), ("vit-b16+pixels", 96)]
)
def test_an_encoder_with_a_size_of_its_own_gets_no_other(encoder, side):
    assert pictures.choose_sides(encoder)["image_size"] == side


@pytest.mark.parametrize("argument", ["image_size", "key_size"])
def test_a_side_for_an_encoder_with_a_size_of_its_own_is_refused(files, argument):
    if argument == "image_size":
        model = PictureKeys(encoder="vit-b16", image_size=64)
    else:
        model = MunkeyClassifier(encoder="vit-b16", key_size=64, device="cpu")
    with pytest.raises(ValueError, match=f"{argument} = 64: .*vit-b16"):
        model.fit(files, range(len(files))) if argument == "key_size" else model.transform(files)


def test_numbers_of_numpy_are_settings(files):
    sizes = {"image_size": np.int64(8), "batch_size": np.int32(2)}
    keys = PictureKeys(encoder="pixels", mirror=np.bool_(False), **sizes).transform(files)
    np.testing.assert_array_equal(
        keys, PictureKeys(encoder="pixels", image_size=8).transform(files)
    )


def test_progress_is_shown_while_pictures_are_read_and_keys_computed(files, capsys):
    keys_of(files * 20, batch_size=64)
    progress = capsys.readouterr().out
    assert "pictures 120/120" in progress
    assert "keys 2/2" in progress
    keys_of(files)
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
    model = MunkeyClassifier(family="ncm", encoder="pixels", device="cpu")
    with pytest.warns(UserWarning, match="as exact copies") as warned:
        model.fit([*files, files[0]], ["cat"] * 6 + ["dog"])
    assert f"{files[0]} (cat) and {files[0]} (dog)" in str(warned[0].message)


def test_pixels_have_a_small_side_by_default(files):
    assert PictureKeys(encoder="pixels").transform(files).shape[1] == 3 * 16**2
    assert PictureKeys(encoder="pixels", image_size=8).transform(files).shape[1] == 3 * 8**2
    keys_of_both = PictureKeys(encoder="efficientnet-lite0+pixels").transform(files)
    assert keys_of_both.shape[1] == 1280 + 3 * 16**2
    model = MunkeyClassifier(family="ncm", encoder="pixels", device="cpu")
    model.fit(files, ["cat", "dog"] * (len(files) // 2))
    assert model._handle.model.key_width == 3 * 16**2
    assert MunkeyClassifier.load(model.directory_).key_size == "auto"


def test_picture_keys_need_no_fit():
    check_is_fitted(PictureKeys())


def test_readable_pictures_leaves_out_other_files_and_unreadable_pictures(tmp_path):
    pets = tmp_path / "pets"
    files = [pets / "cat" / "0.png", pets / "cat" / "1.png"]
    for file in files:
        picture(file)
    for name in ("cat/scan.pdf", "Thumbs.db", "dog/@eaDir/1.png", "cat/._0.png"):
        file = pets / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"nothing")
    empty = pets / "cat" / "empty.jpg"
    empty.touch()
    with pytest.warns(UserWarning, match="left out") as warned:
        pictures = readable_pictures(pets)
    assert pictures == files
    of_other_files, of_bad_pictures = (str(warning.message) for warning in warned)
    assert "skipped 3 files" in of_other_files
    assert "left out 1 picture" in of_bad_pictures
    assert str(empty) in of_bad_pictures
    assert readable_pictures([str(files[1]), files[0]]) == files
    with pytest.warns(UserWarning, match=r"skipped 1 file .*: 1 \._ \(metadata of"):
        assert readable_pictures([*files, pets / "cat" / "._0.png"]) == files


def test_many_unreadable_pictures_are_counted_with_some_examples(tmp_path):
    for number in range(45):
        (tmp_path / f"{number}.png").touch()
    with pytest.warns(UserWarning, match=r"(?s)left out 45 pictures .*\.\.\. and 40 more"):
        assert readable_pictures(tmp_path) == []


def test_readable_pictures_of_a_missing_folder_are_refused(tmp_path):
    with pytest.raises(NotADirectoryError, match="there is no such folder"):
        readable_pictures(tmp_path / "pest")


def test_readable_pictures_can_be_cross_validated(tmp_path):
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
