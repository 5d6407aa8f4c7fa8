"""The report: tables, figures and what they came from, on one page."""

from munkey import warm

warm.start()

from pathlib import Path

import pandas as pd
import yaml

from munkey import ablations, page, paper, runtime, selection, tables, tracking
from munkey.files import atomic, read_json

with runtime.job(snakemake.log[0], snakemake.threads):
    given, params = snakemake.input, snakemake.params
    main, ablated = pd.read_csv(given.main), pd.read_csv(given.ablations)
    rows = [tables.Row(**row) for row in params.rows]
    both = paper.compared(main, ablated)
    statements = [paper.statement(name, settings, params.seeds) for name, settings in params.settings.items()]
    choices = [pd.read_csv(path) for path in given.selections]
    titles = {
        "ablations": "Ablations",
        "aggregation": "Aggregation",
        "strategies": "Strategies",
        "encoders": "Encoders",
    }
    sections = [
        page.section("main", "Unlearning", tables.main_frames(main, rows, "html")),
        page.section("runtime", "Run time", [("", tables.runtime_table(main, "html"))]),
        *(page.section(name, title, ablations.TABLES[name](ablated, "html")) for name, title in titles.items()),
        page.section(
            "selection",
            "Selection of p_image and p_token",
            [(table["dataset"][0], selection.table(table.to_dict("records"))) for table in choices],
        ),
        page.section("paper", "The paper's numbers", [("", paper.table(both))] if len(both) else [], statements),
    ]
    content = page.fill(
        Path(given.template),
        datasets=list(params.settings),
        grid=params.grid,
        sections=sections,
        figures=[page.figure(Path(path)) for path in given.figures],
        origin=page.origin([read_json(path) for path in given.records], runtime.now()),
        runs=tracking.addresses(params.uri, list(params.settings)),
        params=yaml.safe_dump(dict(snakemake.config), sort_keys=False),
    )
    with atomic(snakemake.output.page) as temporary:
        temporary.write_text(content)
