"""Tables of requests one after another, from models with a known residual share of each request."""

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

# samples of a request, and of test
PAIRS = 3
REQUESTS = 3
EACH = 60
TEST = 400
# the share of a request that remains, by (requests done, request): the first comes back
REMAINING = {(1, 1): 0.0, (2, 1): 0.6, (2, 2): 0.0, (3, 1): 0.6, (3, 2): 0.0, (3, 3): 0.3}
POOL = 2 * REQUESTS * EACH


def models(oracle: bool = False) -> list[tuple[dict[str, np.ndarray], list[dict[str, float]]]]:
    """Margins: difficulty of a sample, noise of a training, 3 for samples that are trained on and not forgotten."""
    generator = np.random.default_rng(0)
    difficulty = 2 * generator.normal(size=POOL + TEST)
    moments = [1, 3] if oracle else [0, 1, 2, 3]
    models = []
    for _ in range(PAIRS):
        mixed = generator.permutation(POOL).reshape(2, REQUESTS, EACH)
        for half in mixed:
            request = np.zeros(POOL + TEST, dtype=np.int64)
            for number, ids in enumerate(half, 1):
                request[ids] = number
            noise = generator.normal(size=POOL + TEST)
            logits = []
            numbers = []
            for done in moments:
                gains = [0.0]
                for number in range(1, REQUESTS + 1):
                    gains.append(REMAINING.get((done, number), 1.0))
                margin = difficulty + noise + 3 * np.array(gains)[request]
                logits.append(np.stack([margin, np.zeros_like(margin)], axis=1))
                accuracies = {"RA": 90.0 - done, "TA": 80.0 - done}
                numbers.append({"done": done, "seconds": 2.0 * done**2} | accuracies)
            arrays = {
                "labels": np.zeros(POOL + TEST, dtype=np.int64),
                "request": request,
                "splits": np.array(["train"] * POOL + ["test"] * TEST),
                "logits": np.stack(logits),
                "done": np.array(moments),
            }
            models.append((arrays, numbers))
    return models


@pytest.fixture(scope="module")
def systems(tmp_path_factory: pytest.TempPathFactory) -> list[StreamedSystem]:
    folder = tmp_path_factory.mktemp("streams")
    systems: list[StreamedSystem] = []
    for name, oracle in (("munkey", False), ("retrain-m", True)):
        system = StreamedSystem(name=name, title=name.upper(), stored="rows", logits=[], records=[])
        for seed, (arrays, numbers) in enumerate(models(oracle)):
            file = folder / f"{name}{seed}.npz"
            record = folder / f"{name}{seed}.json"
            write_npz(file, arrays)
            write_json(record, {"moments": numbers})
            system["logits"].append(str(file))
            system["records"].append(str(record))
        systems.append(system)
    return systems


@pytest.fixture(scope="module")
def findings(systems: list[StreamedSystem]) -> StreamFindings:
    return compute_findings(systems)


def test_the_share_of_each_request_is_found_also_if_it_comes_back(findings: StreamFindings):
    shares = findings.shares.set_index(["done", "request"])
    assert set(findings.shares["name"]) == {"munkey"}  # an oracle was not trained on it
    for (done, request), remaining in REMAINING.items():
        line = shares.loc[(done, request)]
        assert line["share"] == pytest.approx(100 * remaining, abs=12)
        assert line["share_low"] < 100 * remaining < line["share_high"]
    for done, mean in ((1, 0), (2, 30), (3, 30)):
        assert shares.loc[(done, ALL_REQUESTS), "share"] == pytest.approx(mean, abs=12)
    assert (1, 2) not in shares.index


def test_tables_have_a_line_for_each_system_and_a_triangle_for_each_method(findings, systems):
    summary, triangle = make_stream_tables(findings, systems, "digits")
    for part in ("digits", "3 requests", "6 models", "3 pairs"):
        assert part in summary.title
    lines = summary.frame.set_index("Method")
    munkey = lines.loc["MUNKEY"]
    accuracies = munkey[["TA after 0", "TA after 2", "RA after 3"]].tolist()
    assert accuracies == ["80.00 ± 0.00", "78.00 ± 0.00", "87.00 ± 0.00"]
    assert munkey[["Request [s]", "In all [s]"]].tolist() == ["8", "28"]  # of 2, 8, and 18
    every, at_once, in_the_end = munkey[lines.columns[-4:-1]].str.split().str[0].astype(float)
    assert (every, at_once, in_the_end) == pytest.approx((30, 0, 60), abs=12)
    oracle = lines.loc["RETRAIN-M", ["TA after 0", "In all [s]", "residual share [%]"]]
    assert oracle.tolist() == ["–", "–", "–"]
    assert triangle.title == "MUNKEY: residual share of each request [%]"
    assert triangle.frame["after 1"].tolist()[1] == ""


def test_the_figure_has_a_line_for_each_method_and_marks_for_oracles(findings: StreamFindings):
    accuracy, seconds, shares = streams_plot(findings.curves, findings.shares).axes
    assert [line.get_linestyle() for line in accuracy.lines] == ["-", "None"]
    assert [text.get_text() for text in accuracy.texts] == [findings.shares["title"].iloc[0]]
    assert len(seconds.lines) == 1
    assert seconds.lines[0].get_ydata().tolist() == [2, 10, 28]
    assert len(shares.lines) == 3  # with those of 0 and 100
