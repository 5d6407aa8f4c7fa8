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
from tests.explore.conftest import MARKUP, random_contents


def test_markup_in_names_ends_no_script_and_starts_no_element() -> None:
    contents = random_contents(12, 3)
    text = encode_contents(contents)
    assert not set("<>&\u2028\u2029") & set(text)
    assert json.loads(text)["classes"][2] == MARKUP
    assert MARKUP not in render_page(contents)


def test_arrays_are_restored_bit_by_bit() -> None:
    values = np.array([0.1, -1, 3e38], dtype=np.float32)
    stored = encode_json(values)
    assert stored["type"] == "float32"
    decoded = np.frombuffer(base64.b64decode(stored["base64"]), dtype="<f4")
    assert np.array_equal(decoded, values)
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


def test_few_samples_are_all_shown_and_a_choice_is_repeatable() -> None:
    forgotten = {"0/rate0.3": np.arange(300)}
    near = {"full": near_on_a_ring([0, 5])}
    assert np.array_equal(choose_page_ids(EVERY, {}, {}, 1000), EVERY)
    page_ids = choose_page_ids(EVERY, forgotten, near, 100)
    assert len(page_ids) == 100
    assert np.array_equal(page_ids, choose_page_ids(EVERY, forgotten, near, 100))


def test_a_page_has_all_neighbors_of_forgotten_samples_if_there_is_room() -> None:
    forgotten = {"0/rate0.1": np.arange(0, 100, 10), "1/rate0.1": np.arange(500, 520)}
    near = {"full": near_on_a_ring([0, 3, 7, 11])}
    for request, ids in forgotten.items():
        near[request] = near_on_a_ring([1, 4, 8, 12], without=ids)
    page_ids = choose_page_ids(EVERY, forgotten, near, 400)
    for request, ids in forgotten.items():
        assert np.isin(ids, page_ids).all()
        assert np.isin(near["full"].ids[ids], page_ids).all()
        assert np.isin(near[request].ids[ids], page_ids).all()
    assert "all 30 that a request forgets" in describe_scope(page_ids, EVERY, forgotten, near)
    assert "neighbors of those" in describe_scope(page_ids, EVERY, forgotten, near)


def test_places_go_to_forgotten_samples_their_neighbors_further_neighbors_and_the_rest() -> None:
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
        page_ids = choose_page_ids(EVERY, forgotten, near, most)
        for group in order[:count]:
            assert np.isin(group, page_ids).all(), (count, group)
        assert len(page_ids) == most
    # with a place less, the last neighbor after forgetting is missing; the rest has its tenth
    page_ids = choose_page_ids(EVERY, forgotten, near, 54)
    assert np.isin(range(250, 260), page_ids).sum() == 9
    assert (~np.isin(page_ids, np.concatenate(order))).sum() >= 4
    scope = describe_scope(page_ids, EVERY, forgotten, near)
    assert "39 of the 40 that are neighbors" in scope
    assert "nearest first" in scope


def test_neighbors_keep_half_of_the_places_free_of_forgotten_samples() -> None:
    forgotten = {"0/rate0.9": np.arange(900)}
    near = {"full": near_on_a_ring([0]), "0/rate0.9": near_on_a_ring([0], forgotten["0/rate0.9"])}
    page_ids = choose_page_ids(EVERY, forgotten, near, 100)
    assert 50 <= (page_ids < 900).sum() < 100
    assert 900 in page_ids  # the nearest that remains, to all forgotten ones


def test_thumbnails_are_small_and_in_order() -> None:
    images = np.stack([np.full((8, 8, 3), shade, dtype=np.uint8) for shade in range(70)])
    sheet = make_thumbnails(images)
    assert (sheet.side, sheet.columns) == (8, 64)
    content = base64.b64decode(sheet.uri.partition(",")[2])
    pixels = np.asarray(Image.open(io.BytesIO(content)).convert("RGB"))
    assert pixels.shape == (16, 512, 3)
    assert pixels[12, 5 * 8 + 4, 0] == 69  # the second row has the 65th to the 70th
    assert make_thumbnails(np.zeros((3, 100, 80, 3), dtype=np.uint8)).side == 32


def test_probabilities_of_the_true_class_are_16_bit_numbers() -> None:
    logits = np.log(np.array([[0.25, 0.75], [0.5, 0.5]]))
    assert compute_true_class_probability(logits, np.array([1, 0])).tolist() == [49151, 32768]
    assert compute_true_class_probability(np.full((1, 2), np.nan), np.array([0])).tolist() == [0]


@pytest.fixture
def _no_umap(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where it is not installed. It compiles for ten seconds in each process that uses it."""
    monkeypatch.setitem(sys.modules, "umap", None)


@pytest.mark.usefixtures("_no_umap")
def test_without_umap_keys_are_projected_to_their_principal_components() -> None:
    keys = np.outer(np.arange(6.0), [3.0, 4.0, 0.0])
    points = project_keys(keys)
    assert "principal" in points.description
    assert np.allclose(np.abs(np.diff(points.x)), 5)
    assert np.allclose(points.y, 0, atol=1e-6)


def test_a_far_cluster_leaves_room_for_the_others() -> None:
    values = np.array([1000.0, 1.0, 3.0, 0.0, 2.0])
    narrowed = narrow_gaps(values)
    assert np.array_equal(np.argsort(narrowed), np.argsort(values))
    assert np.allclose(narrowed, [63, 1, 3, 0, 2])  # the gap of 997 is 6% of the range now
    assert np.array_equal(narrow_gaps(np.full(3, 7.0)), np.zeros(3))


def model_contents(max_count: int = 100, **options: object) -> Contents:
    """The page of a model with five samples."""
    generator = np.random.default_rng(0)
    ids = np.array([3, 5, 8, 9, 12])
    names = [f"#{number}" for number in range(5)]
    rows = MemoryRows(ids, generator.normal(size=(5, 4)), ["b", "a", "b", "a", MARKUP], names)
    return gather_contents("model", rows, max_count, 3, **options)


@pytest.mark.usefixtures("_no_umap")
def test_a_page_of_a_model_says_how_many_samples_it_shows() -> None:
    assert model_contents().scope.startswith("All 5 samples")
    assert model_contents(max_count=3).scope.startswith("3 of the memory's 5 samples")


@pytest.mark.usefixtures("_no_umap")
def test_a_saved_model_is_its_own_nearest_neighbor_and_has_no_oracle() -> None:
    contents = model_contents()
    near = contents.near["full"]
    assert near.ids.reshape(5, near.depth)[:, 0].tolist() == [3, 5, 8, 9, 12]
    assert [view.name for view in contents.views] == ["map", "neighbors"]
    assert contents.pictures is None
    text = render_page(contents)
    assert "no pictures" in text
    assert 'id="samples"' not in text


@pytest.mark.usefixtures("_no_umap")
def test_a_page_mentions_forgotten_pictures_only_if_it_shows_them() -> None:
    pictures = {3: np.zeros((8, 8, 3), dtype=np.uint8)}
    of_model = render_page(model_contents(pictures=pictures))
    assert "pictures of the samples" in of_model
    assert "had to be forgotten" not in of_model.partition("<script")[0]
    of_run = render_page(random_contents(12, 3))
    assert "pictures that had to be forgotten" in of_run


def test_every_view_has_its_function() -> None:
    script = (ASSETS / "page.js").read_text()
    for view in VIEWS:
        assert f"VIEWS.{view.name} = " in script


def test_the_libraries_name_their_version_and_have_their_license() -> None:
    vendor = Path(ASSETS) / "vendor"
    for script in vendor.glob("*.js"):
        assert "Copyright" in script.read_text()[:200]
        assert (vendor / f"{script.name.partition('.')[0]}.LICENSE").is_file()


def test_the_label_of_a_request_describes_its_samples() -> None:
    runs = []
    for case, rate in (("", "0.1"), ("scenario/hard", "0.1"), ("scenario/seven", "0.2")):
        runs.append(SimpleNamespace(case=case, rate=rate, seed=0, sampling="stratified"))
    descriptions = {"scenario/hard": "hard", "scenario/seven": "class 7"}
    requests = list_requests(SimpleNamespace(runs=runs, requests=descriptions))
    assert [request["label"] for request in requests] == [
        "10% of the training set, at random",
        "the hardest pictures (10%)",
        "whole classes (7)",
    ]


def test_the_glossary_names_the_families_of_the_letters_on_the_page() -> None:
    words = write_glossary(["Original (T)", "Original (K)", "Retrain (M)", "KNN"])
    assert words["Original (T)"].startswith("ViT trained on everything")
    assert words["Original (K)"].startswith("KNN trained on everything")
    assert words["Retrain (M)"].startswith("the oracle of MUNKEY, trained")
    systems = [name for name in words if "(" in name]
    assert systems == ["Original (K)", "Retrain (M)", "Original (T)"]


def test_markup_in_the_name_of_a_run_is_escaped() -> None:
    contents = replace(random_contents(12, 3), subtitle=SUBTITLE.format(run="<b>mine</b>"))
    assert "<code>&lt;b&gt;mine&lt;/b&gt;</code>." in render_page(contents)
