"""What is shown: rows of the tables in order, figures and what they are drawn from."""

from munkey.report.tables.frontier import Design
from munkey.report.tables.summary import Row
from tests.experiment.inputs import small_exhibits

TWO = {"datasets": ["digits", "cifar10"], "overrides": {"cifar10": {"forget": {"rates": [0.05]}}}}


def test_rows_are_originals_oracles_and_methods_as_listed():
    rows = small_exhibits({"methods": ["munkey", "sisa", "l1-sparse", "knn"]}).rows
    fields = [(row["name"], row["title"], row["oracle"], row.get("context", False)) for row in rows]
    assert fields == [
        ("original-t", "Original (T)", "retrain-t", True),
        ("original-m", "Original (M)", "retrain-m", True),
        ("original-s", "Original (S)", "retrain-s", True),
        ("original-k", "Original (K)", "retrain-k", True),
        ("retrain-t", "Retrain (T)", None, False),
        ("retrain-m", "Retrain (M)", None, False),
        ("retrain-s", "Retrain (S)", None, False),
        ("retrain-k", "Retrain (K)", None, False),
        ("munkey", "MUNKEY", "retrain-m", False),
        ("sisa", "SISA", "retrain-s", False),
        ("l1-sparse", "ℓ₁-sparse", "retrain-t", False),
        ("knn", "KNN", "retrain-k", False),
    ]


def test_tables_can_read_the_rows():
    assert [Row(**row).name for row in small_exhibits().rows][6:] == ["knn", "cf", "ssd", "munkey"]


def test_a_figure_of_tokens_is_drawn_for_each_data_set():
    charts = ["forgetting", "tokens-digits", "tokens-cifar10"]
    two = small_exhibits(TWO)
    assert two.charts == charts
    assert two.figures == charts


def test_ranks_are_shown_where_there_are_seeds_and_methods_enough():
    five = {"seeds": [0, 1, 2, 3, 4], "methods": ["cf", "ssd", "munkey"]}
    assert small_exhibits(five).ranked
    assert "ranks" in small_exhibits(five).figures
    assert small_exhibits(TWO | {"seeds": [0, 1, 2]}).ranked  # on two data sets
    for too_few in ({"seeds": [0, 1, 2, 3]}, {"methods": ["cf", "munkey"]}):
        assert not small_exhibits(five | too_few).ranked
        assert "ranks" not in small_exhibits(five | too_few).figures


def test_the_trace_of_a_chart_is_of_the_first_seed():
    assert small_exhibits(TWO | {"seeds": [7, 0]}).find_chart_inputs("tokens-digits") == {
        "trace": "results/default/trace/digits/seed7.npz",
        "classes": "results/default/data/digits/classes.json",
    }


def test_the_summary_of_a_grid_names_seeds_rates_and_methods():
    summary = small_exhibits(TWO).grid_summary
    for part in ("0, 1", "digits 2%, 10%; cifar10 5%", "knn, cf, ssd, munkey"):
        assert part in summary


def test_designs_are_methods_by_how_they_forget_and_for_reference_oracles_of_what_is_not_exact():
    methods = ["munkey", "l1-sparse", "knn", "lda", "newton"]
    designs = [Design(**design) for design in small_exhibits({"methods": methods}).designs]
    assert [(design.name, design.kind) for design in designs] == [
        ("retrain-t", "anew"),
        ("retrain-m", "anew"),
        ("retrain-w", "anew"),
        ("munkey", "rows"),
        ("l1-sparse", "weights"),
        ("knn", "exact"),
        ("lda", "exact"),
        ("newton", "weights"),
    ]
    for oracle in designs[:3]:
        assert oracle.stored == "training set"


def find_tried(changes: dict[str, object]) -> dict[str, str]:
    """The text on the settings tried for each method of a small plan."""
    return {design["name"]: design["tried"] for design in small_exhibits(changes).designs}


def test_a_design_says_how_many_settings_were_tried_as_params_yaml_states():
    methods = ["munkey", "cf", "lda", "ncm"]
    stated = {"cf": "4 on digits", "lda": "9 on digits"}
    auto = {"alpha": "auto", "temperature": "auto"}
    tried = find_tried(
        {"methods": methods, "tried": stated, "lda": auto, "ncm": {"temperature": "auto"}}
    )
    assert tried == {
        "retrain-t": "–",
        "retrain-m": "–",
        "munkey": "–",
        "cf": "4 on digits",
        "lda": "9 on digits",  # not auto, because it is stated
        "ncm": "auto",
    }


def test_a_design_is_auto_only_if_it_is_for_all_data_sets():
    auto = {"alpha": "auto", "temperature": "auto"}
    fixed = {"alpha": 0.1, "temperature": 5.0}
    changes = {"methods": ["lda"], "tried": {}, "lda": auto}
    assert find_tried(changes)["lda"] == "auto"
    assert find_tried(changes | {"overrides": {"digits": {"lda": fixed}}})["lda"] == "–"
    changes["lda"] = fixed
    assert find_tried(changes | {"overrides": {"digits": {"lda": auto}}})["lda"] == "auto"


def test_a_search_counts_the_settings_that_it_tries():
    grid = {"lr_factor": [0.1, 0.5], "ssd.alpha": [1.0, 2.0, 3.0]}
    search = {"search": True, "search_grid": grid, "tried": {}}
    tried = find_tried({"methods": ["cf", "ssd", "knn"]} | search)
    assert tried["cf"] == "2, searched"
    assert tried["ssd"] == "3, searched"
    assert tried["knn"] == "–"
