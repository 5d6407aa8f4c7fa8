"""What the weights keep, setting by setting: shares from files of logits, and what stands beside them."""

import numpy as np
import pytest

from munkey.audits.grid import Setting, make_grid_rows
from munkey.core.files import write_npz

POOL = 24
TEST = 400
MODELS = 4
PATHS = ("deployed", "image")


def write(path, margins: np.ndarray, image_right: int) -> str:
    """Two classes, all samples of class 0: the first logit is the margin. The last 10 are validation samples."""
    logits = np.stack([margins, np.zeros_like(margins)], axis=1).astype(np.float32)
    count = len(margins)
    cut = np.full((10, 2), [1.0, 0.0], dtype=np.float32)
    image = cut.copy()
    image[image_right:] = [0.0, 1.0]
    arrays = {
        "ids": np.arange(count),
        "labels": np.zeros(count, dtype=int),
        "splits": np.array(["train"] * POOL + ["test"] * TEST + ["val"] * 10),
        "logits": logits,
        "path_image": logits / 2,
        "memory_ids": 1000 + np.arange(10),  # an audit asks about few of them
        "memory_labels": np.zeros(10, dtype=int),
        "image_logits": image,
        "token_logits": cut,
        "both_logits": cut,
    }
    write_npz(path, arrays)
    return str(path)


@pytest.fixture
def setting(tmp_path) -> tuple[Setting, list[np.ndarray]]:
    """Training adds 0.4 to the margin; a quarter of it is left after deletion, which turns the validation samples."""
    rng = np.random.default_rng(0)
    base = np.concatenate([rng.normal(size=POOL + TEST), [1.0] * 7 + [-1.0] * 3])
    cut = np.arange(POOL // 2)
    half = [2 * cut, 2 * cut + 1, cut, cut + POOL // 2]
    before = []
    after = []
    for number, ids in enumerate(half):
        margins = base + 0.01 * rng.normal(size=len(base)) * (np.arange(len(base)) < POOL + TEST)
        trained = np.isin(np.arange(len(base)), ids)
        before.append(
            write(tmp_path / f"before{number}.npz", margins + 0.4 * trained, image_right=8)
        )
        turned = np.where(np.arange(len(base)) < POOL + TEST, margins + 0.1 * trained, -margins)
        after.append(write(tmp_path / f"after{number}.npz", turned, image_right=5))
    return Setting(
        name="p_token-0.1", knobs={"munkey.p_token": 0.1}, before=before, after=after, alone=[]
    ), half


def test_a_row_has_the_share_that_is_left_and_the_effect_of_training(setting):
    point, forgotten = setting
    ((deployed, image),) = make_grid_rows([point], PATHS, forgotten, {})
    assert deployed["setting"] == "p_token-0.1"
    assert deployed["munkey.p_token"] == 0.1
    assert deployed["path"] == "deployed"
    assert deployed["pairs"] == 2
    assert deployed["share"] == pytest.approx(25, abs=4)
    assert image["path"] == "image"
    assert image["share"] == pytest.approx(25, abs=4)  # halved, and ranked among halves
    assert deployed["nothing"] == pytest.approx(0.4, abs=0.05)


def test_a_row_has_p_s_of_members_before_deletion_and_validation_accuracies(setting):
    point, forgotten = setting
    ((deployed, _),) = make_grid_rows([point], PATHS, forgotten, {})
    assert deployed["P_s"] == pytest.approx(0.2)  # |80% - 100%| of 100%
    assert (deployed["val_before"], deployed["val_after"]) == pytest.approx((70, 30))


def test_a_row_has_the_test_accuracy_of_the_head_alone(setting, tmp_path):
    point, forgotten = setting
    alone = []
    for part in (0.5, 0.75):
        is_right = np.arange(POOL + TEST + 10) < POOL + part * TEST
        alone.append(write(tmp_path / f"alone{part}.npz", np.where(is_right, 1.0, -1.0), 5))
    ((deployed, _),) = make_grid_rows([{**point, "alone": alone}], PATHS, forgotten, {})
    assert deployed["alone_after"] == pytest.approx(62.5)
