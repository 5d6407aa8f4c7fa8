"""Small real inputs that the tests share."""

import copy
import errno
import os
import pickle
import random
import resource
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pytest
import torch
import yaml

from munkey.data.image_set import ImageSet
from munkey.experiment.params.load import Params, load
from munkey.memory.exemplars import ExemplarMemory
from munkey.models.family import FAMILIES, System
from munkey.models.networks.munkey import Munkey, MunkeyArchitecture
from munkey.models.networks.vit import ViTArchitecture
from munkey.settings import InferenceSettings

ROOT = Path(__file__).parents[1]
SHARED = Path("/dev/shm")
DRAWN = 2  # of the soak tests, in CI
# What a machine of CI may lack; for all else, `.ci/run` and requirements.lock install what is needed.
MAY_SKIP_IN_CI = (
    "no GPU",
    "a GPU here",
    "paper's printed tables are not",
    "paper's tables are not",
    "needs real pictures",
    "no Firefox",
    "may not mount",
    "only root",
)
VIT = ViTArchitecture(
    classes=3, image_size=8, patch_size=4, width=8, depth=2, heads=2, mlp_ratio=2.0
)
MUNKEY = MunkeyArchitecture(**vars(VIT), architecture="input-level", token_dim=5)

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # else each process of a test compiles our modules
torch.set_num_threads(1)
hypothesis.settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=50)
hypothesis.settings.load_profile("repeatable")


def needs_gpu(test: Callable[..., None]) -> Callable[..., None]:
    """Marks a test `gpu` and skips it where there is none."""
    return pytest.mark.gpu(
        pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")(test)
    )


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def changed(config: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """A copy of a configuration with the key at a dotted path set."""
    out = copy.deepcopy(config)
    *parents, last = path.split(".")
    section = out
    for name in parents:
        section = section.setdefault(name, {})
    section[last] = value
    return out


def global_state() -> bytes:
    """The global random generators, which nothing may read or move."""
    return pickle.dumps((torch.get_rng_state().tolist(), np.random.get_state(), random.getstate()))  # noqa: NPY002


def unit_rows(*shape: int, seed: int = 0) -> np.ndarray:
    """Random float32 vectors of unit norm."""
    vectors = np.random.default_rng(seed).normal(size=shape)
    return (vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)).astype(np.float32)


def image_set(count: int, side: int = 8, classes: int = 3, seed: int = 0) -> ImageSet:
    """Random images whose ids are 10, 12, 14, ... and whose classes take turns."""
    images = np.random.default_rng(seed).integers(0, 256, (count, side, side, 3), dtype=np.uint8)
    return ImageSet(images, np.arange(count), 10 + 2 * np.arange(count), np.arange(count) % classes)


def memory_of(ids: np.ndarray, token_dim: int = 5, seed: int = 0) -> ExemplarMemory:
    keys = torch.from_numpy(unit_rows(len(ids), 4, seed=seed))
    return ExemplarMemory(
        torch.from_numpy(ids), keys, torch.randn(len(ids), token_dim, generator=generator(seed))
    )


def lively(model: torch.nn.Module, seed: int = 0) -> torch.nn.Module:
    """Weights so large that every input matters visibly; fresh ones of std 0.02 would hide a mistake."""
    shared = generator(seed)  # one for all: parameters of one shape must not be alike
    with torch.no_grad():
        for parameter in model.parameters():
            torch.nn.init.normal_(parameter, std=0.5, generator=shared)
        for module in model.modules():
            if isinstance(module, torch.nn.LayerNorm):
                module.weight += 1  # about 0 it would hide what it normalizes
    return model.eval()


@contextmanager
def full_disk(size: int) -> Iterator[None]:
    """Let every write beyond a size fail, as on a full disk."""
    usual, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (usual, hard))


def raise_full_disk(*_: object, **__: object) -> None:
    """Stand in for a function that meets a full disk."""
    raise OSError(errno.ENOSPC, "No space left on device")


def wait(
    condition: Callable[[], bool], words: Callable[[], str] = str, seconds: float = 120.0
) -> None:
    """Wait until a condition holds. words: what an error says where it does not within these seconds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, words()
        time.sleep(0.1)


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    """One thread for every test: a job that an earlier one ran may have left another number, and other last digits."""
    torch.set_num_threads(1)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder that is not there yet, in memory where there is such a place: what is synced there costs nothing."""
    with tempfile.TemporaryDirectory(dir=SHARED if SHARED.is_dir() else tmp_path) as name:
        yield Path(name) / "memory"


@cache
def parse_params() -> dict[str, Any]:
    return yaml.load((ROOT / "params.yaml").read_text(), Loader=yaml.CSafeLoader)


def read_config() -> dict[str, Any]:
    """The project's params.yaml, as read, to change: parsing it takes a fifth of a second."""
    return copy.deepcopy(parse_params())


@pytest.fixture
def config() -> dict[str, Any]:
    return read_config()


@pytest.fixture
def params(config: dict[str, Any]) -> Params:
    """The parameters cut down to the tiny models of these tests."""
    tiny = changed(config, "data.image_size", VIT.image_size)
    tiny["model"] = {
        name: getattr(VIT, name) for name in ("patch_size", "width", "depth", "heads", "mlp_ratio")
    }
    tiny["munkey"] |= {"token_dim": MUNKEY.token_dim, "neighbors": [2, 4]}
    tiny["train"] |= {"epochs": 2, "batch_size": 5}
    tiny["keys"]["depth"], tiny["knn"]["k"] = 6, 4
    tiny["unlearn"]["unsir"] |= {"noise_steps": 4, "copies": 2}
    tiny["ablations"] = {}
    return load(tiny)


@pytest.fixture
def munkey() -> Munkey:
    return lively(FAMILIES["munkey"].build(MUNKEY, generator()))


@pytest.fixture
def munkey_system(munkey: Munkey) -> System:
    """MUNKEY with six exemplars, ids 10, 12, ..., 20."""
    return System("munkey", MUNKEY, munkey, memory_of(10 + 2 * np.arange(6)))


@pytest.fixture
def inference() -> Callable[..., InferenceSettings]:
    """Retrieval settings; tau is high, so that every neighbor counts."""
    return lambda **changes: InferenceSettings(
        **{"k": 4, "fusion": "ensemble", "temperature": 0.5} | changes
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """In CI, a test that is skipped has failed, unless it needs what a machine of CI may lack."""
    report = yield
    if report.skipped and not item.get_closest_marker("gpu"):
        refuse_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Iterator[None]:
    """The same for a file that is skipped as a whole."""
    report = yield
    if report.skipped:
        refuse_skip(report)
    return report


def refuse_skip(report: Any) -> None:
    """In CI, let a report of what was skipped be that of a failure, unless its reason may be one there."""
    reason = str(report.longrepr[-1])
    if os.environ.get("CI") and not any(words in reason for words in MAY_SKIP_IN_CI):
        report.outcome = "failed"
        report.longrepr = f"skipped, which CI does not allow: {reason}"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Files that take long come first: at the end, short ones are left to share among the workers.

    Where `drawn` tests are asked for, the commit draws them: all workers draw the same, and another commit others.
    """
    if "drawn" in config.option.markexpr:
        commit = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
        )
        soak = {item.nodeid: item for item in items if item.get_closest_marker("soak")}
        short = [
            name
            for name, item in soak.items()
            if not item.get_closest_marker("soak").kwargs.get("long")
        ]
        for name in random.Random(commit.stdout).sample(sorted(short), min(DRAWN, len(short))):
            soak[name].add_marker("drawn")
    long = {
        item.path
        for item in items
        if "integration" in item.path.parts
        or item.get_closest_marker("slow")
        or item.get_closest_marker("soak")
    }
    items.sort(key=lambda item: item.path not in long)
