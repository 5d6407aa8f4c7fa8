"""What an audit trains and asks: pairs of systems that swap halves of a pool, in cases of their own."""

import pytest

from munkey.pipeline.audited import AuditPlan
from munkey.pipeline.params import ParamsError, load
from munkey.pipeline.plan import Plan
from tests.pipeline.inputs import small_config, small_plan

POOL, CONTROL = "digits/audit/pool", "digits/audit/control"
AUDIT = {"audit.pairs": 3, "audit.pool": 0.2, "audit.oracles": 1, "audit.control_pairs": 2}


@pytest.fixture
def plan() -> Plan:
    return small_plan(AUDIT)


def half(seed: int) -> str:
    return f"results/default/audit/digits/halves/seed{seed}.csv"


@pytest.mark.parametrize(("seed", "partner"), [(0, 1), (1, 0), (4, 5), (5, 4)])
def test_a_model_of_a_pair_never_sees_the_half_that_its_partner_forgets(plan: Plan, seed: int, partner: int):
    assert plan.train_input(POOL, str(seed), "full", "t") == {"absent": half(partner)}
    assert plan.forget_set(POOL, str(seed), "rate0.1") == {"forget": half(seed), "absent": half(partner)}


def test_an_oracle_sees_neither_half(plan: Plan):
    read = plan.train_input(POOL, "2", "rate0.1", "m")
    assert (read["forget"], read["absent"]) == (half(2), half(3))


def test_a_memory_is_searched_without_what_its_model_never_saw(plan: Plan):
    folder = f"results/default/neighbors/digits/{plan.encoder_of(POOL)}/audit/seed2"
    for subset in ("full", "rate0.1"):
        assert plan.neighbors(POOL, "2", subset) == plan.neighbors(CONTROL, 2, subset) == f"{folder}/{subset}.npz"
        assert plan.forget_of_scope("digits", f"audit/seed2/{subset}") == plan.forget_set(POOL, "2", subset)


def test_an_audit_shares_no_model_with_the_main_run_or_with_an_ablation(plan: Plan):
    """Not even where all parameters agree: its models are trained on less."""
    assert plan.evaluate_input(POOL, "0", "full", "original-m")["system"].startswith(f"results/default/models/{POOL}/")
    assert not any("/audit/" in case for cases in plan.cases.values() for case in cases)
    alike = small_plan(AUDIT | {"audit.control": {"munkey.token_dim": 32}})
    own = alike.evaluate_input(CONTROL, "0", "full", "original-m")["system"]
    assert own.startswith(f"results/default/models/{CONTROL}/")


def test_the_control_differs_in_its_knobs_alone(plan: Plan):
    control, pool = (plan.train_settings(case, "m") for case in (CONTROL, POOL))
    assert (control["munkey"]["p_token"], control["train"]["crop_scale"]) == (0.9, [1.0, 1.0])
    assert control["munkey"] | {"p_image": 0.3, "p_token": 0.1} == pool["munkey"]
    assert control["model"] == pool["model"]


def test_every_method_is_audited_with_its_family_before_and_its_oracle(plan: Plan):
    systems = AuditPlan(plan).systems_of("digits")
    assert [(system["name"], system["role"], system["family"], len(system["logits"])) for system in systems] == [
        ("original-t", "nothing", "vit", 6),
        ("cf", "method", "vit", 6),
        ("ssd", "method", "vit", 6),
        ("retrain-t", "oracle", "vit", 2),
        ("original-m", "nothing", "munkey", 6),
        ("munkey", "method", "munkey", 6),
        ("retrain-m", "oracle", "munkey", 2),
        ("original-m", "control nothing", "munkey", 4),
        ("munkey", "control", "munkey", 4),
    ]
    assert {system["family"]: tuple(system["paths"]) for system in systems} == {
        "vit": ("deployed",),
        "munkey": ("deployed", "softmax", "image", "token"),
    }
    folder = "results/default/logits/digits/audit"
    assert systems[1]["logits"][5] == f"{folder}/pool/seed5/rate0.1/cf.npz"
    assert systems[0]["logits"][0] == f"{folder}/pool/seed0/full/original-t.npz"
    assert systems[8]["logits"][3] == f"{folder}/control/seed3/rate0.1/munkey.npz"


def test_the_halves_cover_the_largest_number_of_pairs():
    assert AuditPlan(small_plan(AUDIT)).halves_of("digits") == [half(seed) for seed in range(6)]
    assert len(AuditPlan(small_plan(AUDIT | {"audit.control_pairs": 5})).halves_of("digits")) == 10


def test_a_memory_is_asked_in_other_ways_in_an_audit_alone(plan: Plan):
    assert plan.evaluate_settings(POOL, "munkey")["audit"] == {"k": 16, "fusion": "softmax"}
    assert small_plan(AUDIT | {"audit.k": 34}).evaluate_settings(POOL, "munkey")["audit"]["k"] == 33  # keys.depth
    assert "audit" not in plan.evaluate_settings(POOL, "cf")
    assert "audit" not in plan.evaluate_settings("digits", "munkey")


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("audit.pairs", 1, "audit.pairs = 1"),
        ("audit.pool", 1.0, "audit.pool = 1.0"),
        ("audit.control", {"munkey.p_tokn": 0.9}, "munkey.p_tokn"),
        ("audit.control", {"munkey.p_token": 1.9}, "p_token"),
        ("audit.control", {"forget.rates": [0.5]}, "forget.rates"),
    ],
)
def test_a_bad_audit_is_refused_before_any_job(key: str, value: object, words: str):
    with pytest.raises(ParamsError) as refused:
        load(small_config(AUDIT | {key: value}))
    assert words in str(refused.value)
