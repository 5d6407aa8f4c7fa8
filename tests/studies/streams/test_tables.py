"""Tables of requests one after another, from models of which it is known what is left of each request."""

import numpy as np
import pytest

from munkey.core.files import write_json, write_npz
from munkey.studies.streams.figure import streams_plot
from munkey.studies.streams.tables import (
    ALL_REQUESTS,
    StreamedSystem,
    StreamFindings,
    compute_findings,
    make_stream_tables,
)

PAIRS, REQUESTS, EACH, TEST = 3, 2, 60, 400  # samples of a request, and of test
LEFT = {(1, 1): 0.0, (2, 1): 0.6, (2, 2): 0.0}  # after, of request: the first comes back
POOL = 2 * REQUESTS * EACH


def models(oracle: bool = False) -> list[tuple[dict[str, np.ndarray], list[dict[str, float]]]]:
    """Margins: difficulty of a sample, noise of a training, 3 for what was trained on and is not forgotten."""
    generator = np.random.default_rng(0)
    difficulty, made = 2 * generator.normal(size=POOL + TEST), []
    for _ in range(PAIRS):
        mixed = generator.permutation(POOL).reshape(2, REQUESTS, EACH)
        for own in mixed:
            request = np.zeros(POOL + TEST, dtype=np.int64)
            for number, ids in enumerate(own, 1):
                request[ids] = number
            noise, logits = generator.normal(size=POOL + TEST), []
            for done in (1, 2) if oracle else (0, 1, 2):
                left = [LEFT.get((done, number), 1.0) for number in (1, 2)]
                margin = difficulty + noise + 3 * np.array([0.0, *left])[request]
                logits.append(np.stack([margin, np.zeros_like(margin)], axis=1))
            arrays = {"labels": np.zeros(POOL + TEST, dtype=np.int64), "request": request}
            splits = np.array(["train"] * POOL + ["test"] * TEST)
            numbers = [
                {"done": done, "seconds": 2.0 * done, "RA": 90.0 - done, "TA": 80.0 - done}
                for done in (0, 1, 2)
            ]
            done = np.arange(int(oracle), 3)
            made.append(
                (
                    arrays | {"splits": splits, "logits": np.stack(logits), "done": done},
                    numbers[int(oracle) :],
                )
            )
    return made


@pytest.fixture(scope="module")
def systems(tmp_path_factory: pytest.TempPathFactory) -> list[StreamedSystem]:
    folder = tmp_path_factory.mktemp("streams")
    found: list[StreamedSystem] = []
    for name, oracle in (("munkey", False), ("retrain-m", True)):
        logits, records = list[str](), list[str]()
        for seed, (arrays, numbers) in enumerate(models(oracle)):
            file = folder / f"{name}{seed}.npz"
            write_npz(file, arrays)
            write_json(folder / f"{name}{seed}.json", {"moments": numbers})
            logits.append(str(file))
            records.append(str(folder / f"{name}{seed}.json"))
        found.append(
            {
                "name": name,
                "title": name.upper(),
                "stored": "rows",
                "logits": logits,
                "records": records,
            }
        )
    return found


@pytest.fixture(scope="module")
def found(systems: list[StreamedSystem]) -> StreamFindings:
    return compute_findings(systems)


def test_what_is_left_of_each_request_is_found_also_where_it_comes_back(found: StreamFindings):
    shares = found.shares.set_index(["done", "request"])
    assert set(found.shares["name"]) == {"munkey"}  # an oracle never saw it
    for (done, request), left in LEFT.items():
        line = shares.loc[(done, request)]
        assert (
            line["share"] == pytest.approx(100 * left, abs=12)
            and line["share_low"] < 100 * left < line["share_high"]
        )
    assert (
        shares.loc[(2, ALL_REQUESTS), "share"] == pytest.approx(30, abs=10)
        and (1, 2) not in shares.index
    )


def test_tables_have_a_line_for_each_system_and_a_triangle_for_each_method(found, systems):
    summary, triangle = make_stream_tables(found, systems, "digits")
    assert summary.title == "digits: a stream of 2 requests; mean over 6 models, [95% over 3 pairs]"
    lines = summary.frame.set_index("Method")
    assert lines.loc["MUNKEY", ["TA after 0", "TA after 2", "RA after 2"]].tolist() == [
        "80.00 ± 0.00",
        "78.00 ± 0.00",
        "88.00 ± 0.00",
    ]
    assert lines.loc["MUNKEY", ["Request [s]", "In all [s]"]].tolist() == ["3", "6"]
    every, at_once, in_the_end = (
        lines.loc["MUNKEY", lines.columns[-4:-1]].str.split().str[0].astype(float)
    )
    assert (every, at_once, in_the_end) == pytest.approx((30, 0, 60), abs=12)
    assert lines.loc["RETRAIN-M", ["TA after 0", "In all [s]", "residual share [%]"]].tolist() == [
        "–",
        "–",
        "–",
    ]
    assert (
        triangle.title == "MUNKEY: residual share of each request [%]"
        and triangle.frame["after 1"].tolist()[1] == ""
    )


def test_the_figure_has_a_line_for_each_method_and_marks_for_oracles(found: StreamFindings):
    accuracy, seconds, left = streams_plot(found.curves, found.shares).axes
    assert [line.get_linestyle() for line in accuracy.lines] == ["-", "None"]
    assert [text.get_text() for text in accuracy.texts] == [found.shares["title"].iloc[0]]
    assert len(seconds.lines) == 1 and seconds.lines[0].get_ydata().tolist() == [2, 6]
    assert len(left.lines) == 3  # with those of 0 and 100
