"""Unlearning: applies a method to an original. Only the method itself is timed."""

from pathlib import Path

from munkey.core.console import warn
from munkey.core.device import Stopwatch
from munkey.core.diverged import DIVERGED, DivergedError
from munkey.core.randomness import Stage
from munkey.data import forget_sets, prepared
from munkey.experiment.run.job import Surroundings
from munkey.experiment.run.record import now, write_record
from munkey.models import system as systems
from munkey.models.family import System
from munkey.models.training_inputs import SampleFiles
from munkey.settings import Sections
from munkey.unlearn import prepare


def unlearn(
    files: SampleFiles,
    original: Path,
    record: Path,
    method: str,
    dataset: str,
    seed: int,
    rate: str,
    settings: Sections,
    around: Surroundings,
    system: Path | None = None,
) -> System | None:
    """Apply a method to an original. Returns the unlearned system.

    Returns None if the method or its original diverged. In this case, the tables show the reason,
    and the log of the job that diverged first.

    Parameters
    ----------
    original
        The file of the trained system.
    record, system
        The outputs. If `system` is None, the unlearned system is not saved.
    settings
        The sections of the original's training and of fine-tuning, and `method`, the method's own.
    """
    device = around.device
    start_time = now()
    applied = prepare.find_method(method, settings)
    data = prepared.load(files.images.parent)
    split = forget_sets.split(data, files.forget, files.absent)
    recipe = prepare.make_recipe(applied, settings, seed, dataset)
    sets = prepare.make_sets(applied, data, split, device, around.resident_share)
    stage = Stage(seed, dataset, "unlearn", rate, applied.name)
    tuning = prepare.make_tuning(recipe, settings)
    request = prepare.make_request(applied, split, sets, stage, recipe, tuning, device)
    try:
        before = prepare.load_original(applied, recipe, data, original, device)
        with Stopwatch(device) as watch:
            unlearned = applied.unlearn(before, request, settings["method"])
        systems.require_finite(unlearned)
    except DivergedError as error:
        why = error.reason(around.log)
        warn(f"diverged: {why}")
        if system:
            systems.save_diverged(system, why)
        write_record(record, settings, device, start_time, request.history, {DIVERGED: why})
        return None
    if system:
        systems.save(system, unlearned)
    facts = {"unlearn_s": watch.seconds, "facts": request.facts}
    write_record(record, settings, device, start_time, request.history, facts)
    return unlearned
