"""Mirroring all results in MLflow.

It touches only runs of this checkout and configuration, and is idempotent: what has not changed stays as it is. What
has changed or is gone stays too, marked as superseded, until the user prunes it.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from munkey.experiment.tracking.store import Store, StoredRun, StoreError, opened
from munkey.experiment.tracking.tracking import Run, public


class Mirrored(NamedTuple):
    """counts: runs that were kept, created, restored (current again), superseded; pages: the address of each run;
    views: by name, the addresses that compare methods."""

    counts: dict[str, int]
    pages: list[str]
    views: dict[str, str]


class Place(NamedTuple):
    """What names a run of a configuration."""

    experiment: str
    name: str


def in_words(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {what}" for what, count in counts.items())


def record(uri: str, configuration: str, runs: Sequence[Run], attempt: int) -> dict[str, object]:
    """Mirror the runs. Returns the content of the file that stands for it, and prints what came of it.

    In that file, failure is why the store cannot be used, or None; then each run has its page, and views are addresses
    that compare methods. attempt: from `tracking.attempt`.
    """
    failure, pages = None, [""] * len(runs)
    views: dict[str, str] = {}
    try:
        counts, pages, views = mirror(uri, configuration, runs)
        print(f"MLflow at {public(uri)}, runs: {in_words(counts)}")
    except StoreError as error:
        failure = str(error)
        print(failure)
    shown = [
        {"name": run.name, "experiment": run.experiment, "page": page} for run, page in zip(runs, pages, strict=True)
    ]
    return {"uri": uri, "attempt": attempt, "failure": failure, "runs": shown, "views": views}


def mirror(uri: str, configuration: str, runs: Sequence[Run]) -> Mirrored:
    """Make the store at `uri` show exactly these runs as the current ones of this checkout and configuration.

    runs: each after the one that it is nested under. Waits while another mirror is at work. Raises StoreError where the
    store cannot be used; what it holds by then stays, and the next mirror goes on from there.
    """
    digests = [run.digest() for run in runs]  # before the store is opened: our own files are not its fault
    counts = Counter({"kept": 0, "created": 0, "restored": 0, "superseded": 0})
    with opened(uri, configuration) as store:
        views = store.show(runs)
        others = {run.id: run for run in store.runs()}
        whole = [run for run in others.values() if run.whole]
        known = {run.digest: run for run in sorted(whole, key=lambda run: run.current)}
        places: dict[Place, StoredRun] = {}
        for run, digest in zip(runs, digests, strict=True):
            parent = places[Place(run.experiment, run.parent)].id if run.parent else ""
            stored, change = _shown(store, run, digest, known.get(digest), parent)
            counts[change] += 1
            places[Place(run.experiment, run.name)] = stored
            others.pop(stored.id, None)
        counts["superseded"] = sum(_retired(store, stored) for stored in others.values())
        registered = {Place(run.experiment, run.name): run.registered for run in runs if run.registered}
        store.register({places[place].id: name for place, name in registered.items()})
    return Mirrored(dict(counts), [places[Place(run.experiment, run.name)].page for run in runs], views)


def _shown(store: Store, run: Run, digest: str, stored: StoredRun | None, parent: str) -> tuple[StoredRun, str]:
    """The run of the store that shows `run` as a current one, and what had to be done. stored: one that is alike."""
    if stored is None:
        return store.create(run, digest, parent), "created"
    if stored.parent != parent:
        store.nest(stored, parent)
    if stored.current:
        return stored, "kept"
    store.restore(stored)
    return stored, "restored"


def _retired(store: Store, stored: StoredRun) -> bool:
    """Mark a run that no result stands for any more; whether it has just been superseded."""
    if not stored.whole:
        store.delete(stored)  # an earlier mirror was killed while it made it
        return False
    if stored.current:
        store.supersede(stored)
    return stored.current
