"""Train an original on all samples, or an oracle on the retain set: the same code from the same fresh start."""

from munkey import warm

warm.start()

from statistics import median

from munkey import data, forget, keys, neighbors, resume, runtime, system
from munkey.files import read_json
from munkey.images import image_set, resident
from munkey.models import architecture
from munkey.train import train

with runtime.job(snakemake.log[0], snakemake.threads):
    given, wildcards, kind = snakemake.input, snakemake.wildcards, snakemake.params.kind
    settings = runtime.sections(snakemake.params.settings)
    device, started = runtime.device(snakemake.resources.gpu), runtime.now()
    dataset = data.load(f"results/data/{snakemake.params.dataset}")
    retain, _ = forget.split(dataset, given.get("forget"))
    memory, key_dim, facts = None, None, {}
    if kind == "munkey":
        if given.get("selected"):
            facts["selected"] = read_json(given.selected)["chosen"]
            vars(settings.munkey).update(facts["selected"])
        near = neighbors.read_others(given.neighbors, retain, settings.munkey.neighbors[1])
        memory = settings.munkey, keys.read(given.keyfile, retain)[1], near
        key_dim = memory[1].shape[1]
    progress = resume.progress_of([snakemake.params, sorted(wildcards.items()), device], given)
    trained, history = train(
        kind,
        architecture(kind, settings, len(dataset.classes), key_dim),
        resident(image_set(dataset, retain), device, snakemake.config["resident_share"]),
        memory,
        settings.data,
        settings.train,
        stage=(wildcards.seed, snakemake.params.dataset, wildcards.subset, kind),
        device=device,
        report=print,
        resume=(progress, snakemake.config["checkpoint_s"]),
    )
    system.save(snakemake.output.system, trained)
    facts["train_epoch_s"] = median(epoch["seconds"] for epoch in history)
    runtime.record(snakemake.output.record, snakemake.params.settings, device, started, history, **facts)
    resume.remove(progress)
