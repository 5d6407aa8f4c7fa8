"""The job of relearning: trains a system further, and measures what comes back."""

from pathlib import Path

import numpy as np

from munkey.core.console import warn
from munkey.core.diverged import DIVERGED, DivergedError
from munkey.core.files import write_csv
from munkey.core.randomness import Stage
from munkey.data import forget_sets, prepared
from munkey.data.image_set import image_set, move_to_gpu_if_it_fits
from munkey.encoders import keys
from munkey.experiment.run.job import Surroundings
from munkey.memory import neighbors as neighbor_files
from munkey.models import system as systems
from munkey.models import training_inputs
from munkey.models.family import FAMILIES, Training
from munkey.models.training_inputs import SampleFiles
from munkey.settings import Sections
from munkey.studies.relearning.further_training import EvaluationSamples, train_further
from munkey.studies.relearning.settings import RelearnSettings


def relearn(
    files: SampleFiles,
    system: Path,
    curve: Path,
    dataset: str,
    seed: int,
    settings: Sections,
    around: Surroundings,
    retrieved: Path | None = None,
) -> None:
    """Train a system further on the retain set, and record its accuracy along the way.

    If the system diverges, or had already diverged, its curve is a single row with the reason.

    Parameters
    ----------
    files
        The files of the samples. `neighbors` is for training, with a memory of the retain set.
    retrieved
        The neighbor file for predictions, with the system's own memory.
    """
    data = prepared.load(files.images.parent)
    device = around.device
    try:
        loaded = systems.load(system, device=device)
    except DivergedError as error:
        write_csv(curve, [{DIVERGED: str(error)}])
        return
    family = FAMILIES[loaded.family]
    split = forget_sets.split(data, files.forget)
    stage = Stage(seed, dataset, "relearn", family.name)
    recipe = family.make_recipe(
        settings, stage, training_inputs.read_selected_knobs(files.selected)
    )
    samples = move_to_gpu_if_it_fits(image_set(data, split.retain), device, around.resident_share)
    members = training_inputs.read_member_keys(
        family, recipe, samples.ids, files.keyfile, files.neighbors
    )
    queries = image_set(data, np.union1d(split.forget, data.get_ids("test")))
    retrieval = None
    if family.has_memory and retrieved:
        query_keys = None
        if files.keyfile:
            query_keys = keys.read(files.keyfile, queries.ids).keys
        near = neighbor_files.read_neighbors(retrieved, queries.ids)
        retrieval = family.make_retrieval(near, settings["inference"], query_keys)
    is_forgotten = np.isin(queries.ids, split.forget)
    evaluation = EvaluationSamples(queries, is_forgotten, recipe.data, device, retrieval)
    training = Training(samples, len(data.classes), recipe, device, members=members)
    try:
        rows = train_further(
            loaded, training, RelearnSettings.parse(settings["relearn"]), evaluation
        )
    except DivergedError as error:
        why = error.reason(around.log)
        warn(f"diverged: {why}")
        write_csv(curve, [{DIVERGED: why}])
    else:
        write_csv(curve, rows)
