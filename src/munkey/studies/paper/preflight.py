"""The check that this machine can run the paper's experiment: GPU, downloads and disk space."""

import shutil
from collections.abc import Iterator
from pathlib import Path

from munkey.core.device import has_gpu
from munkey.data.download import MissingDataError
from munkey.encoders.hub_models import require_repository
from munkey.encoders.parts import split_parts
from munkey.encoders.registry import MissingEncoderError, find
from munkey.experiment.cost.estimate import CostEstimate, format_gigabytes
from munkey.experiment.plan.plan import Plan
from munkey.studies.paper.plan import PaperPlan
from munkey.studies.paper.setting import is_rehearsal

RESULTS = Path("results")
NO_GPU = (
    "no GPU: the paper's experiment needs an NVIDIA GPU that torch can use, but {reason}. Run it on"
    " a machine with one or on a cluster (docs/cluster.md), or rehearse it here: make reproduce"
    " REHEARSAL=1"
)


def find_obstacles(plan: Plan, costs: CostEstimate) -> Iterator[str]:
    """Yield a sentence for each obstacle to the paper's experiment on this machine."""
    if not is_rehearsed(plan):
        yield from find_gpu_obstacles(plan)
    downloads = 0
    for dataset in plan.params.datasets:
        archive = plan.params.reader(dataset).archive
        if archive is None:
            continue
        try:
            downloads += archive().bytes_to_download()
        except MissingDataError as error:
            yield f"{dataset}: {error}"
    yield from find_encoder_obstacles(plan)
    yield from find_disk_obstacles(plan.params.name, costs.disk + downloads)
    yield from costs.uncounted


def is_rehearsed(plan: Plan) -> bool:
    """Return whether the plan is a rehearsal, which any machine can run."""
    seed_count = len(plan.params.seeds)
    compared_settings = PaperPlan(plan).compared.values()
    return all(is_rehearsal(settings, seed_count) for settings in compared_settings)


def find_gpu_obstacles(plan: Plan) -> Iterator[str]:
    """Yield a sentence if jobs cannot use the GPU that the experiment needs."""
    if plan.params.device == "cpu":
        yield (
            "device = 'cpu', but the paper's experiment needs an NVIDIA GPU: set it to auto or cuda"
            " in params.yaml, or rehearse it here: make reproduce REHEARSAL=1"
        )
    elif not has_gpu():
        yield NO_GPU.format(reason="this machine has none")
    else:
        from munkey.core import gpu

        if not gpu.is_available():
            yield NO_GPU.format(reason="this machine's driver does not support the installed torch")


def find_encoder_obstacles(plan: Plan) -> Iterator[str]:
    """Yield a sentence for each encoder that is missing here and cannot be downloaded."""
    encoders = set()
    for cases in plan.cases.values():
        for case in cases:
            for part in split_parts(plan.params.for_case(case).keys):
                encoders.add((part.encoder, part.revision))
    for encoder, revision in sorted(encoders, key=str):
        hub = find(encoder).hub
        if not hub:
            continue
        try:
            require_repository(hub, revision)
        except MissingEncoderError as error:
            yield str(error)


def find_disk_obstacles(name: str, needed: float) -> Iterator[str]:
    """Yield a sentence if there is too little disk space.

    Parameters
    ----------
    name
        The name of the configuration, and of its folder of results.
    needed
        The size of downloads and all results in bytes, including results of earlier runs.
    """
    written = sum(path.lstat().st_size for path in (RESULTS / name).rglob("*"))
    folder = Path()
    if RESULTS.exists():
        folder = RESULTS
    free = shutil.disk_usage(folder).free
    if needed - written > free:
        yield (
            f"disk: about {format_gigabytes(needed)} are needed, {format_gigabytes(written)} of"
            f" which are already written, but only {format_gigabytes(free)} are free: make room, or"
            f" make the folder {RESULTS} a link to a larger disk"
        )
