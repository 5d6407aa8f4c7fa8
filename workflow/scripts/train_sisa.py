"""Train SISA's shards on all samples, or on the retain set: from the same start, so that deletion can be exact."""

from munkey import warm

warm.start()

from munkey import data, forget, resume, runtime, sisa, system
from munkey.images import image_set, resident
from munkey.models import architecture
from munkey.train import Recipe

with runtime.job(snakemake.log[0], snakemake.threads):
    wildcards, settings = snakemake.wildcards, runtime.sections(snakemake.params.settings)
    device, started = runtime.device(snakemake.resources.gpu), runtime.now()
    dataset = data.load(f"results/data/{snakemake.params.dataset}")
    retain, _ = forget.split(dataset, snakemake.input.get("forget"))
    recipe = Recipe(settings.data, settings.train, (wildcards.seed, snakemake.params.dataset, "sisa"))
    samples = resident(image_set(dataset, retain), device, snakemake.config["resident_share"])
    shape = architecture("sisa", settings, len(dataset.classes))
    progress = resume.progress_of([snakemake.params, sorted(wildcards.items()), device], snakemake.input)
    kept = progress, snakemake.config["checkpoint_s"]
    trained, history = sisa.train(shape, samples, recipe, device, print, kept)
    system.save(snakemake.output.system, trained)
    facts = {"train_epoch_s": sum(epoch["seconds"] for epoch in history) / settings.train.epochs}
    runtime.record(snakemake.output.record, snakemake.params.settings, device, started, history, **facts)
    resume.remove(progress)
