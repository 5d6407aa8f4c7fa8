"""The contract of all unlearning methods at once, through the registry, on a tiny real experiment."""

import json
import random
from dataclasses import dataclass, field, replace
from functools import cache
from typing import NamedTuple

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from munkey.data.augment import Augmentation
from munkey.experiment.params.load import ParamsError, load
from munkey.models.family import System
from munkey.report.tables.markup import escape_latex
from munkey.settings import DataSettings, FinetuneSettings, Section
from munkey.unlearn import prepare
from munkey.unlearn.contract import METHODS, Images, Tuning, TuningSettings, method
from tests.pages import block
from tests.unlearn.world import (
    CROPS,
    EPOCHS,
    PARAMS,
    PROJECT,
    TRAIN,
    Tensors,
    column,
    make_request,
    original,
    recipe,
    recorded,
    same,
    settings,
    tensors,
    tuning,
    unlearn,
    whole,
    world,
)

ALL_NEEDS = frozenset(
    [
        *("forget images", "retain images", "val images"),
        *("forget labels", "retain labels", "val labels"),
    ]
)
WITH_DATA = [name for name in METHODS if METHODS[name].needs]
WITH_DATA_AT_ONCE = [name for name in WITH_DATA if name != "sisa"]  # not shard by shard
WITHOUT_DRAWS = {"ssd", "lfssd", "assd", "sisa", "jit"}  # from the request's generator
FINETUNED = [name for name in WITH_DATA if name not in WITHOUT_DRAWS]


class Untouchable:
    """Raises whatever is done with it."""

    def _touched(self, *_: object) -> None:
        raise AssertionError("a method reached for data that it does not declare")

    __getitem__ = __len__ = __iter__ = __array__ = _touched


class Outcome(NamedTuple):
    """What a method gives, and the global random generators before and after it."""

    result: Tensors
    before: list[object]
    after: list[object]


def state(system: System) -> list[object]:
    """Everything of a system that a method could change: bytes of all tensors, flags, gradients, mode."""
    parts: list[object] = []
    for name, tensor in tensors(system).items():
        parts.append((name, tensor.detach().numpy().tobytes()))
    if system.model is not None:
        for name, parameter in system.model.named_parameters():
            parts.append((name, parameter.requires_grad, parameter.grad))
        for name, module in system.model.named_modules():
            parts.append((name, module.training))
    return parts


def global_states() -> list[object]:
    return [torch.get_rng_state().numpy().tobytes(), repr(np.random.get_state()), random.getstate()]  # noqa: NPY002


def run_all(names: list[str], noise: int) -> dict[str, Outcome]:
    """Results of the methods run in this order, with the global generators in a state of their own."""
    random.seed(noise)
    np.random.seed(noise)  # noqa: NPY002
    torch.manual_seed(noise)
    outcomes = {}
    for name in names:
        before = global_states()
        system, _ = unlearn(name)
        outcomes[name] = Outcome(tensors(system), before, global_states())
    return outcomes


@cache
def two_orders() -> tuple[dict[str, Outcome], dict[str, Outcome]]:
    return run_all(list(METHODS), noise=1), run_all(list(METHODS)[::-1], noise=2)


@pytest.mark.parametrize("name", METHODS)
def test_a_method_changes_neither_the_original_nor_the_data(name: str) -> None:
    def data() -> list[bytes]:
        arrays = []
        for part in world().parts.values():
            arrays += [part.rows.tobytes(), part.ids.tobytes(), part.labels.tobytes()]
        return arrays

    state_before = state(original(name))
    data_before = data()
    unlearn(name)
    assert state(original(name)) == state_before
    assert data() == data_before
    assert not world().dataset.images.flags.writeable


def storages(system: System) -> set[int]:
    """Where the tensors of a system lie."""
    return {tensor.untyped_storage().data_ptr() for tensor in tensors(system).values()}


@pytest.mark.parametrize("name", METHODS)
def test_the_result_shares_no_storage_with_the_original(name: str) -> None:
    system, _ = unlearn(name)
    assert storages(original(name)).isdisjoint(storages(system))
    assert system.family == original(name).family
    assert system.architecture == original(name).architecture
    assert tensors(system).keys() == tensors(original(name)).keys()


@pytest.mark.parametrize("name", METHODS)
def test_a_seed_gives_the_same_bytes_in_any_order_and_under_any_global_generator(name: str) -> None:
    forwards, backwards = two_orders()
    assert same(forwards[name].result, backwards[name].result)


@pytest.mark.parametrize("name", METHODS)
def test_a_method_leaves_the_global_generators_alone(name: str) -> None:
    for order in two_orders():
        assert order[name].after == order[name].before


@pytest.mark.parametrize("name", FINETUNED)
def test_another_seed_gives_another_result(name: str) -> None:
    assert not same(tensors(unlearn(name, seed=0)[0]), tensors(unlearn(name, seed=1)[0]))


@pytest.mark.parametrize("name", METHODS)
def test_a_method_reads_only_the_data_that_it_declares(name: str) -> None:
    data = {}
    for part, samples in world().parts.items():
        undeclared = {}
        for kind in ("images", "labels"):
            if f"{part} {kind}" not in METHODS[name].needs:
                undeclared[kind] = Untouchable()
        data[part] = replace(samples, **undeclared)
    freely, _ = unlearn(name, needs=ALL_NEEDS, data=data)
    assert same(tensors(freely), tensors(unlearn(name)[0]))


@pytest.mark.parametrize(
    ("name", "need"), [(name, need) for name in METHODS for need in sorted(METHODS[name].needs)]
)
def test_a_method_needs_all_data_that_it_declares(name: str, need: str) -> None:
    with pytest.raises(PermissionError, match=need):
        unlearn(name, needs=METHODS[name].needs - {need})


def test_a_set_that_is_not_declared_at_all_cannot_even_be_counted() -> None:
    for part in ("forget", "val"):
        with pytest.raises(PermissionError, match=f"uses the {part} set"):
            getattr(make_request("cf"), part)


def test_images_can_be_read_without_their_labels() -> None:
    forget = make_request("cf", needs=frozenset({"forget images"})).forget
    assert forget.images[forget.rows].shape == (13, 8, 8, 3)
    for reach in (
        lambda: forget.labels[0],
        lambda: np.asarray(forget.labels),
        lambda: forget.batch(torch.arange(2), "cpu"),
    ):
        with pytest.raises(PermissionError, match="forget labels"):
            reach()


def test_a_method_that_declares_no_needs_cannot_fine_tune() -> None:
    by_design = {
        "example-tied-dropout",
        "knn",
        "krr",
        "lda",
        "munkey",
        "ncm",
        "newton",
        "ranpac",
        "sisa",
        "spm",
    }
    assert {name for name in METHODS if not METHODS[name].finetunes} == by_design
    with pytest.raises(PermissionError, match="does not declare any `needs`"):
        _ = make_request("munkey").tuning


def test_fine_tuning_has_the_rate_crops_and_number_format_of_the_training_of_the_original() -> None:
    data = DataSettings(image_size=12, pixel_mean=0.4, pixel_std=0.2)
    train = TRAIN.model_copy(
        update={"crop_scale": [0.3, 0.9], "crop_ratio": [0.5, 2.0], "precision": "bfloat16"}
    )
    finetune = FinetuneSettings(epochs=7, batch_size=3, betas=[0.1, 0.2], weight_decay=0.4)
    tuned = prepare.make_tuning(
        replace(recipe("vit"), data=data, train=train), {"finetune": finetune.model_dump()}
    )
    augment = Augmentation(size=12, scale=[0.3, 0.9], ratio=[0.5, 2.0], mean=0.4, std=0.2)
    assert tuned == Tuning(settings=finetune, base_lr=4e-3, augment=augment, precision="bfloat16")


@pytest.mark.parametrize("name", WITH_DATA_AT_ONCE)
def test_every_pass_takes_each_sample_once_and_drops_no_last_batch(name: str) -> None:
    passes = {  # over the retain, the forget and the validation set
        "neggrad-plus": (EPOCHS, None, 0),
        "amnesiac": (EPOCHS, EPOCHS, 0),
        # no max pass in the first; and to find the epoch to rewind to
        "scrub": (EPOCHS, EPOCHS - 1 + EPOCHS, EPOCHS),
        "ssd": (1, 2, 0),
        "amun": (EPOCHS, 1, 0),
        "salun": (EPOCHS, 1 + EPOCHS, 0),
        "bad-teacher": (EPOCHS, EPOCHS, 0),
        "delete": (0, EPOCHS, 0),
        "jit": (0, 1, 0),
        "lotus": (EPOCHS, 2 * EPOCHS, 1),  # the accuracy before each epoch
        "sfron": (1 + EPOCHS, None, 0),
        "lfssd": (1, 2, 0),
        "assd": (1, 2, 0),
        "boundary-shrink": (0, EPOCHS, 0),
        "fcs": (None, 1 + EPOCHS, 0),
        "msg": (None, 1, 0),
        "msg-linear": (None, 1, 0),
        "rum": (2 * EPOCHS, None, 0),  # of its steps, two fine-tune
    }.get(name, (EPOCHS, 0, 0))
    data, logs = recorded()
    changed = {"retain_share": 1.0} if name in ("bad-teacher", "lotus") else {}
    unlearn(name, data=data, changed=changed)
    for (part, batches), times in zip(logs.items(), passes, strict=True):
        if times is not None:
            drawn = np.concatenate([*batches, np.array([], dtype=int)])
            assert np.array_equal(np.sort(drawn), np.repeat(data[part].ids, times))


@dataclass(frozen=True)
class CountedCrops(Augmentation):
    """Crops as an augmentation does, and notes how many images it crops with which generator."""

    counts: list[int] = field(default_factory=list)
    generators: list[torch.Generator] = field(default_factory=list)

    def __call__(self, images: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        self.counts.append(len(images))
        self.generators.append(generator)
        return super().__call__(images, generator)


@pytest.mark.parametrize("name", FINETUNED)
def test_each_method_crops_every_image_anew_in_each_epoch(name: str) -> None:
    cropped = {  # images of an epoch
        "neggrad-plus": 60 + 4 * 13,  # the whole forget set beside each of four retain batches
        "amnesiac": 60 + 13,
        "scrub": 60 + 13 * (EPOCHS - 1) / EPOCHS,  # no max pass in the first
        "amun": 60 + 13,
        "salun": 60 + 13,
        "bad-teacher": 18 + 13,  # 0.3 of the retain set
        "delete": 13,
        "lotus": 18 + 13,
        # the whole forget set before the first and the sixth of eight retain batches
        "sfron": 60 + 13,
        "boundary-shrink": 13,
        # a retain batch beside the forget set; and that in the first pass
        "fcs": 60 + 16 + 13 + 13 / EPOCHS,
        # noise in the first of two epochs
        "unsir": 60 + 20 * 16 * len(set(world().parts["forget"].labels)) / EPOCHS,
        "rum": 60 + 60 + 4,  # CF, then SalUn on a third of the forget set
    }.get(name, 60)
    crops = CountedCrops(**vars(CROPS))
    _, request = unlearn(name, tuned=tuning(augment=crops))
    assert sum(crops.counts) == EPOCHS * cropped
    for generator in crops.generators:
        assert generator is request.generator


# its steps have one each
@pytest.mark.parametrize("name", [name for name in FINETUNED if name != "rum"])
def test_the_learning_rate_is_the_methods_factor_times_that_of_training(name: str) -> None:
    _, request = unlearn(name, tuned=tuning(lr=0.004), changed={"lr_factor": 0.25})
    falling = name in ("sfron", "msg", "msg-linear", "ct", "unsir")
    expected = [0.001, 0.0005] if falling else [0.001] * EPOCHS
    assert column(request.history, "lr") == pytest.approx(expected)


@pytest.mark.parametrize("name", FINETUNED)
def test_the_optimizer_gets_betas_and_weight_decay_of_the_section_finetune(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    optimizers: list[torch.optim.AdamW] = []

    def adamw(*parameters: object, **options: object) -> torch.optim.AdamW:
        optimizers.append(created(*parameters, **options))
        return optimizers[-1]

    created = torch.optim.AdamW
    monkeypatch.setattr(torch.optim, "AdamW", adamw)
    usual = tuning()
    shared = usual.settings.model_copy(update={"betas": [0.7, 0.8], "weight_decay": 0.3})
    unlearn(name, tuned=replace(usual, settings=shared))
    (group,) = optimizers[0].param_groups
    assert len(optimizers) == {"fcs": 3, "unsir": 2, "rum": 2}.get(name, 1)
    assert (group["betas"], group["weight_decay"]) == ((0.7, 0.8), 0.3)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", FINETUNED)
def test_a_method_trains_in_the_number_format_of_the_original(name: str, precision: str) -> None:
    formats: set[torch.dtype] = set()

    def note(module: torch.nn.Module, _: object, output: torch.Tensor) -> None:
        if module.training and isinstance(module, torch.nn.Linear):
            formats.add(output.dtype)

    hook = torch.nn.modules.module.register_module_forward_hook(note)
    try:
        system, _ = unlearn(name, tuned=replace(tuning(), precision=precision))
    finally:
        hook.remove()
    assert formats == {getattr(torch, precision)}
    assert {parameter.dtype for parameter in system.model.parameters()} == {torch.float32}


@pytest.mark.parametrize("name", METHODS)
def test_the_network_of_a_result_is_in_eval_mode_without_gradients(name: str) -> None:
    model = unlearn(name)[0].model
    if model is None:
        return
    for module in model.modules():
        assert not module.training
    for parameter in model.parameters():
        assert parameter.requires_grad
        assert parameter.grad is None


@pytest.mark.parametrize("name", WITH_DATA_AT_ONCE)
def test_a_frozen_parameter_stays_frozen_and_bit_identical(name: str) -> None:
    trained = original(name)
    frozen = replace(trained, model=trained.copy_model())
    frozen.model.pos_embed.requires_grad_(False)
    changed = METHODS[name].run(frozen, make_request(name), settings(name)).model
    assert torch.equal(changed.pos_embed, trained.model.pos_embed)
    for parameter, before in zip(changed.parameters(), frozen.model.parameters(), strict=True):
        assert parameter.requires_grad == before.requires_grad


@pytest.mark.parametrize("name", METHODS)
def test_the_history_and_the_facts_of_a_method_fit_into_a_record(name: str) -> None:
    _, request = unlearn(name)
    json.dumps([request.history, request.facts], allow_nan=False)
    if name != "sisa":
        epochs = {"rum": 2 * EPOCHS}.get(name, EPOCHS) if name in FINETUNED else 0
        assert column(request.history, "epoch") == list(range(1, epochs + 1))
    for epoch in request.history:
        assert epoch.keys() >= {"loss", "accuracy", "lr", "seconds"}


@pytest.mark.parametrize("name", ["munkey", "knn"])
def test_deletion_drops_rows_and_changes_nothing_else(name: str) -> None:
    before = tensors(original(name))
    after = tensors(unlearn(name)[0])
    remain = ~np.isin(before["memory.ids"].numpy(), world().forget_ids)
    assert remain.sum() == 60
    for tensor in before:
        expected = before[tensor][remain] if tensor.startswith("memory.") else before[tensor]
        assert torch.equal(after[tensor], expected)


@pytest.mark.parametrize("name", METHODS)
def test_every_setting_of_a_method_is_in_its_own_section(name: str) -> None:
    section = PARAMS["unlearn"][name]
    fields = METHODS[name].settings.model_fields
    assert section.keys() == fields.keys()
    for setting in fields.values():
        assert setting.is_required()
    with pytest.raises(ValidationError, match="Extra inputs"):
        METHODS[name].settings(**section, surprise=1)
    network = sorted(METHODS[name].networks or {"vit"})[-1]
    others = {
        "network": network,
        "scenarios": {},
        "forget": PARAMS["forget"] | {"sampling": "class"},
    }
    load(PARAMS | {"methods": [name]} | others)


def test_a_method_is_refused_where_it_is_not_defined() -> None:
    with pytest.raises(ParamsError, match=r"ct .*network = vit.*pretrained \| resnet18"):
        load(PARAMS | {"methods": ["ct"]})
    with pytest.raises(ParamsError, match=r"unsir .*forget\.sampling is stratified"):
        load(PARAMS | {"methods": ["unsir"]})
    whole_classes = {"methods": ["unsir"], "forget": PARAMS["forget"] | {"sampling": "class"}}
    with pytest.raises(ParamsError, match=r"scenarios\.hard\.sampling is hard"):
        load(PARAMS | whole_classes)
    hard = PARAMS["scenarios"]["hard"] | {"sampling": "class"}
    assert load(PARAMS | whole_classes | {"scenarios": {"hard": hard}}).methods == ["unsir"]


@pytest.mark.parametrize("name", METHODS)
def test_every_method_says_where_it_comes_from(name: str) -> None:
    entry = METHODS[name]
    facts = {"title": entry.title, "description": entry.description, "citation": entry.citation}
    missing = [fact for fact, text in facts.items() if not text]
    assert not missing, f"{entry.run.__module__}: @method({name!r}, ...) lacks {', '.join(missing)}"
    assert escape_latex(entry.title).isascii()
    assert entry.run.__module__ == f"munkey.unlearn.methods.{name.replace('-', '_')}"
    page = (PROJECT / "docs" / "methods" / f"{name}.md").read_text()
    assert page.startswith(f"# {entry.title}\n")


def test_a_method_that_returns_no_system_is_refused_by_name() -> None:
    entry = replace(METHODS["cf"], run=lambda system, request, settings: None)
    with pytest.raises(TypeError, match=r"'cf' .* returned NoneType"):
        entry.unlearn(None, None, None)


def test_the_paper_has_nine_baselines_knn_and_munkey() -> None:
    beyond = {name for name in METHODS if not METHODS[name].in_paper}
    assert {"salun", "bad-teacher", "sisa"} <= beyond
    assert set(METHODS) - beyond == {
        *("cf", "cf-k", "eu-k", "l1-sparse", "neggrad-plus", "amnesiac", "scrub", "ssd", "amun"),
        *("knn", "munkey"),
    }
    assert len({METHODS[name].title for name in METHODS}) == len(METHODS)


def test_a_name_is_registered_once_and_an_unknown_one_lists_the_valid_ones() -> None:
    again = method("cf", title="", description="", family="vit", settings=Section)
    with pytest.raises(ValueError, match="registered twice"):
        again(lambda system, *_: system)
    with pytest.raises(KeyError, match="neggrad-plus"):
        METHODS["negrad"]


@pytest.mark.parametrize(
    ("needs", "passes"),
    [
        ({"retain images", "retain labels"}, 3 * 4 * 90),
        ({"forget images", "retain labels"}, 3 * 4 * 10),
        ({"forget images", "retain images", "val images"}, 3 * 4 * 100),
        ({"forget labels"}, 0),
    ],
)
def test_a_method_without_its_own_count_has_the_passes_of_fine_tuning_on_all_images_that_it_needs(
    needs: set[str], passes: int
) -> None:
    plain = replace(METHODS["cf"], needs=frozenset(needs), counted_passes=None)
    images = Images(retain=90, forget=10, val=20, epochs=4, batch=7)
    assert plain.count_passes(images, settings("cf")) == passes


def test_unknown_needs_are_refused_at_registration() -> None:
    with pytest.raises(ValueError, match="needs must be among"):
        method("lacking", title="", description="", family="vit", needs={"retained labels"})
    assert "lacking" not in METHODS


def test_the_loop_on_the_page_moves_forgotten_samples_to_their_second_class_and_keeps_its_input() -> (
    None
):
    code = compile(block("extending", "python", '"my-loop"'), "docs/extending.md", "exec")
    exec(code, {"__name__": "page"})
    try:
        before = {name: value.clone() for name, value in tensors(original("my-loop")).items()}
        after = METHODS["my-loop"].run(
            original("my-loop"), make_request("my-loop"), TuningSettings(lr_factor=1.0)
        )
        assert same(tensors(original("my-loop")), before)
    finally:
        METHODS.remove("my-loop")
    images, _ = whole("forget")
    logits = original("cf").model(images).log_softmax(dim=1)
    change = after.model(images).log_softmax(dim=1) - logits
    first, second = logits.topk(2).indices.T[..., None]
    assert change.gather(1, second).mean() > 0.1
    assert change.gather(1, first).mean() < 0
