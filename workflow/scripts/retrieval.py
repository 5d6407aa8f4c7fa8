"""Draw which neighbours a test sample and a forget sample retrieve, before and after deletion."""

from munkey import warm

warm.start()

from pathlib import Path
from types import SimpleNamespace

from munkey import data, forget, neighbors, panels, retrieval, runtime, style
from munkey.files import read_npz

with runtime.job(snakemake.log[0], snakemake.threads):
    given = snakemake.input
    dataset = data.load(Path(given.images).parent)
    forgotten = forget.read(given.forget)
    steps = [
        retrieval.Step(*neighbors.read(near, dataset.ids), read_npz(logits)["logits"])
        for near, logits in ((given.full, given.before), (given.left, given.after))
    ]
    rows = retrieval.examples(dataset, forgotten, *steps, SimpleNamespace(**snakemake.params.inference))
    style.save(panels.retrieval(rows), Path(snakemake.output.svg).with_suffix(""))
