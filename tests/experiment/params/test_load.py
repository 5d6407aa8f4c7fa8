"""Wrong parameters are refused before any job starts, in words that name the key, its value and what is allowed."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from munkey.core.files import write_json
from munkey.data.registry import DATASETS
from munkey.experiment.params.load import (
    ParamsError,
    from_command_line,
    load,
    memory_family,
    rate_name,
    read_file,
    read_params,
    refusals,
)
from munkey.experiment.params.overlays import merge
from munkey.models.family import FAMILIES
from munkey.unlearn.contract import METHODS, method
from tests.conftest import ROOT, changed

PRESETS = sorted((ROOT / "workflow/presets").glob("*.yaml"))


def test_the_projects_parameters_are_valid(config):
    assert load(config).model_dump() == config


@pytest.mark.parametrize("preset", PRESETS, ids=lambda path: path.stem)
def test_every_preset_is_valid(config, preset, tmp_path, monkeypatch):
    overlay = yaml.safe_load(preset.read_text())
    monkeypatch.chdir(tmp_path)
    if path := overlay.get("source", {}).get("path"):
        (tmp_path / path).mkdir(parents=True)
    if "model" in overlay.get("pretrained", {}):
        write_json(
            tmp_path / overlay["pretrained"]["model"] / "config.json",
            {"architecture": "vit_tiny_patch16_224"},
        )
    load(merge(config, overlay))


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        # unknown names
        ("trian", {}, ["trian = {}", "unknown key", "did you mean 'train'", "datasets"]),
        (
            "train.learning_rate",
            0.1,
            ["train.learning_rate = 0.1", "unknown key", "epochs, batch_size, lr"],
        ),
        (
            "search_grid",
            {"cf.rate": [0.1]},
            ["search_grid", "unknown key 'cf.rate'", "cf.lr_factor"],
        ),
        (
            "search_grid",
            {"amun.stride": [0.1, 2.0]},
            ["search_grid: amun", "stride = 2.0", "less than or equal to 1"],
        ),
        ("unlearn.cf.momentum", 0.9, ["unlearn.cf.momentum = 0.9", "unknown key", "lr_factor"]),
        ("unlearn.nosuch", {}, ["unlearn.nosuch = {}", "unknown key", "cf", "munkey"]),
        ("methods", ["nosuch"], ["methods", "unknown method 'nosuch'", "cf", "munkey"]),
        ("datasets", ["nosuch"], ["datasets", "unknown data set 'nosuch'", "digits"]),
        ("keys.encoder", "nosuch", ["keys", "unknown encoder 'nosuch'", "efficientnet-lite0"]),
        ("overrides.nosuch", {}, ["overrides", "unknown data set 'nosuch'", "digits"]),
        ("overrides.digits.trian", {"lr": 0.1}, ["overrides.digits.trian", "unknown key", "train"]),
        ("overrides.digits.seeds", [1], ["overrides.digits.seeds = [1]", "unknown key", "train"]),
        (
            "overrides.digits.train.lrr",
            0.1,
            ["overrides.digits.train.lrr = 0.1", "unknown key", "did you mean 'lr'"],
        ),
        (
            "overrides.digits.unlearn.cf.rl",
            1.0,
            ["overrides.digits.unlearn.cf.rl = 1.0", "unknown key", "lr_factor"],
        ),
        (
            "overrides.digits.ablations",
            {"inference.k": 3},
            ["overrides.digits.ablations.inference.k = 3", "list"],
        ),
        (
            "overrides.digits.ablations",
            {"inference.k": [99]},
            ["inference.k/99", "at most keys.depth"],
        ),
        (
            "overrides.digits.unlearn.nosuch",
            {},
            ["overrides.digits.unlearn.nosuch", "unknown key", "cf"],
        ),
        (
            "inference.fusion",
            "mean",
            ["inference.fusion = 'mean'", "'ensemble'", "'softmax'", "'rank'"],
        ),
        (
            "forget.sampling",
            "random",
            ["forget.sampling = 'random'", "'stratified', 'uniform', 'class'"],
        ),
        ("device", "tpu", ["device = 'tpu'", "'auto'", "'cpu'", "'cuda'"]),
        (
            "ablations",
            {"inference.k": [1, 4, 1]},
            ["ablations.inference.k = ['1', '4', '1']", "listed only once"],
        ),
        ("audit.relearn.steps", [1, 2], ["steps = [1, 2]", "start with 0"]),
        ("audit.relearn.steps", [0, 5, 2], ["steps = [0, 5, 2]", "ascend"]),
        ("audit.relearn.steps", [0, 2, 2], ["steps = [0, 2, 2]", "ascend"]),
        ("train.precision", "half", ["train.precision = 'half'", "'bfloat16'"]),
        # wrong types
        ("train.epochs", "ten", ["train.epochs = 'ten'", "integer"]),
        ("train.epochs", "3", ["train.epochs = '3'", "integer"]),
        ("train.epochs", 1.5, ["train.epochs = 1.5", "integer"]),
        ("train.epochs", True, ["train.epochs = True", "integer"]),
        ("train.lr", "1e-3", ["train.lr = '1e-3'", "number", "write 1.0e-3"]),
        (
            "source.only",
            [True, "no"],
            ["source.only.0 = True: must be a valid string", "quotes", "!!str yes"],
        ),
        ("train.betas", 0.9, ["train.betas = 0.9", "list"]),
        ("train", None, ["train = None", "must be a section (write {KEY: VALUE})"]),
        ("datasets", "digits", ["datasets = 'digits'", "list", "(write [digits])"]),
        ("scenarios", 3, ["scenarios = 3", "must be a section (write {KEY: VALUE})"]),
        (
            "overrides.digits.train",
            3,
            ["overrides.digits.train = 3", "must be a section (write {KEY: VALUE})"],
        ),
        ("unlearn.cf", 3, ["unlearn.cf = 3", "must be a section (write {KEY: VALUE})"]),
        # values out of range
        ("forget.rates", [0.0], ["forget.rates.0 = 0.0", "greater than 0"]),
        ("forget.rates", [0.1, 1.0], ["forget.rates.1 = 1.0", "less than 1"]),
        ("forget.rates", [-0.1], ["forget.rates.0 = -0.1", "greater than 0"]),
        ("forget.rates", [], ["forget.rates = []", "at least 1"]),
        ("forget.rates", [0.1, 0.1], ["rates = [0.1, 0.1]", "once"]),
        ("munkey.p_token", 0.8, ["munkey", "p_image + p_token = 0.3 + 0.8", "at most 1"]),
        ("munkey.p_retrieve", 1.1, ["munkey.p_retrieve = 1.1", "less than or equal to 1"]),
        ("munkey.p_image", float("nan"), ["munkey.p_image = nan"]),
        ("munkey.neighbors", [5, 2], ["neighbors = [5, 2]", "low <= high"]),
        ("munkey.neighbors", [0, 2], ["munkey.neighbors.0 = 0", "greater than or equal to 1"]),
        ("munkey.neighbors", [2, 33], ["munkey.neighbors = 33", "less than keys.depth = 33"]),
        ("inference.k", 34, ["inference.k = 34", "at most keys.depth = 33"]),
        ("source.split", [0.5, 0.2, 0.2], ["split = [0.5, 0.2, 0.2]", "must sum to 1"]),
        (
            "forget.sampling",
            "relied-on",
            ["names = null", "sampling = relied-on needs"],
        ),
        (
            "scenarios",
            {"x": {"sampling": "known"}},
            ["scenarios.x", "names = null", "sampling = known needs"],
        ),
        (
            "source.limit_per_class",
            1,
            ["source.limit_per_class = 1", "forgetting 0.1", "leave a class empty"],
        ),
        (
            "inference.temperature",
            0.0,
            ["inference.temperature = 0.0", "greater than or equal to 0.000000000001"],
        ),
        ("train.lr", float("inf"), ["train.lr = inf", "finite"]),
        ("train.betas", [0.9, 1.0], ["train.betas.1 = 1.0", "less than 1"]),
        ("train.betas", [0.9], ["train.betas = [0.9]", "at least 2"]),
        ("train.crop_scale", [0.5, 1.5], ["crop_scale = [0.5, 1.5]", "high <= 1"]),
        ("train.crop_ratio", [2.0, 1.0], ["crop_ratio = [2.0, 1.0]", "low <= high"]),
        ("train.warmup_epochs", 40, ["warmup_epochs = 40", "below epochs = 40"]),
        ("model.heads", 5, ["width = 64", "multiple of heads = 5"]),
        ("lookup", {"approximate_from": 100_000}, ["lookup = ", "unknown key"]),
        ("data.image_size", 18, ["data.image_size = 18", "multiple of model.patch_size = 4"]),
        ("sisa.shards", 0, ["sisa.shards = 0", "greater than or equal to 1"]),
        ("sisa.slice", 2, ["sisa.slice = 2", "unknown key", "did you mean 'slices'"]),
        ("unlearn.sisa.slices", 2, ["unlearn.sisa.slices = 2", "unknown key"]),
        ("seeds", [-1], ["seeds.0 = -1", "greater than or equal to 0"]),
        ("seeds", [1, 1], ["seeds = [1, 1]", "once"]),
        ("seeds", [], ["seeds = []", "at least 1"]),
        ("threads", 0, ["threads = 0", "greater than or equal to 1"]),
        (
            "unlearn.cf.lr_factor",
            0.0,
            ["unlearn.cf.lr_factor = 0.0", "greater than or equal to 0.000000000001"],
        ),
        # numbers and sizes that cannot be
        ("data.pixel_mean", float("inf"), ["data.pixel_mean = inf", "finite"]),
        ("overrides.digits.train.lr", float("nan"), ["overrides.digits.train.lr = nan", "finite"]),
        (
            "ablations",
            {"train.lr": [0.1, float("nan")]},
            ["ablations: train.lr/nan: train.lr = nan", "finite"],
        ),
        (
            "data.pixel_mean",
            2**64,
            ["data.pixel_mean = 18446744073709551616", "must be between -9223372036854775807 and"],
        ),
        (
            "ablations",
            {"data.pixel_mean": [2**63]},
            ["ablations.data.pixel_mean.0 = 9223372036854775808", "must be between"],
        ),
        (
            "search_grid",
            {"lr_factor": [float("-inf")]},
            ["search_grid: cf: lr_factor = -inf", "finite"],
        ),
        ("selection.p_image", [0.1, float("nan")], ["selection.p_image.1 = nan", "finite"]),
        ("selection.p_image", [0.01 * i for i in range(21)], ["selection.p_image", "at most 20"]),
        (
            "keys.depth",
            10**18,
            ["keys.depth = 1000000000000000000", "less than or equal to 1000000"],
        ),
        ("data.image_size", 2**20, ["data.image_size = 1048576", "less than or equal to 4096"]),
        ("model.width", 2**40, ["model.width = 1099511627776", "less than or equal to 65536"]),
        ("model.depth", 10**9, ["model.depth = 1000000000", "less than or equal to 1000"]),
        ("model.mlp_ratio", 1e300, ["model.mlp_ratio = 1e+300", "less than or equal to 100"]),
        ("sisa.shards", 10**6, ["sisa.shards = 1000000", "less than or equal to 1000"]),
        ("munkey.token_dim", 10**6, ["munkey.token_dim = 1000000", "less than or equal to 65536"]),
        ("threads", 10**6, ["threads = 1000000", "less than or equal to 1000"]),
        ("seeds", [2**32], ["seeds.0 = 4294967296", "less than 4294967296"]),
        (
            "overrides.digits.keys.depth",
            10**18,
            ["overrides.digits.keys.depth", "less than or equal to 1000000"],
        ),
        ("train.x", "y" * 10**6, ["train.x = 'yyy", "unknown key"]),
        ("overrides", {3: {}}, ["overrides.3", "string"]),
        (
            "overrides.digits.inference.k",
            99,
            ["overrides.digits", "inference.k = 99", "at most keys.depth"],
        ),
    ],
)
def test_a_fault_is_refused_by_key_value_and_what_is_allowed(config, path, value, words):
    with pytest.raises(ParamsError) as refused:
        load(changed(config, path, value))
    for part in words:
        assert part in str(refused.value)


@pytest.mark.parametrize(
    "path",
    ["seeds", "train", "train.lr", "sisa", "munkey.p_drop", "unlearn.cf.lr_factor", "tracking.uri"],
)
def test_a_missing_key_is_named(config, path):
    *parents, last = path.split(".")
    section = config
    for name in parents:
        section = section[name]
    del section[last]
    with pytest.raises(ParamsError, match=rf"- {path}: missing"):
        load(config)


@pytest.mark.parametrize(("head", "shrinkage"), [("lda", "alpha"), ("krr", "lam")])
def test_a_head_whose_shrinkage_would_change_with_a_deletion_is_refused_before_any_job(
    config, head, shrinkage
):
    with_auto = changed(config, f"{head}.{shrinkage}", "auto")
    load(with_auto)  # alone, the head may
    with pytest.raises(ParamsError, match=rf"needs a number for {head}\.{shrinkage}"):
        load(changed(with_auto, "munkey.head", head))


def test_a_listed_method_without_its_section_is_refused(config):
    del config["unlearn"]["cf"]
    with pytest.raises(ParamsError, match=r"no section unlearn\.cf"):
        load(config)


def test_all_faults_are_listed_at_once(config):
    faulty = changed(changed(config, "train.epochs", 0), "munkey.token_dim", "many")
    with pytest.raises(ParamsError) as refused:
        load(faulty)
    assert "train.epochs = 0" in str(refused.value)
    assert "munkey.token_dim = 'many'" in str(refused.value)


def test_a_fault_is_listed_once_however_many_data_sets_share_it(config):
    with pytest.raises(ParamsError) as refused:
        load(changed(config | {"datasets": ["digits", "cifar10"]}, "unlearn.cf.lr_factor", -1.0))
    assert str(refused.value).count("lr_factor") == 1


@pytest.mark.parametrize(("path", "value"), [("inference.k", 33), ("munkey.neighbors", [2, 32])])
def test_as_many_neighbors_can_be_read_as_are_looked_up(config, path, value):
    load(changed(changed(config, "keys.depth", 33), path, value))


def test_whole_numbers_are_numbers(config):
    assert load(changed(config, "train.lr", 1)).train.lr == 1.0


def test_parameters_that_were_checked_cannot_be_changed(config):
    params = load(config)
    with pytest.raises(ValidationError, match="frozen"):
        params.train.lr = 1.0


def test_an_override_changes_the_named_keys_of_its_data_set_alone(config):
    overridden = changed(config, "overrides.digits.train", {"lr": 0.5, "betas": [0.1, 0.2]})
    params = load(overridden)
    expected = params.train.model_dump() | {"lr": 0.5, "betas": [0.1, 0.2]}
    assert params.for_case("digits").train.model_dump() == expected
    assert params.train.lr == config["train"]["lr"]
    assert params.for_case("digits").model.model_dump() == config["model"]


def test_a_data_set_needs_a_sample_for_each_neighbor_that_remains_after_forgetting(config):
    config["keys"]["depth"] = 40
    config["overrides"] = {"digits": {"forget": {"rates": [0.1, 0.2]}}}
    assert load(config).for_case("digits").least_samples == 50  # 0.8 of them are 40


@given(st.floats(0, 1, exclude_min=True, exclude_max=True))
def test_a_rates_name_is_that_rate_and_no_other(rate):
    assert float(rate_name(rate)) == rate


def test_a_rate_is_named_as_in_the_paper():
    assert [rate_name(rate) for rate in (0.10, 0.02)] == ["0.1", "0.02"]


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("amun.steps", [10, 50]),
        ("l1-sparse.schedule", ["constant", "linear"]),
        ("amun.keep_forget", [True, False]),
    ],
)
def test_switches_names_and_counts_can_be_searched(config, key, values):
    params = load(config | {"search_grid": {key: values}, "search": True})
    method, name = key.split(".")
    candidates = params.candidates("digits", method)
    assert [getattr(candidate, name) for candidate in candidates] == values


@pytest.mark.parametrize("name", ["default", "a", "2026-11_b.c"])
def test_a_configuration_has_a_name(config, name):
    assert load(config | {"name": name}).name == name


@pytest.mark.parametrize(
    "name", ["", ".hidden", "..", "-x", "a/b", "a b", "ä", "a\n", "x" * 101, 3, None]
)
def test_a_name_that_no_folder_can_have_is_refused(config, name):
    with pytest.raises(ParamsError, match="name = "):
        load(config | {"name": name})


def test_a_data_set_of_the_user_has_a_name_and_a_reader(config, tmp_path):
    (tmp_path / "cells.npz").touch()
    overrides = {
        "pets": {"source": {"reader": "imagefolder", "path": str(tmp_path)}},
        "cells": {
            "source": {
                "reader": "npz",
                "path": str(tmp_path / "cells.npz"),
                "classes": ["healthy", "infected"],
            }
        },
        "not-listed": {"source": {"reader": "idx"}},
    }
    params = load(config | {"datasets": ["pets", "digits", "cells"], "overrides": overrides})
    readers = [params.reader(name).name for name in params.datasets]
    assert readers == ["imagefolder", "digits", "npz"]


def test_a_reader_of_the_shared_section_reads_every_data_set(config, tmp_path):
    source = config["source"] | {"reader": "imagefolder", "path": str(tmp_path)}
    params = load(config | {"datasets": ["pets", "imagefolder"], "source": source})
    assert {params.reader(name).name for name in params.datasets} == {"imagefolder"}


@pytest.mark.parametrize(
    ("datasets", "overrides", "words"),
    [
        (
            ["pets"],
            {},
            [
                "unknown data set 'pets'",
                "overrides.pets.source.reader",
                "csv, idx, imagefolder, npz",
            ],
        ),
        (
            ["pets"],
            {"pets": {"source": {"reader": "digits"}}},
            ["reader = 'digits'", "csv, idx, imagefolder, npz"],
        ),
        (
            ["pets"],
            {"pets": {"source": {"reader": "folder"}}},
            ["overrides.pets.source.reader = 'folder'"],
        ),
        (
            ["pets"],
            {"pets": {"source": {"reader": "npz"}}},
            ["source.path = None", "pets reads your own files"],
        ),
        (["digits"], {"digits": {"source": {"reader": "npz"}}}, ["digits has its own reader"]),
        (["a b"], {"a b": {"source": {"reader": "npz"}}}, ["'a b'", "letters, digits"]),
        (["../x"], {"../x": {"source": {"reader": "npz"}}}, ["'../x'", "letters, digits"]),
        (["2024"], {"2024": {"source": {"reader": "npz"}}}, ["'2024'", "begin with a letter"]),
        (["NA"], {"NA": {"source": {"reader": "npz"}}}, ["'NA'", "as text"]),
        (
            ["digits"],
            {"digits": {"source": {"classes": ["a", "a"]}}},
            ["classes = ['a', 'a']", "once"],
        ),
    ],
)
def test_a_data_set_without_a_fitting_reader_is_refused(config, datasets, overrides, words):
    with pytest.raises(ParamsError) as refused:
        load(config | {"datasets": datasets, "overrides": overrides})
    for part in words:
        assert part in str(refused.value)


def test_an_override_of_an_unlisted_data_set_is_refused(config, tmp_path):
    source = config["source"] | {"reader": "imagefolder", "path": str(tmp_path)}
    overrides = {"pest": {"train": {"epochs": 3}}}
    with pytest.raises(ParamsError, match="unknown data set 'pest'"):
        load(config | {"datasets": ["pets"], "source": source, "overrides": overrides})


@pytest.mark.parametrize(
    ("registry", "name", "unused", "used"),
    [
        (METHODS, "mine", {"unlearn.mine": {"x": 1}}, {"methods": ["mine"]}),
        (FAMILIES, "mine", {"mine": {"x": 1}}, {}),
        (DATASETS, "mine", {"overrides.mine": {"train": {"epochs": 3}}}, {"datasets": ["mine"]}),
    ],
)
def test_a_refused_plug_in_is_named_only_where_the_experiment_uses_it(
    config, monkeypatch, registry, name, unused, used
):
    monkeypatch.setitem(registry.refusals, name, "a/mine.py, line 3: why")
    assert refusals() == ["a/mine.py, line 3: why"]
    for key, value in unused.items():
        config = changed(config, key, value)
    load(config)
    if used:
        with pytest.raises(ParamsError, match=r"'mine'.*a/mine\.py, line 3: why"):
            load(config | used)


def test_without_a_family_with_a_memory_its_refused_plug_in_is_named(monkeypatch):
    monkeypatch.setattr(FAMILIES, "_entries", {})
    monkeypatch.setitem(FAMILIES.refusals, "munkey", "families/munkey.py, line 3: why")
    with pytest.raises(ParamsError, match=r"families/munkey\.py, line 3: why"):
        memory_family()


def test_a_methods_settings_are_a_section():
    with pytest.raises(TypeError, match="method 'x': settings must be"):
        method("x", title="", description="", family="vit", settings=dict)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"# seeds: [0]\n", "is empty"),
        pytest.param(b"a: " + b"[" * 20_000, "is nested too deeply", id="lists"),
        pytest.param(b"a: " + b"{b: " * 2000 + b"}" * 2000, "is nested too deeply", id="mappings"),
        (b"- a\n- b\n", "must contain keys"),
        (b"seeds: [0]\n\x9f\x92", "line 2 is not UTF-8 text"),
        (b"a: [1\nb: }", "line 2"),
        (b"a: 2026-11-32", "day is out of range"),
        (
            b"seeds: [0]\ntrain: {lr: 1.0}\nseeds: [1]\n",
            "'seeds' is set on line 1 and again on line 3",
        ),
        (b"train:\n  lr: 1.0\n  'lr': 2.0\n", "'lr' is set on line 2 and again on line 3"),
        (
            b"seeds: [010]",
            "line 1: YAML reads 010 as 8",
        ),
        (b"x: 1\nnames: [-007]", "line 2: YAML reads -007 as -7"),
        (b"p: {001: 2}", "YAML reads 001 as 1"),
        (b"a: [1:30]", "YAML reads 1:30 as 90, "),
        (b"a: 1:30.5", "YAML reads 1:30.5 as 90.5"),
        (b"a: [{b: 1, c: 2, b: 3}]", "'b' is set on line 1 and again on line 1"),
    ],
)
def test_a_damaged_file_of_parameters_is_refused_in_one_line(tmp_path, content, words):
    (tmp_path / "x.yaml").write_bytes(content)
    with pytest.raises(ParamsError) as refused:
        read_params([], tmp_path / "x.yaml")
    message = str(refused.value)
    assert message.startswith(f"{tmp_path / 'x.yaml'}: ")
    assert words in message
    assert "\n" not in message


def test_a_missing_overlay_is_refused_by_its_path(tmp_path):
    with pytest.raises(ParamsError, match=r"typo\.yaml: cannot be read \(No such"):
        read_params([tmp_path / "typo.yaml"], ROOT / "params.yaml")


def test_messages_stay_short(config):
    with pytest.raises(ParamsError) as refused:
        load(config | {"x": ["y" * 10**6] * 1000, "seeds": list(range(900)) * 2})
    assert len(str(refused.value)) < 3000


def test_a_case_shares_the_sections_that_it_does_not_change(config):
    """Each section is checked once: a data set and its cases hand on the very objects that the whole holds."""
    params = load(changed(config, "overrides", {"digits": {"train": {"lr": 0.5}}}))
    of_dataset = params.for_case("digits")
    of_case = params.for_case("digits/p_drop/0.0_0.0")
    assert of_dataset.train.lr == 0.5
    assert of_dataset.munkey is params.munkey
    assert of_case.munkey.p_token == 0.0
    assert of_case.train is of_dataset.train


@pytest.mark.parametrize(
    ("argument", "key", "value"),
    [
        ("inference={k: 2}", "inference.k", 2),
        ("inference={'k': 2}", "inference.k", 2),
        ("seeds=[0, 1]", "seeds", [0, 1]),
        ("forget={rates: [0.2]}", "forget.rates", [0.2]),
    ],
)
def test_values_of_the_command_line_have_their_types_in_lists_and_mappings(
    config, argument, key, value
):
    """The failure: `--config inference='{"k": 2}'` was refused, as Snakemake reads each number in it as text."""
    name, _, text = argument.partition("=")
    value_of_snakemake = yaml.load(text, yaml.BaseLoader)  # each number in it is text
    merged = merge(config, {name: value_of_snakemake})
    with pytest.raises(ParamsError, match="must be a valid"):
        load(merged)
    params = from_command_line(merged, [argument])
    load(params)
    section, _, rest = key.partition(".")
    parsed = params[section][rest] if rest else params[section]
    assert parsed == value
    assert params["munkey"] == config["munkey"]


def test_a_quoted_number_of_the_command_line_stays_a_name(config):
    argument = "scenarios={seven: {sampling: class, names: ['7'], rates: [0.1]}}"
    merged = merge(config, yaml.load(argument.replace("=", ": ", 1), yaml.BaseLoader))
    params = load(from_command_line(merged, [argument]))
    assert params.for_case("digits/scenario/seven").forget.names == ["7"]


@pytest.mark.parametrize("argument", ["seeds=[010]", "threads=010", "audit={pairs: 1:30}"])
def test_numbers_of_the_command_line_are_decimal(argument, config):
    key, _, _ = argument.partition("=")
    with pytest.raises(ParamsError, match=rf"--config {key}: .*YAML reads"):
        from_command_line(config, [argument])


def test_ordinary_numbers_stay_what_they_are(tmp_path):
    path = tmp_path / "x.yaml"
    path.write_text("a: [0, -12, 1_000, 0x10, 0.5, -0.10, 1.0e-3, 00.5, '010', '1:30']")
    values = [0, -12, 1000, 16, 0.5, -0.1, 0.001, 0.5, "010", "1:30"]
    assert read_file(path) == {"a": values}
