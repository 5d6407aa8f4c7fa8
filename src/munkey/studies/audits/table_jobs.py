"""The jobs of audits: they measure, and write tables, figures and the chapter of the page."""

import html
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from munkey.audits.grid import Setting, make_grid_rows
from munkey.audits.main_run import (
    STORAGE_COLUMNS,
    MemoryFiles,
    make_attack_rows,
    make_storage_rows,
)
from munkey.audits.read_evidence import PlannedSystem, read_audits
from munkey.core.console import progress, warn
from munkey.core.diverged import DivergedError
from munkey.core.files import read_json, read_table, write_csv, write_json, write_text
from munkey.core.randomness import Stage
from munkey.data import forget_sets, prepared
from munkey.encoders import keys
from munkey.evaluation.records import Evaluation
from munkey.memory import neighbors as neighbor_files
from munkey.report.figures import theme
from munkey.report.page.chapters import Chapter, Figure, write_chapters
from munkey.report.tables import main as main_tables
from munkey.report.tables.markup import TitledTable, get_markup, render_or_note
from munkey.report.tables.shares import collect_residue
from munkey.report.tables.summary import Row, read_main, read_metrics
from munkey.settings import Sections
from munkey.studies.audits import tables
from munkey.studies.audits.figure import forest_plot, strata_plot
from munkey.studies.audits.grid_figure import grid_plot
from munkey.unlearn.contract import METHODS

INTRODUCTION = (
    "The models of each pair swap the halves of a pool: each model is trained on one half and then forgets it, while"
    " its partner never sees that half. 0%: the model treats a deleted sample as if it had never seen it. 100%: nothing"
    " was forgotten. No row states “forgotten”, because an attack that finds nothing only limits how much may remain."
    " How the audits work: docs/audits.md."
)
SHARES = (
    "Residual shares, {}: each method with its original, its oracle, and controls with known results. Bars are 95%"
    " intervals; the gray band contains 95% of the shares that occur by chance."
)
STRATA = (
    "Residual share by how much training on a sample had changed the model's output for it, without samples whose"
    " output hardly changed: {}."
)


def audit(
    systems: list[PlannedSystem],
    halves: list[Path],
    table: Path,
    controls: Path,
    markdown: Path,
    svg: Path,
    strata: Path,
    strata_svg: Path,
    dataset: str,
) -> None:
    """Audit how much each system remembers, and write verdicts, controls, tables and figures.

    Parameters
    ----------
    halves
        The half of the pool that each seed's model is trained on and then forgets.
    table
        The output: the verdicts, as CSV.
    controls
        The output: sentences on the controls, by family.
    strata, strata_svg
        The outputs: shares by how strongly samples were memorized, as a table and as a figure.
    """
    stage = Stage(dataset, "audit", "intervals")
    audits = list(progress(read_audits(systems, halves, stage), "family", "families"))
    rows: list[dict[str, object]] = []
    control_texts: dict[str, list[str]] = {}
    for family_audit in audits:
        rows.extend(family_audit.make_rows())
        sentences = [control.sentence for control in family_audit.controls]
        control_texts[family_audit.family] = sentences
    write_text(table, pd.DataFrame(rows).to_csv(index=False))
    write_json(controls, control_texts)
    verdicts = read_table(table)
    audit_table = tables.make_audit_table(tables.select_first_rows(verdicts), dataset)
    write_text(markdown, render_or_note([audit_table], "markdown"))
    theme.save(forest_plot(verdicts), svg.with_suffix(""))
    write_text(strata, render_or_note([tables.make_strata_table(verdicts, dataset)], "markdown"))
    theme.save(strata_plot(verdicts), strata_svg.with_suffix(""))


def audit_grid(
    settings: list[Setting],
    paths: list[str],
    halves: list[Path],
    table: Path,
    markdown: Path,
    svg: Path,
    dataset: str,
) -> None:
    """Audit how much the weights remember, for each setting of a grid, in a table and a figure.

    Parameters
    ----------
    paths
        The ways to query a memory (`munkey.report.tables.shares.MEMORY_PATHS`).
    """
    units = forget_sets.read_units(halves[:2])
    forgotten = [forget_sets.read(half) for half in halves]
    rows_by_setting = make_grid_rows(settings, paths, forgotten, units)
    rows: list[dict[str, object]] = []
    for setting_rows in progress(rows_by_setting, "setting", "settings"):
        rows.extend(setting_rows)
    write_text(table, pd.DataFrame(rows).to_csv(index=False))
    grid = read_table(table)
    write_text(markdown, render_or_note([tables.make_grid_table(grid, dataset)], "markdown"))
    theme.save(grid_plot(grid), svg.with_suffix(""))


def attacks(
    runs: list[Evaluation], rows: list[Row], metrics: Path, table: Path, markdown: Path
) -> None:
    """Attack each system of the main run, and show the results next to the paper's MIA.

    The attacks need only the system's own logits.
    """
    attack_rows: list[dict[str, object]] = []
    for run in progress(runs, "system", "systems"):
        attack_rows.extend(make_attack_rows(run))
    results = pd.DataFrame(attack_rows)
    write_text(table, results.to_csv(index=False))
    attack_tables = tables.make_attack_tables(results, read_metrics([metrics]), rows)
    write_text(markdown, render_or_note(attack_tables, "markdown"))


def storage(systems: list[MemoryFiles], table: Path, markdown: Path) -> None:
    """Search the files of unlearned systems and their originals for traces of deleted samples."""
    rows: list[dict[str, object]] = []
    for files in progress(systems, "system", "systems"):
        rows.extend(make_storage_rows(files))
    write_csv(table, rows, STORAGE_COLUMNS)
    write_text(markdown, render_or_note(tables.make_storage_tables(read_table(table)), "markdown"))


def differencing(
    images: Path,
    keyfile: Path,
    neighbors: Path,
    originals: list[Path],
    table: Path,
    markdown: Path,
    dataset: str,
    settings: dict[str, Sections],
    device: str,
) -> None:
    """Delete samples singly and in batches, and attack with both the old and the new model.

    Parameters
    ----------
    originals
        The system that each method starts from.
    settings
        The sections of each method by name, in the order of `originals`.
    """
    # These modules import torch, which no other audit needs.
    from munkey.audits.two_versions import Attacker
    from munkey.models import system as systems

    data = prepared.load(images.parent)
    members = keys.read(keyfile, data.get_ids("train"))
    public = keys.read(keyfile, data.get_ids("val"))
    near = neighbor_files.read_neighbors(neighbors, members.ids)
    stage = Stage(dataset, "differencing")
    attacker = Attacker(data, members, near, public, stage, device)
    rows: list[dict[str, object]] = []
    originals_and_methods = list(zip(originals, settings, strict=True))
    for original, name in progress(originals_and_methods, "system", "systems"):
        method = METHODS[name]
        try:
            system = systems.load(original, device=device)
            rows += list(attacker.make_rows(method, system, settings[name]))
        except DivergedError as error:
            warn(f"{method.title} is left out because it or its original diverged: {error}")
    precisions = pd.DataFrame(rows)
    write_text(table, precisions.to_csv(index=False))
    precision_tables = tables.make_differencing_tables(precisions, dataset)
    write_text(markdown, render_or_note(precision_tables, "markdown"))


def main_audited(
    main_table: Path,
    differences: Path,
    audit_tables: list[Path],
    rows: list[Row],
    outputs: Mapping[str, Path],
) -> None:
    """Write the main table with an additional column, the audits' residual shares.

    Parameters
    ----------
    audit_tables
        The tables of the audits, each in the folder of its data set.
    """
    audits = {path.parent: read_table(path) for path in audit_tables}
    residue = collect_residue(audits)
    main = read_main(main_table, differences)
    for path in outputs.values():
        text = main_tables.render_main_table(main, rows, get_markup(path), residue)
        write_text(path, text)


def audit_chapter(
    table: Path,
    controls: Path,
    svg: Path,
    strata_svg: Path,
    storage: Path,
    attacks: Path,
    metrics: Path,
    rows: list[Row],
    dataset: str,
    chapter: Path,
) -> None:
    """Write the chapter of a data set: controls, strata, traces in files, and attacks on one model.

    Parameters
    ----------
    table, controls, svg, strata_svg
        What `audit` wrote.
    storage, attacks
        The tables that `storage` and `attacks` wrote.
    metrics
        The metrics of all systems, including MIA.
    """
    verdicts = read_table(table)
    shown_rows = tables.select_first_rows(verdicts)
    titled = [
        make_control_table(read_json(controls), dataset),
        tables.make_audit_table(shown_rows, dataset),
        tables.make_strata_table(shown_rows, dataset),
        *tables.make_storage_tables(read_table(storage)),
    ]
    for attack_table in tables.make_attack_tables(
        read_table(attacks), read_metrics([metrics]), rows
    ):
        titled.append(attack_table._replace(title=f"Attacks on one model: {attack_table.title}"))
    figures = []
    for path, caption, plot in ((svg, SHARES, forest_plot), (strata_svg, STRATA, strata_plot)):
        figures.append(
            Figure(
                name=f"{path.stem}-{dataset}",
                caption=caption.format(dataset),
                data=theme.make_data_url(path),
                file=f"../audit/{dataset}/{path.name}",
                narrow=theme.make_data_url(plot(verdicts, theme.NARROW)),
            )
        )
    title = "How much of the deleted data remains?"
    files = [f"../audit/{dataset}/{name}.csv" for name in ("table", "storage", "attacks")]
    write_chapters(chapter, [Chapter("audit", title, titled, [INTRODUCTION], files, figures)])


def make_control_table(controls: Mapping[str, Sequence[str]], dataset: str) -> TitledTable:
    """Return a table of the controls. Those that failed are repeated below it.

    Parameters
    ----------
    controls
        Sentences on the controls, by family.
    """
    table_rows = []
    failures = []
    for family, sentences in controls.items():
        for sentence in sentences:
            table_rows.append({"Family": family, "Control": html.escape(sentence)})
            if "but must not" in sentence:
                failures.append(f"{family}: {sentence}")
    title = f"{dataset}: controls, whose results are known beforehand"
    frame = pd.DataFrame(table_rows, columns=["Family", "Control"])
    return TitledTable(title, frame, ". ".join(failures))
