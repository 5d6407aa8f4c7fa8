"""What a page holds, without a browser."""

import base64
import io
import json
import math
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from munkey.explore.contents import VIEWS, Contents, encode_json
from munkey.explore.page import ASSETS, encode_contents, render_page
from munkey.explore.pictures import choose_page_ids, make_thumbnails
from munkey.explore.projection import narrow_gaps, project_keys
from munkey.explore.saved_model import MemoryRows, gather_contents
from munkey.memory.neighbors import Neighbors
from munkey.studies.explore.results import (
    SUBTITLE,
    compute_true_class_probability,
    describe_scope,
    list_requests,
    write_glossary,
)
from tests.explore.conftest import MARKUP, made_contents


def test_no_name_ends_the_script_or_starts_an_element() -> None:
    made = made_contents(12, 3)
    text = encode_contents(made)
    assert not set("<>&\u2028\u2029") & set(text)
    assert json.loads(text)["classes"][2] == MARKUP
    assert MARKUP not in render_page(made)


def test_arrays_come_back_bit_by_bit() -> None:
    values = np.array([0.1, -1, 3e38], dtype=np.float32)
    stored = encode_json(values)
    assert stored["type"] == "float32"
    again = np.frombuffer(base64.b64decode(stored["base64"]), dtype="<f4")
    assert np.array_equal(again, values)
    assert encode_json(np.array(["a"])) == ["a"]
    with pytest.raises(TypeError, match="a page cannot contain a set"):
        encode_json({1})


EVERY = np.arange(1000)


def near_on_a_ring(steps: list[int], without: np.ndarray | None = None) -> Neighbors:
    """Neighbors on a ring of 1,000 samples: the next live ones at these steps, nearest first."""
    live = EVERY if without is None else np.setdiff1d(EVERY, without)
    places = np.searchsorted(live, EVERY)
    ids = np.stack([live[(places + step) % len(live)] for step in steps], axis=1)
    return Neighbors(ids, np.ones(ids.shape, dtype=np.float32))


def test_few_samples_are_all_shown_and_each_choice_is_the_same_again() -> None:
    forgotten = {"0/rate0.3": np.arange(300)}
    near = {"full": near_on_a_ring([0, 5])}
    assert np.array_equal(choose_page_ids(EVERY, {}, {}, 1000), EVERY)
    shown = choose_page_ids(EVERY, forgotten, near, 100)
    assert len(shown) == 100
    assert np.array_equal(shown, choose_page_ids(EVERY, forgotten, near, 100))


def test_a_page_has_all_neighbors_of_forgotten_samples_where_it_has_room() -> None:
    forgotten = {"0/rate0.1": np.arange(0, 100, 10), "1/rate0.1": np.arange(500, 520)}
    near = {"full": near_on_a_ring([0, 3, 7, 11])}
    for request, ids in forgotten.items():
        near[request] = near_on_a_ring([1, 4, 8, 12], without=ids)
    shown = choose_page_ids(EVERY, forgotten, near, 400)
    for request, ids in forgotten.items():
        assert np.isin(ids, shown).all()
        assert np.isin(near["full"].ids[ids], shown).all()
        assert np.isin(near[request].ids[ids], shown).all()
    assert "all 30 that a request forgets" in describe_scope(shown, EVERY, forgotten, near)
    assert "neighbors of those" in describe_scope(shown, EVERY, forgotten, near)


def test_places_go_to_forgotten_ones_their_neighbors_neighbors_of_those_and_the_rest() -> None:
    request = "0/rate0.01"
    forgotten = {request: np.arange(10)}
    # Each memory and rank has a range of its own, and so have the neighbors of neighbors.
    groups = {"full": [100, 200], request: [150, 250]}
    near = {}
    for memory, starts in groups.items():
        ids = np.stack([EVERY % 10 + start for start in starts], axis=1)
        ids[100:] = (EVERY[100:] % 10 + 700)[:, None]
        near[memory] = Neighbors(ids, np.ones(ids.shape, dtype=np.float32))
    order = [range(10), range(100, 110), range(150, 160), range(200, 210), range(250, 260)]
    order.append(range(700, 710))
    for count in range(1, len(order)):
        most = math.ceil(10 * count / 0.9) if count > 1 else 20
        shown = choose_page_ids(EVERY, forgotten, near, most)
        for group in order[:count]:
            assert np.isin(group, shown).all(), (count, group)
        assert len(shown) == most
    # A place less, and the last neighbor after forgetting is missing; the rest has its tenth.
    shown = choose_page_ids(EVERY, forgotten, near, 54)
    assert np.isin(range(250, 260), shown).sum() == 9
    assert (~np.isin(shown, np.concatenate(order))).sum() >= 4
    scope = describe_scope(shown, EVERY, forgotten, near)
    assert "39 of the 40 that are neighbors of these" in scope
    assert "nearest first" in scope


def test_neighbors_keep_half_of_the_places_free_of_forgotten_samples() -> None:
    forgotten = {"0/rate0.9": np.arange(900)}
    near = {"full": near_on_a_ring([0]), "0/rate0.9": near_on_a_ring([0], forgotten["0/rate0.9"])}
    shown = choose_page_ids(EVERY, forgotten, near, 100)
    assert 50 <= (shown < 900).sum() < 100
    assert 900 in shown  # the nearest that remains, to all forgotten ones


def test_thumbnails_are_small_and_in_order() -> None:
    images = np.stack([np.full((8, 8, 3), shade, dtype=np.uint8) for shade in range(70)])
    sheet = make_thumbnails(images)
    assert (sheet.side, sheet.columns) == (8, 64)
    pixels = np.asarray(
        Image.open(io.BytesIO(base64.b64decode(sheet.uri.partition(",")[2]))).convert("RGB")
    )
    assert pixels.shape == (16, 512, 3)
    assert pixels[12, 5 * 8 + 4, 0] == 69  # the second row has the 65th to the 70th
    assert make_thumbnails(np.zeros((3, 100, 80, 3), dtype=np.uint8)).side == 32


def test_probabilities_of_the_true_class() -> None:
    logits = np.log(np.array([[0.25, 0.75], [0.5, 0.5]]))
    assert compute_true_class_probability(logits, np.array([1, 0])).tolist() == [49151, 32768]
    assert compute_true_class_probability(np.full((1, 2), np.nan), np.array([0])).tolist() == [0]


@pytest.fixture
def _no_umap(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where it is not installed. It compiles for ten seconds in each process that uses it."""
    monkeypatch.setitem(sys.modules, "umap", None)


@pytest.mark.usefixtures("_no_umap")
def test_without_umap_keys_lie_along_their_principal_components() -> None:
    keys = np.outer(np.arange(6.0), [3.0, 4.0, 0.0])
    points = project_keys(keys)
    assert "principal" in points.description
    assert np.allclose(np.abs(np.diff(points.x)), 5)
    assert np.allclose(points.y, 0, atol=1e-6)


def test_a_far_cluster_leaves_room_for_the_others() -> None:
    far = np.array([1000.0, 1.0, 3.0, 0.0, 2.0])
    moved = narrow_gaps(far)
    assert np.array_equal(np.argsort(moved), np.argsort(far))
    assert np.allclose(moved, [63, 1, 3, 0, 2])  # the gap of 997 is 6% of the range now
    assert np.array_equal(narrow_gaps(np.full(3, 7.0)), np.zeros(3))


def model_contents(**options: object) -> Contents:
    generator = np.random.default_rng(0)
    rows = MemoryRows(
        np.array([3, 5, 8, 9, 12]), generator.normal(size=(5, 4)), ["b", "a", "b", "a", MARKUP],
        [f"#{number}" for number in range(5)],
    )  # fmt: skip
    return gather_contents("model", rows, 100, 3, **options)


@pytest.mark.usefixtures("_no_umap")
def test_a_saved_model_is_its_own_nearest_neighbor_and_has_no_oracle() -> None:
    made = model_contents()
    near = made.near["full"]
    assert near.ids.reshape(5, near.depth)[:, 0].tolist() == [3, 5, 8, 9, 12]
    assert [view.name for view in made.views] == ["map", "neighbors"]
    assert made.pictures is None
    text = render_page(made)
    assert "no pictures" in text
    assert 'id="samples"' not in text


@pytest.mark.usefixtures("_no_umap")
def test_a_page_of_pictures_says_of_forgotten_ones_only_where_it_shows_them() -> None:
    pictures = {3: np.zeros((8, 8, 3), dtype=np.uint8)}
    of_model = render_page(model_contents(pictures=pictures))
    assert "This page contains pictures of the samples in the memory." in of_model
    assert "had to be forgotten" not in of_model.partition("<script")[0]
    of_run = render_page(made_contents(12, 3))
    assert "This page contains pictures that had to be forgotten." in of_run


def test_every_view_has_its_function() -> None:
    script = (ASSETS / "page.js").read_text()
    for view in VIEWS:
        assert f"VIEWS.{view.name} = " in script


def test_the_libraries_name_their_version_and_have_their_license() -> None:
    vendor = Path(ASSETS) / "vendor"
    for script in vendor.glob("*.js"):
        assert "Copyright" in script.read_text()[:200]
        assert (vendor / f"{script.name.partition('.')[0]}.LICENSE").is_file()


def test_a_request_reads_as_a_person_would_say_it() -> None:
    runs = []
    for case, rate in (("", "0.1"), ("scenario/hard", "0.1"), ("scenario/seven", "0.2")):
        runs.append(SimpleNamespace(case=case, rate=rate, seed=0, sampling="stratified"))
    asked = {"scenario/hard": "hard", "scenario/seven": "class 7"}
    requests = list_requests(SimpleNamespace(runs=runs, requests=asked))
    assert [each["label"] for each in requests] == [
        "10% of the training set, at random",
        "the hardest pictures (10%)",
        "whole classes (7)",
    ]


def test_each_letter_on_the_page_has_the_name_of_its_family_and_no_other_has() -> None:
    words = write_glossary(["Original (T)", "Original (K)", "Retrain (M)", "KNN"])
    assert words["Original (T)"].startswith("ViT trained on everything")
    assert words["Original (K)"].startswith("KNN trained on everything")
    assert words["Retrain (M)"].startswith("the oracle of MUNKEY, trained")
    systems = [name for name in words if "(" in name]
    assert systems == ["Original (K)", "Retrain (M)", "Original (T)"]


def test_the_name_of_a_run_is_code_and_never_markup() -> None:
    made = replace(made_contents(12, 3), subtitle=SUBTITLE.format(run="<b>mine</b>"))
    assert "<code>&lt;b&gt;mine&lt;/b&gt;</code>." in render_page(made)
