"""Training: originals on all samples, oracles on the retain set. The training step: `Fit` in munkey.training.loop.

A family that does not learn is fitted to the keys of the same samples instead.
"""

from pathlib import Path

from munkey.core.console import warn
from munkey.core.device import Stopwatch
from munkey.core.diverged import DIVERGED, DivergedError
from munkey.data import forget_sets, prepared
from munkey.data.image_set import image_set, resident
from munkey.encoders import keys
from munkey.experiment.run.job import Surroundings, now
from munkey.experiment.run.record import write_record
from munkey.models import system as systems
from munkey.models import training_inputs
from munkey.models.family import FAMILIES, FittedFamily, Training
from munkey.models.training_inputs import SampleFiles
from munkey.settings import Sections
from munkey.training.checkpoint import CheckpointFile


def train(
    files: SampleFiles,
    system: Path,
    record: Path,
    family: str,
    dataset: str,
    seed: int,
    subset: str,
    settings: Sections,
    around: Surroundings,
    code: str = "",
) -> None:
    """Train a family: the same code from the same fresh start for an original (subset `full`) and an oracle (`rateR`).

    system, record: what is written; settings: the sections of the parameters that the family reads; code: a checkpoint
    of other code is not resumed.

    A training that diverges does not fail: its row of the tables says so, and names its log.
    """
    device = around.device
    started, trained_as, data = now(), FAMILIES[family], prepared.load(files.images.parent)
    retain = forget_sets.split(data, files.forget, files.absent).retain
    if isinstance(trained_as, FittedFamily):
        assert files.keyfile
        held, own = keys.read(files.keyfile, retain), trained_as.section(settings)
        with Stopwatch(device) as watch:
            labels, stage = data.labels[data.rows(retain)], trained_as.stage(seed, dataset, subset)
            fitted = trained_as.fitted(held, labels, len(data.classes), own, stage)
        systems.save(system, fitted)
        write_record(record, settings, device, started, [], {"train_epoch_s": watch.seconds})
        return
    selected = training_inputs.selected(files.selected)
    recipe = trained_as.recipe(settings, trained_as.stage(seed, dataset, subset), selected)
    samples = resident(image_set(data, retain), device, around.resident_share)
    members = training_inputs.member_keys(trained_as, recipe, samples.ids, files.keyfile, files.neighbors)
    checkpoint = CheckpointFile.of([code, settings, recipe.stage, device, system], files.there(), around.checkpoint_s)
    training = Training(samples, len(data.classes), recipe, device, members=members, checkpoint=checkpoint)
    facts: dict[str, object] = {"selected": selected} if selected else {}
    try:
        trained = trained_as.train(training)
        systems.require_finite(trained.system)
    except DivergedError as error:
        why = error.reason(around.log)
        warn(f"diverged: {why}")
        systems.save_diverged(system, why)
        write_record(record, settings, device, started, [], facts | {DIVERGED: why})
    else:
        systems.save(system, trained.system)
        facts |= {"train_epoch_s": trained_as.epoch_seconds(trained.history, recipe)}
        write_record(record, settings, device, started, trained.history, facts)
    checkpoint.remove()
