"""Choose among the candidates of a method on validation and forget set; the chosen one becomes the method's result."""

from munkey import warm

warm.start()

import shutil
from dataclasses import asdict
from pathlib import Path

from munkey import data, evaluate, forget, metrics, runtime, search, system
from munkey.files import atomic, read_json, write_json
from munkey.images import image_set

with runtime.job(snakemake.log[0], snakemake.threads):
    given, output = snakemake.input, snakemake.output
    settings, device = runtime.sections(snakemake.params.settings), runtime.device(snakemake.resources.gpu)
    dataset = data.load(f"results/data/{snakemake.params.dataset}")
    parts = [image_set(dataset, ids) for ids in (dataset.ids_of("val"), forget.split(dataset, given.forget)[1])]

    def judged(path: str) -> search.Candidate:
        loaded = system.load(path, device=device)
        logits = [evaluate.predict(loaded, part, settings.data, device) for part in parts]
        return search.Candidate(
            *(metrics.accuracy(*pair) for pair in zip(logits, (p.labels for p in parts), strict=True))
        )

    records = [read_json(path) for path in given.records]
    with runtime.Stopwatch(device) as watch:
        candidates = [judged(path) for path in runtime.progress(given.systems, "candidate", "candidates")]
    before = judged(given.original).val_accuracy
    chosen = search.choose(candidates, before, settings.search_drop)
    table = [
        {"settings": record["settings"]["method"], "gap": candidate.gap, "unlearn_s": record["unlearn_s"]}
        | asdict(candidate)
        for record, candidate in zip(records, candidates, strict=True)
    ]
    seconds = watch.seconds + sum(record["unlearn_s"] for record in records)
    found = {"chosen": chosen, "original_val_accuracy": before, "search_s": seconds, "candidates": table}
    print(f"chosen: {table[chosen]}")
    write_json(output.found, found)
    with atomic(output.system) as temporary:
        shutil.copyfile(given.systems[chosen], Path(temporary))
    write_json(output.record, records[chosen] | {"search_s": seconds})
