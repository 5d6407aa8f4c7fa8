"""Train MUNKEY once more, watched: P_s after every epoch, tokens and [CLS] features at start, middle and end."""

from munkey import warm

warm.start()

from munkey import data, evaluate, keys, metrics, neighbors, runtime
from munkey.files import read_json, write_npz
from munkey.images import image_set, resident
from munkey.models import architecture
from munkey.train import train

with runtime.job(snakemake.log[0], snakemake.threads):
    given, dataset_name, seed = snakemake.input, snakemake.params.dataset, snakemake.wildcards.seed
    settings, device = runtime.sections(snakemake.params.settings), runtime.device(snakemake.resources.gpu)
    dataset = data.load(f"results/data/{dataset_name}")
    samples = resident(image_set(dataset, dataset.ids_of("train")), device, snakemake.config["resident_share"])
    if given.get("selected"):
        vars(settings.munkey).update(read_json(given.selected)["chosen"])
    near = neighbors.read_others(given.neighbors, samples.ids, settings.munkey.neighbors[1])
    held = keys.read(given.keyfile, samples.ids)[1]
    moments = {0: "start", settings.train.epochs // 2: "middle", settings.train.epochs: "end"}
    traced, arrays = [], {"labels": samples.labels}

    def watch(epoch, system):
        cut = evaluate.pathway_logits(system, samples, settings.data, device)
        accuracies = {name: metrics.accuracy(logits, samples.labels) for name, logits in cut.items()}
        named = {f"A_{name}": value for name, value in accuracies.items()}
        traced.append({"epoch": epoch} | named | {"P_s": metrics.pathway_sensitivity(**accuracies)})
        if epoch in moments:
            arrays[f"tokens_{epoch}"] = system.memory.tokens.detach().cpu().numpy().copy()
            arrays[f"features_{epoch}"] = evaluate.cls_features(system, samples, settings.data, device)
        return {}

    train(
        "munkey",
        architecture("munkey", settings, len(dataset.classes), held.shape[1]),
        samples,
        (settings.munkey, held, near),
        settings.data,
        settings.train,
        stage=(seed, dataset_name, "full", "munkey"),  # as the original's: the same training to the bit
        device=device,
        report=print,
        watch=watch,
    )
    arrays |= {name: [line[name] for line in traced] for name in traced[0]}
    write_npz(snakemake.output.trace, arrays)
