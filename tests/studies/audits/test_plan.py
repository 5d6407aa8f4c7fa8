"""What an audit trains and asks: pairs of systems that swap halves of a pool, in cases of their own."""

import pytest

from munkey.experiment.params.load import ParamsError, load
from munkey.experiment.plan.plan import Plan
from munkey.settings import AuditInference
from munkey.studies.audits.cases import list_grid_points
from munkey.studies.audits.plan import AuditPlan, list_attack_functions
from munkey.studies.audits.settings import AuditSettings
from tests.experiment.inputs import small_config, small_plan

POOL = "digits/audit/pool"
CONTROL = "digits/audit/control"
AUDIT = {"audit.pairs": 3, "audit.pool": 0.2, "audit.oracles": 2, "audit.control_pairs": 2}


@pytest.fixture
def plan() -> Plan:
    return small_plan(AUDIT)


def half(seed: int) -> str:
    return f"results/default/audit/digits/halves/seed{seed}.csv"


@pytest.mark.parametrize(("seed", "partner"), [(0, 1), (1, 0), (4, 5), (5, 4)])
def test_a_model_of_a_pair_is_not_trained_on_the_half_that_its_partner_forgets(
    plan: Plan, seed: int, partner: int
):
    assert plan.train_input(POOL, str(seed), "full", "t") == {"absent": half(partner)}
    assert plan.forget_set(POOL, str(seed), "rate0.1") == {
        "forget": half(seed),
        "absent": half(partner),
    }


def test_an_oracle_is_trained_on_neither_half(plan: Plan):
    files = plan.train_input(POOL, "2", "rate0.1", "m")
    assert (files["forget"], files["absent"]) == (half(2), half(3))


def test_an_audit_shares_no_model_with_the_main_run_or_with_an_ablation(plan: Plan):
    """Not even if all parameters agree: its models are trained on less."""
    of_pool = plan.evaluate_input(POOL, "0", "full", "original-m")["system"]
    assert of_pool.startswith(f"results/default/models/{POOL}/")
    for cases in plan.cases.values():
        for case in cases:
            assert "/audit/" not in case
    as_ablation = small_plan(AUDIT | {"audit.control": {"munkey.token_dim": 32}})
    of_control = as_ablation.evaluate_input(CONTROL, "0", "full", "original-m")["system"]
    assert of_control.startswith(f"results/default/models/{CONTROL}/")


def test_the_control_differs_in_its_knobs_alone(plan: Plan):
    control, pool = (plan.train_settings(case, "m") for case in (CONTROL, POOL))
    assert (control["munkey"].p_token, control["train"].crop_scale) == (0.9, [1.0, 1.0])
    assert control["munkey"].model_copy(update={"p_image": 0.3, "p_token": 0.1}) == pool["munkey"]
    assert control["model"] == pool["model"]


def test_every_method_is_audited_with_its_original_and_its_oracle(plan: Plan):
    systems = AuditPlan(plan).list_systems("digits")
    fields = []
    for system in systems:
        models = len(system["logits"])
        fields.append((system["name"], system["role"], system["family"], models))
    assert fields == [
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
    titles = {}
    for system in systems:
        if system["family"] == "munkey":
            titles[system["role"]] = system["title"]
    assert titles["method"] == "MUNKEY"
    assert titles["control"].startswith("MUNKEY, ")
    # as in the main table
    assert (titles["nothing"], titles["oracle"]) == ("Original (M)", "Retrain (M)")


def test_every_model_of_an_audit_is_evaluated_with_its_own_record_and_that_of_its_training(
    plan: Plan,
):
    runs = AuditPlan(plan).list_runs("digits")
    systems = AuditPlan(plan).list_systems("digits")
    logits = []
    for system in systems:
        logits += system["logits"]
    assert [run.logits for run in runs] == logits
    of_seed_1 = {(run.method, run.case): run for run in runs if run.seed == 1}
    models = "results/default/models/digits/audit"
    for name, case, record, training in (
        ("original-t", "pool", "full/original-t", "full/original-t"),
        ("cf", "pool", "rate0.1/cf", "full/original-t"),
        ("retrain-t", "pool", "rate0.1/retrain-t", "rate0.1/retrain-t"),
        ("munkey", "control", "rate0.1/munkey", "full/original-m"),
    ):
        run = of_seed_1[name, f"audit/{case}"]
        assert run.record == f"{models}/{case}/seed1/{record}/record.json"
        assert run.training == f"{models}/{case}/seed1/{training}/record.json"
        assert (run.forget, run.rate) == (half(1), "0.1")


def test_without_munkey_there_is_no_control():
    roles = list_roles(small_plan(AUDIT | {"methods": ["cf"]}))
    assert roles == [("original-t", "nothing"), ("cf", "method"), ("retrain-t", "oracle")]


def list_roles(plan: Plan) -> list[tuple[str, str]]:
    """The name and role of each system that an audit of digits compares."""
    systems = AuditPlan(plan).list_systems("digits")
    return [(system["name"], system["role"]) for system in systems]


def test_a_control_of_no_pairs_is_left_out(plan: Plan):
    expected = []
    for system in AuditPlan(plan).list_systems("digits"):
        if "control" not in system["role"]:
            expected.append(system)
    without_control = small_plan(AUDIT | {"audit.control_pairs": 0})
    assert AuditPlan(without_control).list_systems("digits") == expected


def test_a_family_that_is_fitted_is_audited_too():
    assert list_roles(small_plan(AUDIT | {"methods": ["lda", "knn"]})) == [
        ("original-l", "nothing"),
        ("lda", "method"),
        ("retrain-l", "oracle"),
        ("original-k", "nothing"),
        ("knn", "method"),
        ("retrain-k", "oracle"),
    ]


def test_deleting_methods_are_those_that_need_no_data():
    plan = small_plan({"methods": ["knn", "cf", "sisa", "munkey", "example-tied-dropout"]})
    deleting = AuditPlan(plan).list_deleting_methods()
    assert deleting == ["knn", "munkey", "example-tied-dropout"]
    assert AuditPlan(small_plan({"methods": ["cf"]})).list_deleting_methods() == []


def test_the_code_of_every_attack_counts_for_the_job_that_runs_it():
    of_pairs = {run.__name__ for run in list_attack_functions("pairs")}
    of_logits = {run.__name__ for run in list_attack_functions("logits")}
    assert of_pairs >= {"residual_share", "u_lira", "rmia", "tail"}
    assert of_logits == {"loss", "margin", "logistic"}


def test_there_are_two_halves_for_each_of_the_largest_number_of_pairs():
    halves = [half(seed) for seed in range(2 * AUDIT["audit.pairs"])]
    assert AuditPlan(small_plan(AUDIT)).list_halves("digits") == halves
    more_controls = AuditPlan(small_plan(AUDIT | {"audit.control_pairs": 5}))
    assert len(more_controls.list_halves("digits")) == 10
    grid = AuditPlan(small_plan(AUDIT | {"audit.grid_pairs": 4}))
    assert grid.list_grid_halves("digits") == [half(seed) for seed in range(8)]


def test_the_grid_tries_all_combinations_of_each_block_and_takes_the_default_from_the_pool():
    block = {"munkey.p_image": [0.1, 0.3], "munkey.p_token": [0.0, 0.1]}
    point_of_block = {"munkey.p_image": [0.1], "munkey.p_token": [0.1]}
    plan = small_plan(AUDIT | {"audit.grid": [block, point_of_block]})
    points = {point["name"]: point for point in AuditPlan(plan).list_grid_settings("digits")}
    assert list(points) == [
        "p_image-0.1_p_token-0.0",
        "p_image-0.1_p_token-0.1",
        "p_image-0.3_p_token-0.0",
        "p_image-0.3_p_token-0.1",
    ]
    default = points["p_image-0.3_p_token-0.1"]
    other = points["p_image-0.1_p_token-0.0"]
    for path in default["before"]:
        assert "/audit/pool/" in path
    models = 2 * plan.params.section(AuditSettings).grid_pairs
    assert len(other["before"]) == models
    assert len(other["after"]) == models
    assert other["knobs"] == {"munkey.p_image": 0.1, "munkey.p_token": 0.0}
    munkey = plan.train_settings("digits/audit/p_image-0.1_p_token-0.0", "m")["munkey"]
    assert (munkey.p_image, munkey.p_token) == (0.1, 0.0)


def test_a_setting_with_a_head_is_compared_with_the_head_alone_if_that_is_in_the_plan():
    grid = AUDIT | {"audit.grid": [{"munkey.head": ["none", "lda"]}], "lda.alpha": 0.2}
    with_lda = AuditPlan(small_plan(grid | {"methods": ["munkey", "lda"]}))
    plain, headed = with_lda.list_grid_settings("digits")
    assert plain["alone"] == []
    assert len(headed["alone"]) == len(headed["after"])
    folder = "results/default/logits/digits/audit/head-lda"
    assert headed["alone"][1] == f"{folder}/seed1/rate0.1/lda.npz"
    without_lda = AuditPlan(small_plan(grid | {"methods": ["munkey"]}))
    for point in without_lda.list_grid_settings("digits"):
        assert point["alone"] == []
    assert small_plan(grid).train_settings("digits/audit/head-lda", "m").keys() >= {"munkey", "lda"}
    assert "lda" not in small_plan(grid).train_settings("digits/audit/pool", "m")


def test_every_point_of_a_grid_has_all_knobs_of_the_grid():
    blocks = [{"munkey.p_image": [0.1]}, {"train.crop_scale": [[0.9, 1.0]]}]
    plan = small_plan(AUDIT | {"audit.grid": blocks})
    first, second = AuditPlan(plan).list_grid_settings("digits")
    crop_scale = plan.params.train.crop_scale
    assert first["knobs"] == {"munkey.p_image": 0.1, "train.crop_scale": crop_scale}
    assert second["name"] == "crop_scale-0.9-1.0"
    assert second["knobs"]["munkey.p_image"] == plan.params.munkey.p_image


def test_knobs_of_a_grid_with_the_same_last_name_have_their_whole_name():
    grid = [
        {"munkey.temperature": [0.02, 0.07]},
        {"inference.temperature": [0.02, 0.07], "munkey.p_token": [0.3]},
    ]
    settings = small_plan(AUDIT | {"audit.grid": grid}).params.section(AuditSettings)
    assert list(list_grid_points(settings)) == [
        "munkey.temperature-0.02",
        "munkey.temperature-0.07",
        "inference.temperature-0.02_p_token-0.3",
        "inference.temperature-0.07_p_token-0.3",
    ]


def test_the_hardest_samples_have_halves_of_their_own():
    plan = small_plan(AUDIT | {"audit.pool_of": "hardest"})
    halves = [f"results/default/audit/digits/hardest/seed{seed}.csv" for seed in range(6)]
    assert AuditPlan(plan).list_halves("digits") == halves
    assert plan.forget_set(POOL, "4", "rate0.1") == {"forget": halves[4], "absent": halves[5]}
    of_main_run = plan.forget_set("digits", "0", "rate0.1")
    assert of_main_run["forget"] == "results/default/forget/digits/seed0/rate0.1.csv"


def test_a_memory_has_further_queries_in_an_audit_alone(plan: Plan):
    assert plan.evaluate_settings(POOL, "munkey")["audit"] == AuditInference(k=16, fusion="softmax")
    # keys.depth
    assert small_plan(AUDIT | {"audit.k": 34}).evaluate_settings(POOL, "munkey")["audit"].k == 33
    assert "audit" not in plan.evaluate_settings(POOL, "cf")
    assert "audit" not in plan.evaluate_settings("digits", "munkey")


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("audit.pairs", 1, "audit.pairs = 1"),
        ("audit.control_pairs", 1, "control_pairs = 1"),
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
def test_a_second_draw_is_refused_if_its_pool_would_overlap_the_first(changes: dict[str, object]):
    second_draw = AUDIT | {"audit.draw": 1}
    assert load(small_config(second_draw | {"audit.pool": 0.4})).audit.draw == 1
    with pytest.raises(ParamsError, match="draw = 1 must be 0"):
        load(small_config(second_draw | changes))


def test_storage_is_searched_in_every_unlearned_system_that_holds_a_memory():
    plan = small_plan(
        AUDIT | {"methods": ["knn", "cf", "munkey", "spm"], "forget.rates": [0.1, 0.02]}
    )
    memories = AuditPlan(plan).list_memories("digits")
    assert {memory["key"]["method"] for memory in memories} == {"knn", "munkey", "spm"}
    assert {memory["key"]["rate"] for memory in memories} == {"0.1", "0.02"}
    files = set()
    for memory in memories:
        files |= {*memory["files"], memory["forget"]}
    assert AuditPlan(plan).list_memory_files("digits") == sorted(files)


def test_the_report_shows_an_audit_unless_it_is_switched_off():
    assert AuditPlan(small_plan(AUDIT)).in_paper == ["digits"]
    assert AuditPlan(small_plan(AUDIT | {"audit.in_paper": False})).in_paper == []


WHOLE_CLASSES = {
    "methods": ["unsir"],
    "forget": {"rates": [0.1], "sampling": "class", "names": None},
}


def test_methods_that_forget_only_whole_classes_are_refused_for_a_pool_of_samples():
    audits = AuditPlan(small_plan(AUDIT | WHOLE_CLASSES))
    assert audits.in_paper == []  # `make paper` ends without one
    with pytest.raises(ValueError, match=r"unsir.* audit\.pool_of is random; .* class"):
        audits.list_systems("digits")
    of_classes = AuditPlan(small_plan(AUDIT | WHOLE_CLASSES | {"audit.pool_of": "class"}))
    assert of_classes.in_paper == ["digits"]
    assert "unsir" in {system["name"] for system in of_classes.list_systems("digits")}


def test_further_paths_are_queried_of_the_families_that_have_them_and_in_the_audit_alone():
    plan = small_plan(AUDIT | {"audit.paths": ["perturbed", "probe"]})
    systems = AuditPlan(plan).list_systems("digits")
    assert {system["family"]: tuple(system["paths"]) for system in systems} == {
        "knn": ("deployed",),  # exact, so that no query tells it from its oracle
        "vit": ("deployed", "perturbed", "probe"),
        "munkey": ("deployed", "softmax", "image", "token", "perturbed", "probe"),
    }
    keys = "perturbed_keys"
    for case, name, has_paths, has_keys in (
        (POOL, "munkey", True, True),
        (CONTROL, "munkey", True, True),
        (POOL, "cf", True, False),
        (POOL, "knn", False, False),
        ("digits", "munkey", False, False),
    ):
        assert ("paths" in plan.evaluate_settings(case, name)) == has_paths
        assert (keys in plan.retrieval_files(case, "0", "rate0.1", name)) == has_keys
    assert plan.retrieval_files(POOL, "0", "full", "munkey")[keys].endswith("/perturbed.npz")
    # By default, nothing changes.
    for name in ("munkey", "cf"):
        assert "paths" not in small_plan(AUDIT).evaluate_settings(POOL, name)


def test_a_pool_of_classes_leaves_a_probe_no_samples_of_them():
    with pytest.raises(ParamsError, match="probe"):
        small_plan(AUDIT | {"audit.paths": ["probe"], "audit.pool_of": "class"})
