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
from munkey.experiment.run.job import now
from munkey.experiment.run.record import write_record
from munkey.models import system as systems
from munkey.models import training_inputs
from munkey.models.family import FAMILIES, FittedFamily, Training
from munkey.models.training_inputs import Sections
from munkey.training.checkpoint import CheckpointFile


def train(
    images: Path,
    system: Path,
    record: Path,
    family: str,
    dataset: str,
    seed: int,
    subset: str,
    settings: Sections,
    device: str,
    forget: Path | None = None,
    absent: Path | None = None,
    keyfile: Path | None = None,
    neighbors: Path | None = None,
    selected: Path | None = None,
    resident_share: float = 0.5,
    checkpoint_s: float = 60.0,
    code: str = "",
    log: str = "",
) -> None:
    """Train a family: the same code from the same fresh start for an original (subset `full`) and an oracle (`rateR`).

    system, record: what is written; settings: the sections of the parameters that the family reads; forget, absent: the
    forget set of an oracle, and what an audit's models never see; keyfile, neighbors: of a family with a memory;
    selected: what the selection of p_image and p_token chose. resident_share: how much of a GPU's free memory images
    may take; checkpoint_s: seconds between two checkpoints; code: a checkpoint of other code is not resumed.

    A training that diverges does not fail: its row of the tables says so, and names `log`.
    """
    started, trained_as, data = now(), FAMILIES[family], prepared.load(images.parent)
    retain = forget_sets.split(data, forget, absent).retain
    if isinstance(trained_as, FittedFamily):
        assert keyfile
        held, own = keys.read(keyfile, retain), trained_as.section(settings)
        with Stopwatch(device) as watch:
            labels, stage = data.labels[data.rows(retain)], trained_as.stage(seed, dataset, subset)
            fitted = trained_as.fitted(held, labels, len(data.classes), own, stage)
        systems.save(system, fitted)
        write_record(record, settings, device, started, [], {"train_epoch_s": watch.seconds})
        return
    sections = training_inputs.with_selected(settings, trained_as, selected)
    recipe = trained_as.recipe(sections, trained_as.stage(seed, dataset, subset))
    samples = resident(image_set(data, retain), device, resident_share)
    members = training_inputs.member_keys(trained_as, recipe, samples.ids, keyfile, neighbors)
    inputs = [file for file in (images, forget, absent, keyfile, neighbors, selected) if file]
    checkpoint = CheckpointFile.of([code, settings, recipe.stage, device, system], inputs, checkpoint_s)
    training = Training(samples, len(data.classes), recipe, device, members=members, checkpoint=checkpoint)
    facts: dict[str, object] = {**training_inputs.selected(selected)}
    try:
        trained = trained_as.train(training)
        systems.require_finite(trained.system)
    except DivergedError as error:
        why = error.reason(log)
        warn(f"diverged: {why}")
        systems.save_diverged(system, why)
        write_record(record, settings, device, started, [], facts | {DIVERGED: why})
    else:
        systems.save(system, trained.system)
        facts |= {"train_epoch_s": trained_as.epoch_seconds(trained.history, recipe)}
        write_record(record, settings, device, started, trained.history, facts)
    checkpoint.remove()
