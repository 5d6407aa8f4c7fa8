"""Tables of the ablations: each case against the oracle of its own kind; cases and the paper's numbers beside ours."""

import pandas as pd
import pytest
import yaml

from munkey import ablations, paper
from munkey.params import ParamsError, load
from munkey.tables import render
from tests.conftest import ROOT

CASES = {
    "inference.fusion/ensemble": 2.0,
    "inference.fusion/rank": 4.0,
    "inference.k/8": 1.0,
    "munkey.architecture/direct-key": 8.0,
}


def tidy(dataset="digits"):
    """Two seeds; MUNKEY's four metrics lie `gap` above its own oracle's, and oracles differ between cases."""
    lines = []
    for number, (case, gap) in enumerate(CASES.items()):
        for method, shift in (("retrain-m", 0.0), ("munkey", gap), ("original-m", 9.0)):
            for seed in (0, 1):
                values = dict.fromkeys(("TA", "RA", "FA", "MIA"), 50.0 + 10 * number + shift + seed) | {
                    "P_s": 0.1 + seed / 10
                }
                lines += [
                    {
                        "dataset": dataset,
                        "case": case,
                        "rate": 0.1,
                        "seed": seed,
                        "method": method,
                        "metric": m,
                        "value": v,
                    }
                    for m, v in values.items()
                ]
    return pd.DataFrame(lines)


def test_each_case_is_compared_with_the_oracle_of_its_own_kind():
    found = ablations.summarised(tidy())
    gaps = found[found["method"] == "munkey"].set_index("case")["gap_mean"]
    assert gaps.to_dict() == pytest.approx(CASES)
    assert set(found["knob"]) == {"inference.fusion", "inference.k", "munkey.architecture"}


def test_every_knob_has_its_lowest_gap_in_bold():
    ((title, frame),) = ablations.every_knob(ablations.summarised(tidy()), "markdown")
    assert "n = 2 seeds" in title and "10 %" in title
    gaps = frame.set_index("Value")["Avg Gap"]
    assert gaps["ensemble"].startswith("**") and gaps["rank"].startswith("<u>") and gaps["8"].startswith("**")


def test_the_papers_layouts_name_its_strategies():
    summary = ablations.summarised(pd.concat([tidy(), tidy("other")]))
    ((_, short),) = ablations.strategies(summary, "latex")
    assert short["Strategy"].tolist() == ["Direct Key", "Ensemble", "Rank"]
    assert list(short.columns) == ["Strategy", "P_s, digits", "Avg Gap, digits", "P_s, other", "Avg Gap, other"]
    blocks = list(ablations.aggregation(summary, "latex"))
    assert len(blocks) == 2
    assert blocks[0][1]["Category"].tolist() == ["Retrained"] * 3 + ["MUNKEY"] * 3
    assert blocks[0][1]["Avg Gap"].tolist()[:3] == ["–"] * 3
    assert (
        r"\toprule" in render(blocks, "latex")
        and "%" not in render(blocks, "latex").split("toprule")[1].split("bottom")[0]
    )


def test_the_papers_own_numbers_stand_beside_ours():
    summary = ablations.summarised(tidy("cifar10"))
    both = paper.compared(summary.iloc[:0], summary)
    line = both[
        (both["table"] == "aggregation") & (both["case"] == "inference.fusion/rank") & (both["method"] == "munkey")
    ]
    line = line.set_index("metric").loc["TA"]
    printed = pd.read_csv(paper.PRINTED)
    wanted = printed[
        (printed["table"] == "aggregation")
        & (printed["dataset"] == "cifar10")
        & (printed["metric"] == "TA")
        & (printed["case"] == "inference.fusion/rank")
        & (printed["method"] == "munkey")
    ]["mean"].item()
    assert line["ours_mean"] == 64.5 and line["mean"] == wanted and line["difference"] == pytest.approx(64.5 - wanted)
    assert paper.compared(ablations.summarised(tidy()).iloc[:0], ablations.summarised(tidy())).empty
    assert len(paper.table(both)) == len(both)


def test_the_printed_numbers_are_the_papers():
    facts = ROOT.parent / "shared/paper/tables.csv"
    if not facts.exists():
        pytest.skip("the paper's tables are not at hand")
    given, kept = pd.read_csv(facts), paper.printed()
    assert len(given) == len(kept)
    for name in ("dataset", "mean", "std"):
        assert given[name].astype(str).tolist() == kept["sd" if name == "std" else name].astype(str).tolist()
    assert (kept["slip"] != "").sum() == 60


def test_a_run_in_another_setting_says_so():
    config = yaml.safe_load((ROOT / "params.yaml").read_text())
    assert paper.statement("digits", config, 3).endswith("compared with the paper's.")
    said = paper.statement("cifar10", config, 1)
    assert "no reproduction" in said and "seeds is 1 (paper: 3)" in said and "train.epochs is 40 (paper: 100)" in said
    preset = yaml.safe_load((ROOT / "workflow/presets/paper.yaml").read_text())
    for name, section in preset.items():
        config[name] = {**config[name], **section} if isinstance(section, dict) else section
    assert "the paper's setting" in paper.statement("cifar10", config, 3)


def changed(**ablations):
    config = yaml.safe_load((ROOT / "params.yaml").read_text())
    return load(config | {"ablations": ablations})


def test_a_case_is_the_data_set_with_one_thing_changed():
    params = changed(**{"inference.k": [8], "munkey": [{"p_image": 0.2, "p_token": 0.2}]})
    assert params.of("digits/inference.k/8").inference.k == 8
    assert params.of("digits").inference.k == 4
    assert params.of("digits/munkey/0.2_0.2").munkey.p_image == 0.2
    assert params.of("digits/p_drop/0.0_0.0").munkey.p_token == 0.0


@pytest.mark.parametrize(
    ("ablations", "said"),
    [
        ({"inference.k": [99]}, "inference.k/99: inference.k = 99 must be at most keys.depth"),
        ({"munkey.p_image": [0.95]}, "at most 1"),
        ({"inference.kk": [1]}, "unknown key; did you mean 'k'"),
        ({"forget.rates": [[0.5]]}, "not a knob of MUNKEY"),
        ({"keys.depth": [3]}, "not a knob of MUNKEY"),
    ],
)
def test_a_bad_ablation_is_refused_before_any_job(ablations, said):
    with pytest.raises(ParamsError) as refused:
        changed(**ablations)
    assert said in str(refused.value)
