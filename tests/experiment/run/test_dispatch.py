"""Files and params of a rule reach its function in the function's types; missing or double names are refused."""

import ast
from dataclasses import dataclass
from pathlib import Path

import pytest
from pydantic import ValidationError

from munkey.experiment.run.dispatch import Task, call, dump_settings, restore
from munkey.models.families.munkey import MunkeySettings
from munkey.settings import EncoderSettings, Section, Sections
from tests.experiment.inputs import small_plan

calls = []


def job(
    system: Path,
    halves: list[Path],
    seed: int,
    settings: EncoderSettings,
    device: str,
    drop: float | None = None,
):
    calls.append((system, halves, seed, settings, device, drop))


SETTINGS = {"encoder": "efficientnet-lite0", "revision": None, "image_size": 32, "batch_size": 64}


def task(**changed):
    parts = {
        "wildcards": {"seed": "3", "system": "munkey"},
        "inputs": {
            "system": "a/system.safetensors",
            "halves": ["a.csv", "b.csv"],
            "further": "c.csv",
        },
        "outputs": {"table": "t.csv"},
        "params": {"settings": SETTINGS, "code": "audit.audit 0123"},
    }
    return Task("my_rule", **parts | changed)


def test_a_function_gets_its_parameters_in_their_own_types():
    """A wildcard gives way to a file of its name; what the function does not name is left out."""
    calls.clear()
    call(job, task(), {"device": "cpu", "config": {}})
    settings = EncoderSettings(**SETTINGS)
    assert calls == [
        (Path("a/system.safetensors"), [Path("a.csv"), Path("b.csv")], 3, settings, "cpu", None)
    ]


@dataclass(frozen=True)
class Files:
    system: Path
    table: Path
    forget: Path | None = None


def job_of_records(files: Files, seed: int):
    calls.append((files, seed))


def test_a_record_gets_its_fields_in_their_own_types():
    calls.clear()
    call(job_of_records, task(), {})
    assert calls == [(Files(Path("a/system.safetensors"), Path("t.csv")), 3)]


def test_a_missing_field_is_named():
    with pytest.raises(TypeError, match=r"test_dispatch.job_of_records needs table"):
        call(job_of_records, task(outputs={}), {})


def test_missing_parameters_are_named_with_the_rule_and_the_function():
    with pytest.raises(
        TypeError,
        match=r"my_rule: .*test_dispatch.job needs halves, device; .* seed, settings",
    ):
        call(job, task(inputs={"system": "a"}), {})


def test_a_name_of_two_parts_of_a_rule_is_refused():
    with pytest.raises(TypeError, match=r"^rule my_rule: system "):
        call(job, task(outputs={"system": "b"}), {"device": "cpu"})


def test_a_value_that_does_not_fit_is_refused():
    with pytest.raises(ValidationError, match="seed"):
        call(job, task(wildcards={"seed": "first"}), {"device": "cpu"})


def test_sections_are_restored_from_their_text():
    """Snakemake keeps params as `repr` writes them, and tells by that whether they changed."""
    plan = small_plan()
    for case in ("digits", "digits/munkey.token_dim/32"):
        settings = plan.train_settings(case, "m") | plan.evaluate_settings(case, "knn")
        assert settings["inference"] == Section()
        assert type(settings["munkey"]) is MunkeySettings
        text = repr(dump_settings(settings))
        assert restore(ast.literal_eval(text)) == settings


def test_a_value_that_is_no_section_is_passed_unchanged():
    config = {"scenarios": {"class": None, "three": {"names": ["3"]}}, "seeds": [0, 1]}
    assert restore(dump_settings(config)) == config


def test_a_section_that_a_rule_hands_over_itself_is_refused():
    """Snakemake notices no change of an object: such a job would never run again."""
    with pytest.raises(TypeError, match=r"EncoderSettings .* dump_settings\(\.\.\.\)"):
        call(job_of_sections, task(params={"settings": {"keys": EncoderSettings(**SETTINGS)}}), {})


def job_of_sections(settings: Sections):
    calls.append(settings)


def test_a_job_gets_its_sections_in_their_own_types_and_checks_them_once():
    calls.clear()
    settings = small_plan().train_settings("digits", "m")
    call(job_of_sections, task(params={"settings": dump_settings(settings)}), {})
    assert calls == [settings]
    faulty = dump_settings(settings)
    faulty["munkey"] = dump_settings(settings["munkey"]) | {"p_token": 2.0}
    with pytest.raises(ValidationError, match=r"p_token\n.*less than or equal to 1"):
        call(job_of_sections, task(params={"settings": faulty}), {})
