"""Traces of originals' training."""

from pathlib import Path

import numpy as np

from munkey.core.console import warn
from munkey.core.diverged import DIVERGED, DivergedError
from munkey.core.files import write_npz
from munkey.data import prepared
from munkey.data.image_set import image_set, move_to_gpu_if_it_fits
from munkey.evaluation.trace import TrainingTrace
from munkey.experiment.run.job import Surroundings
from munkey.models import training_inputs
from munkey.models.family import FAMILIES, Training
from munkey.models.training_inputs import SampleFiles
from munkey.settings import Sections


def trace(
    files: SampleFiles,
    trace: Path,
    family: str,
    dataset: str,
    seed: int,
    settings: Sections,
    around: Surroundings,
) -> None:
    """Train an original again, and record what happens during training.

    The output has P_s by epoch, and tokens and [CLS] features at three moments.
    """
    data = prepared.load(files.images.parent)
    model_family = FAMILIES[family]
    device = around.device
    samples = move_to_gpu_if_it_fits(
        image_set(data, data.get_ids("train")), device, around.resident_share
    )
    # The same stage as the original's, so that the training repeats it exactly.
    stage = model_family.make_stage(seed, dataset, "full")
    recipe = model_family.make_recipe(
        settings, stage, training_inputs.read_selected_knobs(files.selected)
    )
    members = training_inputs.read_member_keys(
        model_family, recipe, samples.ids, files.keyfile, files.neighbors
    )
    training_trace = TrainingTrace(samples, recipe, device)
    try:
        training = Training(
            samples, len(data.classes), recipe, device, members=members, watch=training_trace.watch
        )
        model_family.train(training)
    except DivergedError as error:
        why = error.reason(around.log)
        warn(f"diverged: {why}")
        write_npz(trace, {DIVERGED: np.array(why)})
    else:
        write_npz(trace, training_trace.to_arrays())
