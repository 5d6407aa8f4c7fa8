"""Training: originals on all samples, oracles on the retain set.

The training step is in `munkey.training.loop.TrainingLoop`. A family without trained weights is
fitted to the samples' keys instead.
"""

from pathlib import Path

from munkey.core.console import warn
from munkey.core.device import Stopwatch
from munkey.core.diverged import DIVERGED, DivergedError
from munkey.data import forget_sets, prepared
from munkey.data.image_set import image_set, move_to_gpu_if_it_fits
from munkey.encoders import keys
from munkey.experiment.run.job import Surroundings
from munkey.experiment.run.record import now, write_record
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
    """Train an original (subset `full`) or an oracle (subset `rateR`) of a family.

    If the training diverges, the job does not fail, and the tables show the reason and the log.

    Parameters
    ----------
    system, record
        The outputs.
    settings
        The sections of the parameters that the family reads.
    code
        A digest of the code. Training does not resume from a checkpoint of other code.
    """
    device = around.device
    start_time = now()
    model_family = FAMILIES[family]
    data = prepared.load(files.images.parent)
    retain = forget_sets.split(data, files.forget, files.absent).retain
    if isinstance(model_family, FittedFamily):
        assert files.keyfile
        retain_keys = keys.read(files.keyfile, retain)
        family_settings = model_family.read_section(settings)
        stage = model_family.make_stage(seed, dataset, subset)
        with Stopwatch(device) as watch:
            labels = data.labels[data.rows(retain)]
            fitted = model_family.fit(
                retain_keys, labels, len(data.classes), family_settings, stage
            )
        systems.save(system, fitted)
        write_record(record, settings, device, start_time, [], {"train_epoch_s": watch.seconds})
        return
    selected = training_inputs.read_selected_knobs(files.selected)
    stage = model_family.make_stage(seed, dataset, subset)
    recipe = model_family.make_recipe(settings, stage, selected)
    samples = move_to_gpu_if_it_fits(image_set(data, retain), device, around.resident_share)
    members = training_inputs.read_member_keys(
        model_family, recipe, samples.ids, files.keyfile, files.neighbors
    )
    checkpoint = CheckpointFile.for_training(
        [code, settings, recipe.stage, device, system], files.list_files(), around.checkpoint_s
    )
    training = Training(
        samples, len(data.classes), recipe, device, members=members, checkpoint=checkpoint
    )
    facts: dict[str, object] = {}
    if selected:
        facts["selected"] = selected
    try:
        trained = model_family.train(training)
        systems.require_finite(trained.system)
    except DivergedError as error:
        why = error.reason(around.log)
        warn(f"diverged: {why}")
        systems.save_diverged(system, why)
        write_record(record, settings, device, start_time, [], facts | {DIVERGED: why})
    else:
        systems.save(system, trained.system)
        facts |= {"train_epoch_s": model_family.estimate_epoch_seconds(trained.history, recipe)}
        write_record(record, settings, device, start_time, trained.history, facts)
    checkpoint.remove()
