"""An MLflow store, reached through MLflow's client alone: opened, or refused within seconds and in a sentence."""

import os
import re
import socket
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from mlflow.store.entities import PagedList
    from mlflow.tracking import MlflowClient

Item = TypeVar("Item")

OWNER = "MUNKEY_OWNER"  # the user may set it in the environment: who mirrors, in place of this machine and folder
LOCK = Path(".snakemake/mlflow.lock")  # held by the one mirror that is at work here; an SQLite file has its own
ARTIFACTS = "mlartifacts"  # the folder beside an SQLite file
UI = "http://127.0.0.1:5000"  # where `mlflow ui` listens
WAIT_S = 10  # for a server to answer, and for another process to unlock an SQLite file
TURN_S = 600  # for other mirrors to end
DEFAULTS = {  # of what the user may set in the environment
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": str(WAIT_S),
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
}


class StoreError(OSError):
    """An MLflow store cannot be used. The message says which one, why and what to do."""


@dataclass(frozen=True)
class MlflowStore:
    """An open store. database: its file if it is an SQLite store."""

    client: "MlflowClient"
    uri: str
    database: Path | None

    @property
    def site(self) -> str:
        """The address that the pages of its runs begin with."""
        return public(self.uri).rstrip("/") if self.uri.startswith("http") else UI

    def owner(self, configuration: str) -> str:
        """Whose the runs of a configuration are: its folder of results, as no other checkout names it in this store.

        An SQLite file has the path from the file to the folder, so that both may be moved together; any other store
        has machine and path, unless MUNKEY_OWNER is set.
        """
        results = Path("results", configuration).absolute()
        if self.database:
            return os.path.relpath(results, self.database.parent)
        owner = os.environ.get(OWNER)
        return f"{owner}/{configuration}" if owner else f"{socket.gethostname()}:{results}"

    def experiment(self, name: str) -> str:
        """The id of an experiment, which is made where it is missing.

        MLflow keeps the absolute path of an experiment's artifacts. That of an SQLite file that was moved or copied
        leads into the folder that it came from: such an experiment gets another name, and a new one its place.
        """
        from mlflow.exceptions import MlflowException

        location = f"{(self.database.parent / ARTIFACTS).as_uri()}/{name}" if self.database else None
        known = self.client.get_experiment_by_name(name)
        if known and location and known.artifact_location != location:
            before, ours, _ = known.artifact_location.rpartition(f"/{ARTIFACTS}/{name}")
            if ours:
                self.client.rename_experiment(known.experiment_id, f"{name} of {before} ({known.experiment_id})")
                known = None
        if known and known.lifecycle_stage == "deleted":
            restore = f"mlflow experiments restore --experiment-id {known.experiment_id}"
            raise MlflowException(f"its experiment {name} was deleted: `{restore}` brings it back")
        if known:
            return known.experiment_id
        try:
            return self.client.create_experiment(name, artifact_location=location)
        except MlflowException:
            known = self.client.get_experiment_by_name(name)  # made by another mirror, just now
            if known is None:
                raise
            return known.experiment_id


@contextmanager
def open_store(uri: str) -> Iterator[MlflowStore]:
    """The store at `uri`, while no other mirror is at work on it from this folder, or at all if it is an SQLite file.

    Raises StoreError where the store refuses, does not answer, is locked or is not a store, also in the block.
    """
    for name, value in DEFAULTS.items():
        os.environ.setdefault(name, value)
    from alembic.util import CommandError
    from filelock import FileLock
    from mlflow.exceptions import MlflowException
    from mlflow.tracking import MlflowClient
    from sqlalchemy.exc import SQLAlchemyError

    database = Path(uri.removeprefix("sqlite:///")).resolve() if uri.startswith("sqlite:///") else None
    lock = database.with_name(f"{database.name}.lock") if database else LOCK
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(lock, timeout=TURN_S):
            if database:  # MLflow would try for minutes to open what is locked or no database
                with closing(sqlite3.connect(database, timeout=WAIT_S, isolation_level=None)) as connection:
                    connection.execute("BEGIN IMMEDIATE")
            yield MlflowStore(MlflowClient(f"sqlite:///{database}" if database else uri), uri, database)
    except StoreError:
        raise
    except (MlflowException, SQLAlchemyError, CommandError, sqlite3.Error, OSError) as error:
        raise StoreError(
            f"The MLflow store at tracking.uri = {public(uri)} cannot be used: {_reason(error)}. All results are on"
            " disk; once the store works, the next run or `munkey mlflow sync` shows them there"
        ) from error


def public(uri: str) -> str:
    """The address of a store without a user's name and password."""
    return re.sub(r"//[^/@]*@", "//", uri)


def every(search: "Callable[..., PagedList[Item]]", *arguments: object) -> Iterator[Item]:
    """Everything that a search of the client finds, page after page."""
    token = None
    while True:
        page = search(*arguments, page_token=token)
        yield from page
        token = page.token
        if not token:
            return


def _reason(error: BaseException) -> str:
    """Why a store cannot be used, in one line: what the system or SQLite said, which libraries wrap several times."""
    cause: BaseException | None = error
    while cause:
        error = cause if isinstance(cause, OSError | sqlite3.Error) else error
        cause = cause.__cause__ or cause.__context__
    if type(error) is TimeoutError:  # not a lock's
        return f"it did not answer in time ({WAIT_S} s unless MLFLOW_HTTP_REQUEST_TIMEOUT says otherwise)"
    return " ".join(str(error).split())[:300]
