"""The path of a GPU without one: training, evaluation and unlearning of every family and method on the meta device.

No tensor is left on the host, no value read back except by `to_host`, no shape hangs on data. What a meta device cannot
show stands in munkey.core.gpu.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import timm
import torch
from torch import Tensor

from munkey.core.device import to_device, to_host
from munkey.core.randomness import Stage
from munkey.data.image_set import ImageSet, image_set, upload
from munkey.data.prepared import Dataset
from munkey.encoders.keys import Keys
from munkey.evaluation.predict import Queries, predict_samples
from munkey.evaluation.trace import TrainingTrace
from munkey.experiment.params.load import Params
from munkey.memory.neighbors import drop_self, find_nearest
from munkey.models import system
from munkey.models.family import FAMILIES, Family, MemberKeys, Recipe, Retrieval, System, Training
from munkey.models.networks.munkey import NETWORKS
from munkey.unlearn import adversarial, prepare
from munkey.unlearn.adversarial import AttackResult
from munkey.unlearn.contract import METHODS, Request
from tests.conftest import VIT, unit_rows
from tests.meta import META, HostNeededError, LikeAGpu, like_a_gpu

CLASSES, SIDE = 3, 10  # pictures are larger than the model's input
SPLITS = {"retain": (0, 9), "forget": (9, 13), "val": (13, 18)}
DATA = Dataset(
    images=np.random.default_rng(0).integers(0, 256, (18, SIDE, SIDE, 3), dtype=np.uint8),
    ids=10 + 2 * np.arange(18),
    labels=np.arange(18) % CLASSES,
    splits=np.array(["train"] * 13 + ["val"] * 5),
    classes=["a", "b", "c"],
)
KEYS = Keys(DATA.ids, unit_rows(18, 4))
MEMBERS = Keys(DATA.ids[:13], KEYS.keys[:13])
# which images still withstand: they stay in the batch
READS_BACK = {"amun": "munkey.unlearn.adversarial.untargeted_l2"}


@pytest.fixture(scope="module")
def backbone(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A tiny model as timm saves it."""
    shape = {
        "img_size": VIT.image_size,
        "patch_size": 4,
        "embed_dim": 12,
        "depth": 2,
        "num_heads": 2,
    }
    folder = str(tmp_path_factory.mktemp("backbone"))
    timm.models.save_for_hf(
        timm.create_model("vit_tiny_patch16_224", **shape), folder, model_args=shape
    )
    return f"{folder}/"


@pytest.fixture
def params(params: Params, backbone: str) -> Params:
    """Those of these tests, with a backbone that is here."""
    own = params.pretrained.model_copy(update={"model": backbone, "image_size": None, "epochs": 2})
    return params.model_copy(update={"pretrained": own})


@pytest.fixture
def gpu() -> Iterator[LikeAGpu]:
    with like_a_gpu() as mode:
        yield mode


def samples_of(first: int, last: int, resident: bool) -> ImageSet:
    samples = image_set(DATA, DATA.ids[first:last])
    return upload(samples, META) if resident else samples


def recipe_of(params: Params, family: Family, **changes: dict[str, object]) -> Recipe:
    """How a family is trained, with changes of sections of the parameters."""
    given = params.model_dump(include=set(family.sections))
    sections = {name: values | changes.get(name, {}) for name, values in given.items()}
    return family.make_recipe(sections, Stage("meta", family.name))


def training_of(family: Family, recipe: Recipe, device: str, resident: bool = False) -> Training:
    members = None
    if family.has_memory:
        neighbors = drop_self(find_nearest(MEMBERS, MEMBERS, 6), MEMBERS.ids, 5)
        members = MemberKeys(MEMBERS.keys, neighbors)
    return Training(samples_of(0, 13, resident), CLASSES, recipe, device, lambda _: None, members)


def original(params: Params, family: Family, folder: Path, **changes: dict[str, object]) -> System:
    """A system as a job finds it: made on the host, kept in a file, loaded onto the device."""
    if family.learns:
        made = family.train(training_of(family, recipe_of(params, family, **changes), "cpu")).system
    else:
        made = family.fit(
            MEMBERS,
            DATA.labels[:13],
            CLASSES,
            params.get_family_section(family),
            Stage("meta", family.name),
        )
    system.save(folder / "system.safetensors", made)
    return system.load(folder / "system.safetensors", device=META)


def tensors_of(trained: System) -> list[Tensor]:
    tensors = list(trained.model.state_dict().values()) if trained.model else []
    return tensors + ([trained.memory.keys, trained.memory.tokens] if trained.memory else [])


# SISA's, which is as it should be
pytestmark = pytest.mark.filterwarnings("ignore:.*copying from a non-meta parameter")
trained_families = pytest.mark.parametrize(
    "name", [family.name for family in FAMILIES.values() if family.learns]
)


@trained_families
@pytest.mark.parametrize("resident", [False, True], ids=["streamed", "resident"])
def test_a_training_reads_two_numbers_back_an_epoch_and_nothing_else(name, resident, params, gpu):
    family = FAMILIES[name]
    result = family.train(training_of(family, recipe_of(params, family), META, resident))
    assert all(tensor.is_meta for tensor in tensors_of(result.system))
    assert gpu.reads == ["munkey.training.loop._run_epoch"] * 2 * len(result.history)


@pytest.mark.parametrize("architecture", NETWORKS)
@pytest.mark.parametrize("aggregation", ["softmax", "rank", "ensemble"])
def test_so_does_every_variant_of_munkey(architecture, aggregation, params, gpu, tmp_path):
    family, changes = (
        FAMILIES["munkey"],
        {"munkey": {"architecture": architecture, "aggregation": aggregation}},
    )
    family.train(training_of(family, recipe_of(params, family, **changes), META))
    asked = params.inference.model_copy(update={"fusion": aggregation})
    loaded = original(params, family, tmp_path, **changes)
    predict_samples(
        loaded,
        DATA,
        Queries(DATA.ids, Retrieval(find_nearest(KEYS, MEMBERS, 6), asked)),
        params.data,
        META,
    )


@pytest.mark.parametrize("name", FAMILIES)
def test_an_evaluation_reads_only_its_answers_back(name, params, gpu, tmp_path):
    family, loaded = FAMILIES[name], original(params, FAMILIES[name], tmp_path)
    asked = (
        family.make_retrieval(find_nearest(KEYS, MEMBERS, 6), params.inference)
        if family.has_memory
        else None
    )
    asked = Retrieval(None, keys=KEYS.keys) if family.asks_keys else asked
    gpu.reads.clear()
    answers = predict_samples(
        loaded,
        DATA,
        Queries(DATA.ids, asked, asked if family.has_pathways else None),
        params.data,
        META,
    )
    assert answers["logits"].shape == (18, CLASSES)
    assert set(gpu.reads) <= {
        "munkey.models.forward.predict_blocks",
        "munkey.models.families.knn.predict_logits",
        "munkey.models.family.predict_logits",
        # Exact to the bit in any batch: in double precision, on the host.
        "munkey.models.networks.closed_form.forward",
        "munkey.models.networks.kernel_ridge.forward",
    }
    if family.has_pathways:
        trace = TrainingTrace(samples_of(0, 13, False), recipe_of(params, family), META)
        trace.watch(0, loaded)
        assert trace.vectors["features_0"].shape == (13, params.model.width)
    assert len(gpu.reads) <= 10


def request_of(params: Params, name: str, resident: bool) -> Request:
    """What a job hands to a method."""
    method, family = METHODS[name], METHODS[name].original
    recipe = recipe_of(params, family) if family.learns else None
    parts = {part: samples_of(*where, resident) for part, where in SPLITS.items()}
    finetune = params.finetune.model_dump() | {"epochs": 2, "batch_size": 4}
    tuning = prepare.make_tuning(recipe, {"finetune": finetune})
    generator = Stage("meta", name).torch_generator()
    forgotten = DATA.ids[slice(*SPLITS["forget"])]
    return Request(forgotten, generator, META, lambda _: None, method.needs, parts, recipe, tuning)


def unlearned(params: Params, name: str, folder: Path, resident: bool = False) -> System:
    method = METHODS[name]
    settings = params.unlearn[name]
    return method.run(
        original(params, method.original, folder), request_of(params, name, resident), settings
    )


@pytest.mark.parametrize("name", [name for name in METHODS if name not in READS_BACK])
@pytest.mark.parametrize("resident", [False, True], ids=["streamed", "resident"])
def test_a_method_reads_back_only_what_it_reports(name, resident, params, gpu, tmp_path):
    left = unlearned(params, name, tmp_path, resident)
    assert all(tensor.is_meta for tensor in tensors_of(left))
    per_epoch = {"munkey.training.loop._run_epoch", "munkey.unlearn.finetune.measure_accuracy"}
    rows = "munkey.models.families.lda.read_labeled_rows"  # summed on the host
    own = name.replace("-", "_")
    per_step = "munkey.models.networks.logistic.compute_norm"  # whether it is small enough
    # before or after all steps
    once = {
        "saliency.dampen",
        "finetune.split_by_loss",
        "finetune.make_repelling_noise",
    }
    shared = {f"munkey.unlearn.{place}" for place in once}
    assert set(gpu.reads) <= per_epoch | shared | {
        f"munkey.unlearn.methods.{own}.{own}",
        rows,
        per_step,
    }


@pytest.mark.parametrize("name", READS_BACK)
def test_a_method_that_must_read_back_within_a_step_says_where(name, params, gpu, tmp_path):
    with pytest.raises(
        HostNeededError, match=rf"^{READS_BACK[name]} has a shape that hangs on a mask"
    ):
        unlearned(params, name, tmp_path)
    assert "waits for the GPU to report" in adversarial.untargeted_l2.__doc__


def test_the_rest_of_amun_does_not(params, gpu, tmp_path, monkeypatch):
    """With an attack that found its images, and gave them to the host."""

    def attack(
        answer: Callable[[Tensor], Tensor], clean: Tensor, labels: Tensor, *_: object
    ) -> AttackResult:
        assert clean.is_meta and labels.is_meta and answer(clean).is_meta
        adversarial._find_steepest_ascent(answer, clean, labels)
        adversarial._project(clean, 1.0)
        return AttackResult(
            torch.zeros(clean.shape),
            torch.zeros(len(clean), dtype=torch.int64),
            torch.zeros(len(clean)),
        )

    monkeypatch.setattr(adversarial, "untargeted_l2", attack)
    assert all(tensor.is_meta for tensor in tensors_of(unlearned(params, "amun", tmp_path)))


def test_keys_are_extracted_on_the_device(gpu):
    from munkey.encoders.keys import extract

    features = torch.ones(SIDE * SIDE * 3, 7, device=META)
    # what is read back is zeros
    with pytest.raises(ValueError, match=r"no usable key .* for 18 images"):
        extract(
            lambda images: images.flatten(1) @ features,
            DATA.images,
            5,
            META,
            lambda batches: batches,
        )
    assert gpu.reads == ["munkey.encoders.keys._encode_blocks"] * 4


ON_DEVICE, ON_HOST = torch.ones(3, device=META), torch.ones(3)
MIXED = {
    "sum": lambda: ON_DEVICE + ON_HOST,
    "product": lambda: ON_DEVICE @ ON_HOST,
    "index": lambda: ON_DEVICE[torch.arange(2)],
    "linear": lambda: torch.nn.functional.linear(torch.ones(2, 3), ON_DEVICE[None]),
    "where": lambda: torch.where(ON_DEVICE > 0, ON_DEVICE, ON_HOST),
}
READ = {
    "item": lambda: ON_DEVICE.sum().item(),
    "bool": lambda: bool(ON_DEVICE.all()),
    "float": lambda: float(ON_DEVICE[0]),
    "cpu": ON_DEVICE.cpu,
    "to": lambda: ON_DEVICE.to("cpu"),
    "copy": lambda: ON_HOST.copy_(ON_DEVICE),
    "list": ON_DEVICE.tolist,
    "equal": lambda: torch.equal(ON_DEVICE, ON_DEVICE),
    "mask": lambda: ON_DEVICE[ON_DEVICE > 0],
    "mask assigned to": lambda: ON_DEVICE.clone().__setitem__(ON_DEVICE > 0, ON_DEVICE),
    "nonzero": ON_DEVICE.nonzero,
    "unique": ON_DEVICE.unique,
    "repeated": lambda: ON_DEVICE.repeat_interleave(torch.ones(3, dtype=torch.int64, device=META)),
}


@pytest.mark.parametrize("mistake", [*MIXED, *READ])
def test_the_device_of_these_tests_refuses_what_a_gpu_would_wait_for(mistake, gpu):
    with pytest.raises((HostNeededError, NotImplementedError)):
        (MIXED | READ)[mistake]()


def test_it_takes_what_a_gpu_takes(gpu):
    assert (ON_DEVICE * torch.tensor(2.0)).is_meta  # a scalar of the host
    assert ON_DEVICE[to_device(torch.arange(2), META)].shape == (2,)
    assert to_host(ON_DEVICE).tolist() == [0, 0, 0] and gpu.reads == ["a test"]


def test_only_one_page_knows_cuda():
    """What no meta device can prove."""
    package = Path(system.__file__).parents[1]
    knowing = [
        str(path.relative_to(package))
        for path in sorted(package.rglob("*.py"))
        for word in (
            "torch.cuda",
            "torch.amp.",
            "torch.autocast",
            "pin_memory",
            "non_blocking",
            "scaled_dot_product",
        )
        if word in path.read_text()
    ]
    # the latter in annotations alone
    assert set(knowing) == {
        "core/gpu.py",
        "training/checkpoint.py",
    }
    assert len((package / "core/gpu.py").read_text().splitlines()) <= 80
