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
from munkey.report.tables.shares import collect_residue
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
    remaining: float = 0.0,
    *,
    kept_by_control: float | None = 0.9,
    oracle_left: float = 0.0,
    nothing: float = 1.0,
    oracles: int = 4,
) -> FamilyAudit:
    """A method that leaves `remaining` of what training added; the control leaves `kept_by_control`."""
    generator = np.random.default_rng(5)
    pairs = population(PAIRS, remaining, generator)
    assert pairs.nothing is not None
    before = (
        population(PAIRS, nothing, generator).margins if nothing != 1 else pairs.nothing.margins
    )
    halves = pairs.halves

    def audited(role, rows, logits, **paths):
        return AuditedSystem(f"its {role}", role, role, {"deployed": rows, **paths}, logits)

    size = pairs.margins.shape
    trained = pairs.margins - remaining * pairs.halves.deleted
    never_saw = trained[:4] + oracle_left * halves.deleted[:4]
    systems = [
        audited("nothing", before, logits()),
        audited(
            "method",
            pairs.margins,
            logits(seed=1),
            image=np.random.default_rng(1).normal(size=size),
        ),
        audited("oracle", never_saw, logits(oracles, seed=2)),
    ]
    if kept_by_control is not None:
        full = trained[:8] + halves.deleted[:8]
        systems += [
            audited("control nothing", full, logits(seed=3)),
            audited("control", trained[:8] + kept_by_control * halves.deleted[:8], logits(seed=4)),
        ]
    return FamilyAudit("munkey", systems, halves, np.random.default_rng(0))


@cache
def lines_of(audit: FamilyAudit) -> list[dict[str, object]]:
    return audit.make_rows()


def line(audit: FamilyAudit, role: str, path: str = "deployed") -> dict[str, object]:
    [row] = [row for row in lines_of(audit) if (row["role"], row["path"]) == (role, path)]
    return row


def test_every_system_and_path_has_a_row_and_the_deployed_path_a_verdict():
    lines = lines_of(family())
    assert [(row["role"], row["path"], row["pairs"], "verdict" in row) for row in lines] == [
        ("nothing", "deployed", 6, True),
        ("method", "deployed", 6, True),
        ("method", "image", 6, False),
        ("oracle", "deployed", 2, True),
        ("control nothing", "deployed", 4, True),
        ("control", "deployed", 4, True),
    ]


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
    findings = audit._collect_findings(audit.systems[1], "deployed")
    share = findings.share
    attacks = findings.attacks
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
            "rmia_auroc_p": findings.tests["rmia_auroc"].p,
            "rmia_auroc_high": attacks["rmia"].auroc.high,
        },
        **{
            "tenth": attacks["tail"].tenth_share.value,
            "square": attacks["tail"].square,
            "few_p": findings.tests["few"].p,
        },
        **{"p": findings.p, "limit": findings.limit, "flagged": " ".join(findings.flagged_tests)},
    }
    assert row.items() >= expected.items()
    assert row["flagged"].startswith("share ")
    assert "rmia_auroc" in row["flagged"]
    comparison = OracleComparison(audit.systems[1].logits, audit.systems[2].logits)
    apart = distance(comparison, np.random.default_rng(0))
    assert (row["js"], row["js_ratio"]) == (1000 * apart.value.value, apart.ratio.value)


@pytest.mark.parametrize(
    ("remaining", "kind"), [(0.0, "none found"), (0.5, "residue"), (-0.6, "over-forgets")]
)
def test_the_verdict_follows_the_share_that_was_left(remaining: float, kind: str):
    assert line(family(remaining), "method")["verdict"] == kind


def test_a_row_has_no_p_and_no_limit_where_partners_answer_alike():
    audit = family()
    method = audit.systems[1]
    margins = {path: rows[::2].repeat(2, axis=0) for path, rows in method.margins.items()}
    alike = replace(method, margins=margins)
    untested = FamilyAudit(
        audit.family,
        [audit.systems[0], alike, *audit.systems[2:]],
        audit.halves,
        np.random.default_rng(0),
    )
    row = line(untested, "method")
    assert row.keys().isdisjoint({"p", "limit", "rmia_auroc_p", "few_p"})
    assert line(audit, "method").keys() >= {"p", "limit", "rmia_auroc_p", "few_p"}


def test_controls_of_a_complete_audit_are_right():
    assert {control.name: control.flagged for control in family().controls} == MUST_BE_FLAGGED
    without = family(kept_by_control=None).controls
    assert {control.name for control in without} == {"original", "oracle", "sham"}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"kept_by_control": 0.0}, "trained to remember passed"),
        ({"oracle_left": 1.0}, "oracle was flagged"),
        ({"nothing": 0.0}, "original passed"),
    ],
)
def test_a_wrong_control_takes_the_power_of_every_row(changes: dict[str, float], words: str):
    audit = family(0.5, **changes)
    row = line(audit, "method")
    assert row["verdict"] == "no power"
    assert words in str(row["words"])
    words_of_controls = [str(each.get("words")) for each in lines_of(audit)]
    assert f"control: {words}" in "\n".join(words_of_controls)


def test_rows_of_controls_say_whether_they_were_flagged_as_they_must():
    audit = family()
    for role in ("nothing", "oracle", "control", "control nothing"):
        assert line(audit, role)["verdict"] == "control"
    assert "original was flagged, as it must" in line(audit, "nothing")["words"]
    assert "oracle passed, as it must" in line(audit, "oracle")["words"]
    assert "trained to remember was flagged" in line(audit, "control")["words"]


def test_the_p_of_a_path_is_corrected_for_the_number_of_paths():
    audit = family(0.5)
    assert line(audit, "method")["p_paths"] == pytest.approx(min(1, 2 * line(audit, "method")["p"]))
    assert line(audit, "nothing")["p_paths"] == line(audit, "nothing")["p"]


def test_every_system_but_the_oracles_has_a_distance_to_the_oracles():
    audit = family()
    assert line(audit, "method")["js_floor"] == line(audit, "nothing")["js_floor"] > 0
    assert line(audit, "method")["js"] != line(audit, "nothing")["js"]
    assert "js" not in line(audit, "oracle")


def test_a_row_without_a_second_oracle_lacks_only_the_distance():
    alone = line(family(oracles=1), "method")
    assert line(family(), "method").keys() - alone.keys() == {"js", "js_floor", "js_ratio"}
    assert alone["verdict"] == line(family(), "method")["verdict"]


def test_read_audits_gives_margins_of_each_path_and_logits_of_the_first_models_forget_set(tmp_path):
    ids = np.arange(10, 22)
    labels = np.arange(12) % 3
    splits = np.array(["train"] * 8 + ["test"] * 4)
    rng = np.random.default_rng(0)
    written = rng.normal(size=(2, 2, 2, 12, 3)).astype(np.float32)  # role, seed, path
    halves = [tmp_path / f"half{seed}.csv" for seed in (0, 1)]
    forget_sets.write(halves[0], np.array([11, 13]))
    forget_sets.write(halves[1], np.array([10, 16]))
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
    audit, other = read_audits(systems, list(map(str, halves)), Stage("test"))
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
    systems = list(audit.systems)
    for place, system in enumerate(audit.systems):
        if system.role == role:
            systems[place] = AuditedSystem(system.name, system.title, role, {}, np.empty(0), reason)
    return FamilyAudit(audit.family, systems, audit.halves, np.random.default_rng(0))


def test_a_method_that_diverged_has_a_row_with_the_reason_beside_the_rows_of_the_others():
    audit = gone(family(), "method")
    row = line(audit, "method")
    assert row["verdict"] == "diverged"
    assert "seed 3: the loss is nan; log: logs/x.log" in row["words"]
    assert "share" not in row
    assert line(audit, "oracle")["verdict"] == "control"
    frame = pd.DataFrame(lines_of(audit))
    assert collect_residue({Path("digits"): frame})["digits"]["its method"] == "diverged"


@pytest.mark.parametrize(
    ("role", "words"), [("nothing", "its original diverged"), ("oracle", "its oracle diverged")]
)
def test_no_system_is_audited_if_the_original_or_the_oracle_diverged(role, words):
    audit = gone(family(), role)
    assert {row["verdict"] for row in lines_of(audit)} == {"diverged"}
    assert audit.controls == []
    assert f"{words}, seed 3" in line(audit, "method")["words"]


def test_the_method_is_judged_without_the_control_if_the_controls_original_diverged():
    audit = gone(family(), "control nothing")
    assert line(audit, "control")["verdict"] == "diverged"
    assert line(audit, "method")["verdict"] == "none found"
