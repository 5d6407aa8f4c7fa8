"""A row for each system and path, beside controls that are made of the same family."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from munkey.audits import verdict
from munkey.audits.attacks.distance import distance
from munkey.audits.attacks.residual_share import residual_share
from munkey.audits.evidence import OracleComparison
from munkey.audits.family_audit import AuditedSystem, FamilyAudit
from munkey.audits.margins import compute_margins
from munkey.audits.read_evidence import read_audits
from munkey.audits.verdict import MUST_BE_FLAGGED
from munkey.core.files import write_npz
from munkey.core.randomness import Stage
from munkey.data import forget_sets
from munkey.report.figures.shares import forest_plot
from munkey.report.tables.audits import collect_residue, make_audit_table
from tests.audits.inputs import population

PAIRS = 6


@pytest.fixture(autouse=True)
def _fewer_redraws(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"REDRAWS": 199, "SHAMS": 5, "SHAM_REDRAWS": 39, "STRICT": 0.045}.items():
        monkeypatch.setattr(verdict, name, value)


def logits(models: int = 1, samples: int = 40, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(models, samples, 3))


@cache
def family(
    left: float = 0.0,
    *,
    kept: float | None = 0.9,
    oracle_left: float = 0.0,
    nothing: float = 1.0,
    oracles: int = 4,
) -> FamilyAudit:
    """A method that leaves `left` of what training put there; the control leaves `kept`."""
    generator = np.random.default_rng(5)
    made = population(PAIRS, left, generator)
    assert made.nothing is not None
    before = population(PAIRS, nothing, generator).margins if nothing != 1 else made.nothing.margins
    halves = made.halves

    def asked(role, rows, logits, **paths):
        return AuditedSystem(f"its {role}", role, role, {"deployed": rows, **paths}, logits)

    size = made.margins.shape
    trained = made.margins - left * made.halves.deleted
    never_saw = trained[:4] + oracle_left * halves.deleted[:4]
    systems = [
        asked("nothing", before, logits()),
        asked(
            "method", made.margins, logits(seed=1), image=np.random.default_rng(1).normal(size=size)
        ),
        asked("oracle", never_saw, logits(oracles, seed=2)),
    ]
    if kept is not None:
        full = trained[:8] + halves.deleted[:8]
        systems += [
            asked("control nothing", full, logits(seed=3)),
            asked("control", trained[:8] + kept * halves.deleted[:8], logits(seed=4)),
        ]
    return FamilyAudit("munkey", systems, halves, np.random.default_rng(0))


@cache
def lines_of(audit: FamilyAudit) -> list[dict[str, object]]:
    return audit.make_rows()


def line(audit: FamilyAudit, role: str, path: str = "deployed") -> dict[str, object]:
    return next(each for each in lines_of(audit) if (each["role"], each["path"]) == (role, path))


def test_every_system_and_path_has_a_row_and_the_deployed_path_a_verdict():
    lines = lines_of(family())
    assert [(each["role"], each["path"]) for each in lines] == [
        ("nothing", "deployed"),
        ("method", "deployed"),
        ("method", "image"),
        ("oracle", "deployed"),
        ("control nothing", "deployed"),
        ("control", "deployed"),
    ]
    assert [("verdict" in each) for each in lines] == [True, True, False, True, True, True]
    assert [each["pairs"] for each in lines] == [6, 6, 6, 2, 4, 4]


def test_shares_are_of_doing_nothing_on_the_deployed_path():
    audit = family(0.5)
    assert line(audit, "nothing")["share"] == pytest.approx(100)
    assert line(audit, "method")["share"] == pytest.approx(50, abs=10)
    assert line(audit, "control nothing")["share"] == pytest.approx(100)
    assert line(audit, "control")["share"] == pytest.approx(90, abs=5)
    assert abs(line(audit, "oracle")["share"]) < 25
    pairs = audit._make_pairs(audit.systems[1], "deployed")
    assert line(audit, "method")["share"] == residual_share(pairs).share.value


def test_a_rows_numbers_are_those_of_the_statistics():
    audit = family(0.5)
    row = line(audit, "method")
    found = audit._collect_findings(audit.systems[1], "deployed")
    share = found.share
    attacks = found.attacks
    expected = {
        **{
            "share_low": share.share.low,
            "share_high": share.share.high,
            "contrast": share.contrast,
        },
        **{
            "training_low": share.training.low,
            "chance": share.chance,
            "p_pairs": share.p_pairs,
            "unit": share.unit,
        },
        **{
            "rmia_auroc_p": found.tests["rmia_auroc"].p,
            "rmia_auroc_high": attacks["rmia"].auroc.high,
        },
        **{
            "tenth": attacks["tail"].tenth_share.value,
            "square": attacks["tail"].square,
            "few_p": found.tests["few"].p,
        },
        **{"p": found.p, "limit": found.limit, "flagged": " ".join(found.flagged_tests)},
    }
    assert {name: row[name] for name in expected} == expected
    assert row["flagged"].split()[0] == "share" and "rmia_auroc" in row["flagged"]
    apart = distance(
        OracleComparison(audit.systems[1].logits, audit.systems[2].logits), np.random.default_rng(0)
    )
    assert (row["js"], row["js_ratio"]) == (1000 * apart.value.value, apart.ratio.value)


@pytest.mark.parametrize(
    ("left", "kind"), [(0.0, "none found"), (0.5, "residue"), (-0.6, "over-forgets")]
)
def test_the_verdict_is_that_of_what_was_left(left: float, kind: str):
    assert line(family(left), "method")["verdict"] == kind


def test_where_partners_answer_alike_nothing_is_tested_and_no_p_or_limit_is_said():
    audit = family()
    method = audit.systems[1]
    alike = replace(
        method, margins={path: rows[::2].repeat(2, axis=0) for path, rows in method.margins.items()}
    )
    untested = FamilyAudit(
        audit.family,
        [audit.systems[0], alike, *audit.systems[2:]],
        audit.halves,
        np.random.default_rng(0),
    )
    row = line(untested, "method")
    assert not [name for name in row if name.endswith("_p")] and not {"p", "limit"} & row.keys()
    assert {"p", "limit"} <= line(audit, "method").keys()


def test_each_control_is_that_of_its_system():
    right = {each.name: each.flagged for each in family().controls}
    assert right == MUST_BE_FLAGGED
    without = {each.name for each in family(kept=None).controls}
    assert without == {"original", "oracle", "sham"}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"kept": 0.0}, "trained to remember passed, but must not"),
        ({"oracle_left": 1.0}, "oracle was flagged, but must not"),
        ({"nothing": 0.0}, "original passed, but must not"),
    ],
)
def test_where_a_control_comes_out_wrong_no_row_says_anything_but_that(
    changes: dict[str, float], words: str
):
    lines = [each for each in lines_of(family(0.5, **changes)) if "verdict" in each]
    assert [each["verdict"] for each in lines if each["role"] == "method"] == ["no power"]
    assert all(words in str(each["words"]) for each in lines if each["role"] == "method")
    assert f"control: {words}" in [each["words"] for each in lines]


def test_controls_are_not_judged_but_say_how_they_did():
    said = {
        each["role"]: (each["verdict"], each["words"])
        for each in lines_of(family())
        if "verdict" in each
    }
    assert said["nothing"] == ("control", "control: original was flagged, as it must")
    assert said["oracle"] == ("control", "control: oracle passed, as it must")
    assert said["control"] == ("control", "control: trained to remember was flagged, as it must")
    assert said["control nothing"] == ("control", "what the control is a share of")


def test_the_p_of_a_path_is_corrected_for_the_number_of_paths():
    audit = family(0.5)
    assert line(audit, "method")["p_paths"] == pytest.approx(min(1, 2 * line(audit, "method")["p"]))
    assert line(audit, "nothing")["p_paths"] == line(audit, "nothing")["p"]


def test_distances_are_to_the_oracles_and_of_whoever_is_no_oracle():
    audit = family()
    assert line(audit, "method")["js_floor"] == line(audit, "nothing")["js_floor"] > 0
    assert line(audit, "method")["js"] != line(audit, "nothing")["js"]
    assert "js" not in line(audit, "oracle")


def test_without_a_second_oracle_there_is_no_distance_and_all_else_is_as_it_was():
    alone = line(family(oracles=1), "method")
    assert line(family(), "method").keys() - alone.keys() == {"js", "js_floor", "js_ratio"}
    assert alone["verdict"] == line(family(), "method")["verdict"]


def test_files_become_margins_of_each_path_and_the_logits_of_what_the_first_model_forgot(tmp_path):
    ids = np.arange(10, 22)
    labels = np.arange(12) % 3
    splits = np.array(["train"] * 8 + ["test"] * 4)
    rng = np.random.default_rng(0)
    written = rng.normal(size=(2, 2, 2, 12, 3)).astype(np.float32)  # role, seed, path
    halves = [tmp_path / f"half{seed}.csv" for seed in (0, 1)]
    for path, chosen in zip(halves, ([11, 13], [10, 16]), strict=True):
        forget_sets.write(path, np.array(chosen))
    systems = []
    for role, name in enumerate(("nothing", "oracle")):
        files = [tmp_path / f"{name}{seed}.npz" for seed in (0, 1)]
        for file, (deployed, image) in zip(files, written[role], strict=True):
            shared = {"ids": ids, "labels": labels, "splits": splits}
            write_npz(file, shared | {"logits": deployed, "path_image": image})
        listed = {
            "name": name,
            "title": name,
            "role": name,
            "family": "vit",
            "paths": ["deployed", "image"],
        }
        systems.append(listed | {"logits": [str(file) for file in files]})
    systems += [system | {"family": "other"} for system in systems]
    audit, other = read_audits(systems, [str(path) for path in halves], Stage("test"))
    assert (audit.family, other.family) == ("vit", "other")
    # or their intervals would hang together
    assert audit.generator.random() != other.generator.random()
    expected = np.zeros((2, 12), bool)
    expected[0, [1, 3]] = expected[1, [0, 6]] = True
    assert np.array_equal(audit.halves.deleted, expected)
    assert np.array_equal(audit.halves.absent, expected[::-1])
    assert np.array_equal(audit.halves.test, splits == "test")
    nothing, oracle = audit.systems
    for path, number in (("deployed", 0), ("image", 1)):
        for seed in (0, 1):
            assert np.array_equal(
                nothing.margins[path][seed], compute_margins(written[0, seed, number], labels)
            )
    assert np.array_equal(nothing.logits, written[0, :1, 0][:, [1, 3]])
    assert np.array_equal(oracle.logits, written[1, :, 0][:, [1, 3]])


def gone(audit: FamilyAudit, role: str) -> FamilyAudit:
    """The same, where a system of this role diverged."""
    reason = "seed 3: the loss is nan; log: logs/x.log"
    systems = [
        AuditedSystem(each.name, each.title, each.role, {}, np.empty(0), reason)
        if each.role == role
        else each
        for each in audit.systems
    ]
    return FamilyAudit(audit.family, systems, audit.halves, np.random.default_rng(0))


def test_a_method_that_diverged_has_a_row_that_says_so_and_the_others_have_theirs():
    audit = gone(family(), "method")
    row = line(audit, "method")
    assert (row["verdict"], row["words"]) == (
        "diverged",
        "diverged, seed 3: the loss is nan; log: logs/x.log",
    )
    assert "share" not in row and line(audit, "oracle")["verdict"] == "control"
    frame = pd.DataFrame(lines_of(audit))
    table = make_audit_table(frame, "digits").frame
    assert list(table["residual share [%]"])[1] == "–" and forest_plot(frame).axes
    assert collect_residue({Path("digits"): frame})["digits"]["its method"] == "diverged"


@pytest.mark.parametrize(
    ("role", "words"), [("nothing", "its original diverged"), ("oracle", "its oracle diverged")]
)
def test_without_what_it_is_compared_with_nothing_of_a_family_is_audited(role, words):
    audit = gone(family(), role)
    assert {row["verdict"] for row in lines_of(audit)} == {"diverged"} and audit.controls == []
    assert line(audit, "method")["words"].startswith(f"not audited: {words}, seed 3")
    assert list(make_audit_table(pd.DataFrame(lines_of(audit)), "digits").frame["p"].unique()) == [
        "–"
    ]


def test_without_the_controls_original_the_control_is_left_out_and_the_method_is_judged():
    audit = gone(family(), "control nothing")
    assert (
        line(audit, "control")["verdict"] == "diverged"
        and line(audit, "method")["verdict"] == "none found"
    )
