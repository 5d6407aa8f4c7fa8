"""What an audit trains and asks: pairs of systems that swap halves of a pool, in cases of their own."""

import pytest

from munkey.experiment.params.load import ParamsError, load
from munkey.experiment.plan.plan import Plan
from munkey.settings import AuditInference
from munkey.studies.audits.cases import list_grid_points
from munkey.studies.audits.plan import AuditPlan, list_attack_functions
from munkey.studies.audits.settings import AuditSettings
from tests.experiment.inputs import small_config, small_plan

POOL, CONTROL = "digits/audit/pool", "digits/audit/control"
AUDIT = {"audit.pairs": 3, "audit.pool": 0.2, "audit.oracles": 2, "audit.control_pairs": 2}


@pytest.fixture
def plan() -> Plan:
    return small_plan(AUDIT)


def half(seed: int) -> str:
    return f"results/default/audit/digits/halves/seed{seed}.csv"


@pytest.mark.parametrize(("seed", "partner"), [(0, 1), (1, 0), (4, 5), (5, 4)])
def test_a_model_of_a_pair_never_sees_the_half_that_its_partner_forgets(
    plan: Plan, seed: int, partner: int
):
    assert plan.train_input(POOL, str(seed), "full", "t") == {"absent": half(partner)}
    assert plan.forget_set(POOL, str(seed), "rate0.1") == {
        "forget": half(seed),
        "absent": half(partner),
    }


def test_an_oracle_sees_neither_half(plan: Plan):
    read = plan.train_input(POOL, "2", "rate0.1", "m")
    assert (read["forget"], read["absent"]) == (half(2), half(3))


def test_an_audit_shares_no_model_with_the_main_run_or_with_an_ablation(plan: Plan):
    """Not even where all parameters agree: its models are trained on less."""
    assert plan.evaluate_input(POOL, "0", "full", "original-m")["system"].startswith(
        f"results/default/models/{POOL}/"
    )
    assert not any("/audit/" in case for cases in plan.cases.values() for case in cases)
    alike = small_plan(AUDIT | {"audit.control": {"munkey.token_dim": 32}})
    own = alike.evaluate_input(CONTROL, "0", "full", "original-m")["system"]
    assert own.startswith(f"results/default/models/{CONTROL}/")


def test_the_control_differs_in_its_knobs_alone(plan: Plan):
    control, pool = (plan.train_settings(case, "m") for case in (CONTROL, POOL))
    assert (control["munkey"].p_token, control["train"].crop_scale) == (0.9, [1.0, 1.0])
    assert control["munkey"].model_copy(update={"p_image": 0.3, "p_token": 0.1}) == pool["munkey"]
    assert control["model"] == pool["model"]


def test_every_method_is_audited_with_its_family_before_and_its_oracle(plan: Plan):
    systems = AuditPlan(plan).list_systems("digits")
    assert [
        (system["name"], system["role"], system["family"], len(system["logits"]))
        for system in systems
    ] == [
        ("original-k", "nothing", "knn", 6),
        ("knn", "method", "knn", 6),
        ("retrain-k", "oracle", "knn", 4),
        ("original-t", "nothing", "vit", 6),
        ("cf", "method", "vit", 6),
        ("ssd", "method", "vit", 6),
        ("retrain-t", "oracle", "vit", 4),
        ("original-m", "nothing", "munkey", 6),
        ("munkey", "method", "munkey", 6),
        ("retrain-m", "oracle", "munkey", 4),
        ("original-m", "control nothing", "munkey", 4),
        ("munkey", "control", "munkey", 4),
    ]
    assert {system["family"]: tuple(system["paths"]) for system in systems} == {
        "knn": ("deployed",),
        "vit": ("deployed",),
        "munkey": ("deployed", "softmax", "image", "token"),
    }
    titles = {system["role"]: system["title"] for system in systems if system["family"] == "munkey"}
    assert titles["method"] == "MUNKEY" and titles["control"].startswith("MUNKEY, ")
    # as in the main table
    assert (titles["nothing"], titles["oracle"]) == ("Original (M)", "Retrain (M)")


def test_every_model_of_an_audit_is_evaluated_with_its_own_record_and_that_of_its_training(
    plan: Plan,
):
    runs, systems = AuditPlan(plan).list_runs("digits"), AuditPlan(plan).list_systems("digits")
    assert [run.logits for run in runs] == [path for each in systems for path in each["logits"]]
    first = {(run.method, run.case): run for run in runs if run.seed == 1}
    models = "results/default/models/digits/audit"
    for name, case, record, training in (
        ("original-t", "pool", "full/original-t", "full/original-t"),
        ("cf", "pool", "rate0.1/cf", "full/original-t"),
        ("retrain-t", "pool", "rate0.1/retrain-t", "rate0.1/retrain-t"),
        ("munkey", "control", "rate0.1/munkey", "full/original-m"),
    ):
        run = first[name, f"audit/{case}"]
        expected = [f"{models}/{case}/seed1/{each}/record.json" for each in (record, training)]
        assert [run.record, run.training] == expected and (run.forget, run.rate) == (half(1), "0.1")


def test_without_a_method_of_munkeys_there_is_nothing_to_control():
    systems = AuditPlan(small_plan(AUDIT | {"methods": ["cf"]})).list_systems("digits")
    assert [(system["name"], system["role"]) for system in systems] == [
        ("original-t", "nothing"),
        ("cf", "method"),
        ("retrain-t", "oracle"),
    ]


def test_no_pairs_of_the_control_leave_it_out_and_all_else_as_it_is(plan: Plan):
    systems = AuditPlan(small_plan(AUDIT | {"audit.control_pairs": 0})).list_systems("digits")
    assert systems == [
        each for each in AuditPlan(plan).list_systems("digits") if "control" not in each["role"]
    ]


def test_a_family_that_is_fitted_is_audited_too():
    plan = small_plan(AUDIT | {"methods": ["lda", "knn"]})
    assert [
        (system["name"], system["role"]) for system in AuditPlan(plan).list_systems("digits")
    ] == [
        *(("original-l", "nothing"), ("lda", "method"), ("retrain-l", "oracle")),
        *(("original-k", "nothing"), ("knn", "method"), ("retrain-k", "oracle")),
    ]


def test_what_deletes_without_data_is_asked_before_and_after():
    assert AuditPlan(
        small_plan({"methods": ["knn", "cf", "sisa", "munkey", "example-tied-dropout"]})
    ).list_deleting_methods() == [
        *("knn", "munkey", "example-tied-dropout"),
    ]
    assert AuditPlan(small_plan({"methods": ["cf"]})).list_deleting_methods() == []


def test_the_code_of_every_attack_counts_for_the_job_that_runs_it():
    named = {
        need: {run.__name__ for run in list_attack_functions(need)} for need in ("pairs", "logits")
    }
    assert named["pairs"] >= {"residual_share", "u_lira", "rmia", "tail"}
    assert named["logits"] == {"loss", "margin", "logistic"}


def test_the_halves_cover_the_largest_number_of_pairs():
    assert AuditPlan(small_plan(AUDIT)).list_halves("digits") == [half(seed) for seed in range(6)]
    assert (
        len(AuditPlan(small_plan(AUDIT | {"audit.control_pairs": 5})).list_halves("digits")) == 10
    )
    grid = AuditPlan(small_plan(AUDIT | {"audit.grid_pairs": 4}))
    assert grid.list_grid_halves("digits") == [half(seed) for seed in range(8)]


def test_the_grid_tries_all_combinations_of_each_block_and_takes_the_default_from_the_pool():
    block = {"munkey.p_image": [0.1, 0.3], "munkey.p_token": [0.0, 0.1]}
    plan = small_plan(
        AUDIT | {"audit.grid": [block, {"munkey.p_image": [0.1], "munkey.p_token": [0.1]}]}
    )
    points = {point["name"]: point for point in AuditPlan(plan).list_grid_settings("digits")}
    assert list(points) == [
        f"p_image-{image}_p_token-{token}" for image in (0.1, 0.3) for token in (0.0, 0.1)
    ]
    default, other = points["p_image-0.3_p_token-0.1"], points["p_image-0.1_p_token-0.0"]
    assert all("/audit/pool/" in path for path in default["before"])
    assert (
        len(other["before"])
        == len(other["after"])
        == 2 * plan.params.section(AuditSettings).grid_pairs
    )
    assert other["knobs"] == {"munkey.p_image": 0.1, "munkey.p_token": 0.0}
    trained = plan.train_settings("digits/audit/p_image-0.1_p_token-0.0", "m")
    assert (trained["munkey"].p_image, trained["munkey"].p_token) == (0.1, 0.0)


def test_beside_a_head_stands_the_family_that_it_is_of_where_that_is_in_the_plan():
    grid = AUDIT | {"audit.grid": [{"munkey.head": ["none", "lda"]}]}
    without, headed = AuditPlan(
        small_plan(grid | {"methods": ["munkey", "lda"]})
    ).list_grid_settings("digits")
    assert without["alone"] == [] and len(headed["alone"]) == len(headed["after"])
    assert (
        headed["alone"][1] == "results/default/logits/digits/audit/head-lda/seed1/rate0.1/lda.npz"
    )
    assert [
        each["alone"]
        for each in AuditPlan(small_plan(grid | {"methods": ["munkey"]})).list_grid_settings(
            "digits"
        )
    ] == [
        [],
        [],
    ]
    assert small_plan(grid).train_settings("digits/audit/head-lda", "m").keys() >= {"munkey", "lda"}
    assert "lda" not in small_plan(grid).train_settings("digits/audit/pool", "m")


def test_a_knob_that_only_some_points_of_the_grid_change_stands_beside_all_of_them():
    plan = small_plan(
        AUDIT | {"audit.grid": [{"munkey.p_image": [0.1]}, {"train.crop_scale": [[0.9, 1.0]]}]}
    )
    first, second = AuditPlan(plan).list_grid_settings("digits")
    assert first["knobs"] == {
        "munkey.p_image": 0.1,
        "train.crop_scale": plan.params.train.crop_scale,
    }
    assert (second["name"], second["knobs"]["munkey.p_image"]) == (
        "crop_scale-0.9-1.0",
        plan.params.munkey.p_image,
    )


def test_knobs_of_a_grid_that_end_alike_are_told_apart():
    grid = [
        {"munkey.temperature": [0.02, 0.07]},
        {"inference.temperature": [0.02, 0.07], "munkey.p_token": [0.3]},
    ]
    names = list(
        list_grid_points(small_plan(AUDIT | {"audit.grid": grid}).params.section(AuditSettings))
    )
    munkeys = [f"munkey.temperature-{value}" for value in (0.02, 0.07)]
    assert names == [
        *munkeys,
        *(f"inference.temperature-{value}_p_token-0.3" for value in (0.02, 0.07)),
    ]


def test_the_hardest_samples_have_halves_of_their_own():
    plan = small_plan(AUDIT | {"audit.pool_of": "hardest"})
    halves = [f"results/default/audit/digits/hardest/seed{seed}.csv" for seed in range(6)]
    assert AuditPlan(plan).list_halves("digits") == halves
    assert plan.forget_set(POOL, "4", "rate0.1") == {"forget": halves[4], "absent": halves[5]}
    assert (
        plan.forget_set("digits", "0", "rate0.1")["forget"]
        == "results/default/forget/digits/seed0/rate0.1.csv"
    )


def test_a_memory_is_asked_in_other_ways_in_an_audit_alone(plan: Plan):
    assert plan.evaluate_settings(POOL, "munkey")["audit"] == AuditInference(k=16, fusion="softmax")
    # keys.depth
    assert small_plan(AUDIT | {"audit.k": 34}).evaluate_settings(POOL, "munkey")["audit"].k == 33
    assert "audit" not in plan.evaluate_settings(POOL, "cf")
    assert "audit" not in plan.evaluate_settings("digits", "munkey")


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("audit.pairs", 1, "audit.pairs = 1"),
        ("audit.control_pairs", 1, "control_pairs = 1: an interval needs at least 2 pairs"),
        ("audit.pool", 1.0, "audit.pool = 1.0"),
        ("audit.pool_of", "easiest", "audit.pool_of"),
        ("audit.control", {"munkey.p_tokn": 0.9}, "munkey.p_tokn"),
        ("audit.control", {"munkey.p_token": 1.9}, "audit.control: munkey.p_token = 1.9"),
        ("audit.control", {"forget.rates": [0.5]}, "forget.rates"),
        ("audit.control", {"keys.image_size": 64}, "keys.image_size is not a knob"),
        ("audit.grid", [{"keys.image_size": [64, 96]}], "keys.image_size is not a knob"),
        ("audit.grid", [{"munkey.p_tokn": [0.9]}], "munkey.p_tokn"),
        ("audit.grid", [{"munkey.p_token": []}], "audit.grid"),
        ("audit.grid", [{"munkey.p_token": [1.9]}], "audit.grid: munkey.p_token = 1.9"),
    ],
)
def test_a_bad_audit_is_refused_before_any_job(key: str, value: object, words: str):
    with pytest.raises(ParamsError) as refused:
        load(small_config(AUDIT | {key: value}))
    assert words in str(refused.value)


@pytest.mark.parametrize("changes", [{"audit.pool_of": "hardest"}, {"audit.pool": 0.5}])
def test_another_pool_can_be_drawn_where_it_lies_apart_from_the_first(changes: dict[str, object]):
    drawn = AUDIT | {"audit.draw": 1}
    assert load(small_config(drawn | {"audit.pool": 0.4})).audit.draw == 1
    with pytest.raises(ParamsError, match="draw = 1 must be 0, except for random pools of at most"):
        load(small_config(drawn | changes))


def test_storage_is_searched_in_every_unlearned_system_that_holds_a_memory():
    plan = small_plan(AUDIT | {"methods": ["knn", "cf", "munkey"], "forget.rates": [0.1, 0.02]})
    held = AuditPlan(plan).list_memories("digits")
    assert {each["key"]["method"] for each in held} == {"knn", "munkey"}
    assert {each["key"]["rate"] for each in held} == {"0.1", "0.02"}
    files = AuditPlan(plan).list_memory_files("digits")
    assert files == sorted({path for each in held for path in (*each["files"], each["forget"])})


def test_the_report_shows_an_audit_unless_it_is_told_not_to():
    assert AuditPlan(small_plan(AUDIT)).in_paper == ["digits"]
    assert AuditPlan(small_plan(AUDIT | {"audit.in_paper": False})).in_paper == []


WHOLE_CLASSES = {
    "methods": ["unsir"],
    "forget": {"rates": [0.1], "sampling": "class", "names": None},
}


def test_where_every_method_forgets_whole_classes_alone_a_pool_of_samples_is_not_audited_and_it_is_said_why():
    audits = AuditPlan(small_plan(AUDIT | WHOLE_CLASSES))
    assert audits.in_paper == []  # `make paper` ends without one
    refusal = r"all methods .unsir. can only forget whole classes, but audit\.pool_of is random; set it to class"
    with pytest.raises(ValueError, match=refusal):
        audits.list_systems("digits")
    of_classes = AuditPlan(small_plan(AUDIT | WHOLE_CLASSES | {"audit.pool_of": "class"}))
    assert of_classes.in_paper == ["digits"] and "unsir" in {
        each["name"] for each in of_classes.list_systems("digits")
    }
