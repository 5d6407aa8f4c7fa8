"""Audits (docs/audits.md): how much systems remember of deleted samples."""

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
from munkey.core.files import read_table, write_csv, write_json, write_text
from munkey.core.randomness import Stage
from munkey.data import forget_sets, prepared
from munkey.encoders import keys
from munkey.evaluation.records import Evaluation
from munkey.memory import neighbors as neighbor_files
from munkey.report.figures import theme
from munkey.report.figures.audit_grid import grid_plot
from munkey.report.figures.shares import forest_plot, strata_plot
from munkey.report.tables import audits as tables
from munkey.report.tables.markup import render_or_note
from munkey.report.tables.summary import Row, read_metrics
from munkey.settings import Sections
from munkey.unlearn.contract import METHODS


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
        The ways to query a memory (`munkey.report.tables.audits.PATHS`).
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
