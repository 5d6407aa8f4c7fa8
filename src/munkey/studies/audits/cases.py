"""The cases of audits, audit/NAME, whose models swap the halves of a pool (docs/audits.md)."""

from collections.abc import Mapping
from itertools import product

from munkey.core.knobs import shorten_knobs
from munkey.experiment.params.case_faults import find_knob_faults
from munkey.experiment.params.overlays import (
    make_name_of_knobs,
    merge,
    read_knobs,
    read_sections,
)
from munkey.experiment.params.schema import Params, memory_family
from munkey.experiment.params.studies import Case
from munkey.settings import AuditInference
from munkey.studies.audits.settings import AuditSettings

PREFIX = "audit/"
POOL = f"{PREFIX}pool"  # the case with the parameters of the main run
CONTROL = f"{PREFIX}control"
# Paths within the results.
HALF = "audit/{dataset}/halves/seed{seed}.csv"
HARDEST_HALF = "audit/{dataset}/hardest/seed{seed}.csv"
MISLABELED = "audit/{dataset}/mislabeled"


def list_cases(params: Params, dataset: str) -> Mapping[str, Case]:
    """Return the cases of the pool, of the control, and of each point of the grid."""
    settings = params.section(AuditSettings)
    fixed = {memory_family().name: {"p_drop": "fixed"}}
    changes_by_name: dict[str, Mapping[str, object]] = {POOL: {}}
    for name, knobs in {"control": settings.control, **list_grid_points(settings)}.items():
        changes_by_name[f"{PREFIX}{name}"] = merge(fixed, read_sections(f"audit.{name}", knobs))
    forget = HARDEST_HALF if settings.pool_of == "hardest" else HALF
    prepared = MISLABELED if settings.pool_of == "mislabeled" else ""
    k = min(settings.k, params.for_case(dataset).keys.depth)
    cases = {}
    for name, changes in changes_by_name.items():
        cases[name] = Case(
            changes,
            setting="audit.control" if name == CONTROL else "audit.grid",
            forget=forget,
            scope=PREFIX.rstrip("/"),
            in_pairs=True,
            prepared=prepared,
            queries={"audit": AuditInference(k=k, fusion="softmax")},
            paths=settings.paths if name in (POOL, CONTROL) else (),
        )
    return cases


def list_grid_points(settings: AuditSettings) -> dict[str, dict[str, object]]:
    """Return the knobs that each case of the grid sets, by name. Duplicates are dropped."""
    knobs: list[str] = []
    for block in settings.grid:
        knobs += block
    names = shorten_knobs(knobs)
    points: dict[str, dict[str, object]] = {}
    for block in settings.grid:
        for values in product(*block.values()):
            point = dict(zip(block, values, strict=True))
            points[make_name_of_knobs(point, names)] = point
    return points


def find_faults(params: Params, dataset: str) -> list[str]:
    """Return messages about knobs that the control or the grid must not change."""
    settings = params.section(AuditSettings)
    control = read_knobs("audit.control", settings.control)
    grid: dict[str, object] = {}
    for point in list_grid_points(settings).values():
        grid |= point
    return [*find_knob_faults("audit.control", control), *find_knob_faults("audit.grid", grid)]
