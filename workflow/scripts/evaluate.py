"""Logits of a system on every sample of every split; for MUNKEY also with either pathway cut."""

from munkey import warm

warm.start()

from munkey import data, evaluate, neighbors, runtime, system
from munkey.files import write_npz
from munkey.images import image_set

with runtime.job(snakemake.log[0], snakemake.threads):
    settings, device = runtime.sections(snakemake.params.settings), runtime.device(snakemake.resources.gpu)
    dataset = data.load(f"results/data/{snakemake.params.dataset}")
    loaded = system.load(snakemake.input.system, device=device)
    samples, retrieval = image_set(dataset, dataset.ids), ()
    if loaded.memory is not None:
        retrieval = neighbors.read(snakemake.input.neighbors, dataset.ids), settings.inference
    logits = evaluate.predict(loaded, samples, settings.data, device, *retrieval)
    arrays = {"ids": dataset.ids, "labels": dataset.labels, "splits": dataset.splits, "logits": logits}
    if loaded.kind == "munkey":
        members = loaded.memory.ids.cpu().numpy()
        cut = evaluate.pathway_logits(loaded, image_set(dataset, members), settings.data, device)
        arrays |= {"memory_ids": members} | {f"{name}_logits": values for name, values in cut.items()}
    write_npz(snakemake.output.logits, arrays)
