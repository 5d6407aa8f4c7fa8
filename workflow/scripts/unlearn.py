"""Apply an unlearning method to an original; only the call of the method itself is timed."""

from munkey import warm

warm.start()

from munkey import data, forget, keys, runtime, system
from munkey.images import image_set, resident
from munkey.models import architecture
from munkey.randomness import torch_generator
from munkey.train import Recipe, Tuning
from munkey.unlearn import METHODS, Request

with runtime.job(snakemake.log[0], snakemake.threads):
    given, wildcards, method = snakemake.input, snakemake.wildcards, METHODS[snakemake.wildcards.method]
    settings = runtime.sections(snakemake.params.settings)
    device, started = runtime.device(snakemake.resources.gpu), runtime.now()
    dataset = data.load(f"results/data/{snakemake.params.dataset}")
    retain, forgotten = forget.split(dataset, given.forget)
    if method.base == "keys":
        ids, found = keys.read(given.keyfile, dataset.ids_of("train"))
        original = system.knn_index(ids, found, dataset.labels[dataset.rows(ids)], len(dataset.classes))
    else:
        expected = architecture(method.base, settings, len(dataset.classes))
        original = system.load(given.original, expected, device)
    request = Request(
        forgotten,
        torch_generator(wildcards.seed, snakemake.params.dataset, "unlearn", wildcards.rate, method.name),
        device,
        report=print,
        tuning=Tuning.of(settings.data, settings.train, settings.finetune) if "finetune" in vars(settings) else None,
        needs=method.needs,
        data={
            part: resident(image_set(dataset, ids), device, snakemake.config["resident_share"])
            if f"{part} images" in method.needs
            else image_set(dataset, ids)
            for part, ids in {"retain": retain, "forget": forgotten, "val": dataset.ids_of("val")}.items()
        },
        recipe=Recipe(settings.data, settings.train, (wildcards.seed, snakemake.params.dataset, "sisa"))
        if method.base == "sisa"
        else None,
    )
    with runtime.Stopwatch(device) as watch:
        unlearned = method.run(original, request, method.settings(**snakemake.params.settings["method"]))
    system.save(snakemake.output.system, unlearned)
    facts = {"unlearn_s": watch.seconds, "facts": request.facts}
    runtime.record(snakemake.output.record, snakemake.params.settings, device, started, request.history, **facts)
