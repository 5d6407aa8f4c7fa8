"""The contract of all unlearning methods at once, through the registry, on a tiny real experiment."""

import json
import random
import subprocess
import sys
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from munkey.params import load
from munkey.system import System
from munkey.unlearn import METHODS, Settings, method
from tests.unlearn_setup import (
    EPOCHS,
    PARAMS,
    PROJECT,
    original,
    recorded,
    request,
    same,
    settings,
    tensors,
    unlearn,
    world,
)

ALL_NEEDS = frozenset(f"{part} {kind}" for part in ("forget", "retain", "val") for kind in ("images", "labels"))
WITH_DATA = [name for name in METHODS if METHODS[name].needs]
FINETUNED = [name for name in WITH_DATA if name not in ("ssd", "sisa")]  # what draws from the request's generator


class Untouchable:
    """Raises whatever is done with it."""

    def _touched(self, *_: object) -> None:
        raise AssertionError("a method reached for data that it does not declare")

    __getitem__ = __len__ = __iter__ = __array__ = _touched


def state(system: System) -> list[object]:
    """Everything of a system that a method could change: bytes of all tensors, flags, gradients, mode."""
    found: list[object] = [(name, tensor.detach().numpy().tobytes()) for name, tensor in tensors(system).items()]
    if system.model is not None:
        found += [(name, p.requires_grad, p.grad) for name, p in system.model.named_parameters()]
        found += [(name, module.training) for name, module in system.model.named_modules()]
    return found


def global_states() -> list[object]:
    return [torch.get_rng_state().numpy().tobytes(), repr(np.random.get_state()), random.getstate()]  # noqa: NPY002


def run_all(names: list[str], noise: int) -> dict[str, tuple[dict[str, torch.Tensor], list[object], list[object]]]:
    """Results of the methods run in this order, with the global generators in a state of their own."""
    random.seed(noise)
    np.random.seed(noise)  # noqa: NPY002
    torch.manual_seed(noise)
    done = {}
    for name in names:
        before = global_states()
        system, _ = unlearn(name)
        done[name] = tensors(system), before, global_states()
    return done


@cache
def two_orders() -> tuple[dict, dict]:
    return run_all(list(METHODS), noise=1), run_all(list(METHODS)[::-1], noise=2)


@pytest.mark.parametrize("name", METHODS)
def test_the_original_and_the_data_are_left_as_they_were(name: str) -> None:
    def data() -> list[bytes]:
        return [array.tobytes() for part in world().parts.values() for array in (part.rows, part.ids, part.labels)]

    before = state(original(name)), data()
    unlearn(name)
    assert (state(original(name)), data()) == before
    assert not world().dataset.images.flags.writeable


@pytest.mark.parametrize("name", METHODS)
def test_the_result_shares_no_storage_with_the_original(name: str) -> None:
    system, _ = unlearn(name)
    given = {tensor.untyped_storage().data_ptr() for tensor in tensors(original(name)).values()}
    assert not given & {tensor.untyped_storage().data_ptr() for tensor in tensors(system).values()}
    assert system.kind == original(name).kind
    assert tensors(system).keys() == tensors(original(name)).keys()


@pytest.mark.parametrize("name", METHODS)
def test_a_seed_gives_the_same_bytes_in_any_order_and_under_any_global_generator(name: str) -> None:
    forwards, backwards = two_orders()
    assert same(forwards[name][0], backwards[name][0])


@pytest.mark.parametrize("name", METHODS)
def test_global_generators_are_left_alone(name: str) -> None:
    for order in two_orders():
        _, before, after = order[name]
        assert after == before


@pytest.mark.parametrize("name", FINETUNED)
def test_another_seed_gives_another_result(name: str) -> None:
    assert not same(tensors(unlearn(name, seed=0)[0]), tensors(unlearn(name, seed=1)[0]))


@pytest.mark.parametrize("name", METHODS)
def test_only_declared_data_is_touched(name: str) -> None:
    data = {
        part: replace(
            samples,
            **{kind: Untouchable() for kind in ("images", "labels") if f"{part} {kind}" not in METHODS[name].needs},
        )
        for part, samples in world().parts.items()
    }
    freely, _ = unlearn(name, needs=ALL_NEEDS, data=data)
    assert same(tensors(freely), tensors(unlearn(name)[0]))


@pytest.mark.parametrize(("name", "need"), [(name, need) for name in METHODS for need in sorted(METHODS[name].needs)])
def test_all_that_is_declared_is_needed_and_guarded(name: str, need: str) -> None:
    with pytest.raises(PermissionError, match=need.split(maxsplit=1)[0]):
        unlearn(name, needs=METHODS[name].needs - {need})


def test_images_can_be_had_without_their_labels() -> None:
    forget = request("cf", needs=frozenset({"forget images"})).forget
    assert forget.images[forget.rows].shape == (13, 8, 8, 3)
    for reach in (
        lambda: forget.labels[0],
        lambda: np.asarray(forget.labels),
        lambda: forget.batch(torch.arange(2), "cpu"),
    ):
        with pytest.raises(PermissionError, match="forget labels"):
            reach()


@pytest.mark.parametrize("name", [name for name in WITH_DATA if name != "sisa"])
def test_every_sample_takes_its_turn_and_no_last_batch_is_dropped(name: str) -> None:
    passes = {  # over the retain, the forget and the validation set
        "neggrad-plus": (EPOCHS, None, 0),
        "amnesiac": (EPOCHS, EPOCHS, 0),
        "scrub": (EPOCHS, EPOCHS + EPOCHS, EPOCHS),  # the second: to find the epoch to rewind to
        "ssd": (1, 2, 0),
        "amun": (EPOCHS, 1, 0),
        "salun": (EPOCHS, 1 + EPOCHS, 0),
        "bad-teacher": (EPOCHS, EPOCHS, 0),
    }.get(name, (EPOCHS, 0, 0))
    data, logs = recorded()
    unlearn(name, data=data, changed={"retain_share": 1.0} if name == "bad-teacher" else {})
    for (part, batches), times in zip(logs.items(), passes, strict=True):
        if times is not None:
            drawn = np.concatenate([*batches, np.array([], dtype=int)])
            assert np.array_equal(np.sort(drawn), np.repeat(data[part].ids, times))


@pytest.mark.parametrize("name", METHODS)
def test_the_result_is_ready_for_use(name: str) -> None:
    model = unlearn(name)[0].model
    if model is not None:
        assert not any(module.training for module in model.modules())
        assert all(parameter.requires_grad and parameter.grad is None for parameter in model.parameters())


@pytest.mark.parametrize("name", [name for name in WITH_DATA if name != "sisa"])
def test_a_frozen_parameter_stays_frozen_and_bit_identical(name: str) -> None:
    given = original(name)
    frozen = replace(given, model=given.copy_of_model())
    frozen.model.pos_embed.requires_grad_(False)
    changed = METHODS[name].run(frozen, request(name), settings(name)).model
    assert torch.equal(changed.pos_embed, given.model.pos_embed)
    assert [p.requires_grad for p in changed.parameters()] == [p.requires_grad for p in frozen.model.parameters()]


@pytest.mark.parametrize("name", METHODS)
def test_what_is_reported_fits_into_a_record(name: str) -> None:
    _, asked = unlearn(name)
    json.dumps([asked.history, asked.facts], allow_nan=False)
    if name != "sisa":
        assert [entry["epoch"] for entry in asked.history] == (list(range(1, EPOCHS + 1)) if name in FINETUNED else [])
    assert all({"loss", "accuracy", "lr", "seconds"} <= entry.keys() for entry in asked.history)


@pytest.mark.parametrize("name", ["munkey", "knn"])
def test_deletion_drops_rows_and_changes_nothing_else(name: str) -> None:
    before, after = tensors(original(name)), tensors(unlearn(name)[0])
    kept = ~np.isin(before["memory.ids"].numpy(), world().forget_ids)
    assert kept.sum() == 60
    for tensor in before:
        expected = before[tensor][kept] if tensor.startswith("memory.") else before[tensor]
        assert torch.equal(after[tensor], expected)


@pytest.mark.parametrize("name", METHODS)
def test_every_knob_stands_in_the_methods_own_section(name: str) -> None:
    section, fields = PARAMS["unlearn"][name], METHODS[name].settings.model_fields
    assert section.keys() == fields.keys()
    assert all(field.is_required() for field in fields.values())
    with pytest.raises(ValidationError, match="Extra inputs"):
        METHODS[name].settings(**section, surprise=1)
    load(PARAMS | {"methods": [name]})


@pytest.mark.parametrize("name", METHODS)
def test_every_method_says_where_it_comes_from(name: str) -> None:
    entry = METHODS[name]
    assert entry.title and entry.latex_title and entry.description and entry.citation
    assert entry.latex_title.isascii()
    assert entry.run.__module__ == f"munkey.unlearn.{name.replace('-', '_')}"
    page = (PROJECT / "docs" / "methods" / f"{name}.md").read_text()
    assert page.startswith(f"# {entry.title}\n")


def test_the_paper_has_nine_baselines_knn_and_munkey() -> None:
    beyond = {name for name in METHODS if not METHODS[name].in_paper}
    assert {"salun", "bad-teacher", "sisa"} <= beyond
    assert set(METHODS) - beyond == {
        *("cf", "cf-k", "eu-k", "l1-sparse", "neggrad-plus", "amnesiac", "scrub", "ssd", "amun"),
        *("knn", "munkey"),
    }
    assert len({METHODS[name].title for name in METHODS}) == len(METHODS)


def test_a_name_is_registered_once_and_an_unknown_one_lists_the_valid_ones() -> None:
    again = method("cf", title="", description="", citation="", base="vit", oracle=None, settings=Settings)
    with pytest.raises(ValueError, match="registered twice"):
        again(lambda system, *_: system)
    with pytest.raises(KeyError, match="neggrad-plus"):
        METHODS["negrad"]


def test_planning_imports_nothing_heavy() -> None:
    code = "import sys, munkey.unlearn; print(sorted({'torch', 'timm', 'sklearn', 'faiss'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
