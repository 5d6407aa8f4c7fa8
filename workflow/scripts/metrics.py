"""All metrics of a data set, from logits and records: one tidy CSV."""

from munkey import warm

warm.start()

from munkey import forget, metrics, runtime
from munkey.files import read_json, read_npz, write_csv
from munkey.randomness import numpy_generator

with runtime.job(snakemake.log[0], snakemake.threads):
    rows = []
    for run in runtime.progress(snakemake.params.runs, "system", "systems"):
        key = {name: run[name] for name in ("dataset", "case", "rate", "seed", "method") if run[name] != ""}
        generator = numpy_generator(run["seed"], run["dataset"], "attack", run["rate"])
        measured = metrics.measure(read_npz(run["logits"]), forget.read(run["forget"]), generator)
        record = read_json(run["record"])
        measured |= {name: record[name] for name in ("unlearn_s", "search_s") if name in record}
        measured |= {name: value for name, value in read_json(run["training"]).items() if name == "train_epoch_s"}
        rows += [key | {"metric": metric, "value": value} for metric, value in measured.items()]
    write_csv(snakemake.output.metrics, rows)
