"""Opening an MLflow store, or failing within seconds with a clear message."""

import os
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from mlflow.store.entities import PagedList
    from mlflow.tracking import MlflowClient

ItemT = TypeVar("ItemT")

LOCK = Path(".snakemake/mlflow.lock")  # for a server; the lock of an SQLite file is next to it
ARTIFACTS = "mlartifacts"  # the folder next to an SQLite file
WAIT_S = 10  # for a server to respond, or for another program to unlock an SQLite file
TURN_S = 600  # for other processes of munkey that log
DEFAULTS = {  # of environment variables, unless the user sets them
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": str(WAIT_S),
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
}


class StoreError(OSError):
    """An MLflow store cannot be used. The message says which store, why, and what to do."""


@contextmanager
def open_store(uri: str) -> "Iterator[MlflowClient]":
    """Open the store at `uri` exclusively.

    Other munkey processes wait if they use the same SQLite file or, for a server, the same folder.

    Raises
    ------
    StoreError
        If the store is not valid, refuses the connection, does not respond, or is locked. Such
        errors inside the block are also raised as StoreError.
    """
    for name, value in DEFAULTS.items():
        os.environ.setdefault(name, value)
    from alembic.util import CommandError
    from filelock import FileLock
    from mlflow.exceptions import MlflowException
    from mlflow.tracking import MlflowClient
    from sqlalchemy.exc import SQLAlchemyError

    database = find_database(uri)
    address = uri
    lock = LOCK
    if database:
        lock = database.with_name(f"{database.name}.lock")
        address = f"sqlite:///{database}"
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(lock, timeout=TURN_S):
            if database:
                # MLflow would retry for minutes if the file is locked, or is not a database.
                connection = sqlite3.connect(database, timeout=WAIT_S, isolation_level=None)
                with closing(connection):
                    connection.execute("BEGIN IMMEDIATE")
            yield MlflowClient(address)
    except StoreError:
        raise
    except (MlflowException, SQLAlchemyError, CommandError, sqlite3.Error, OSError) as error:
        raise StoreError(
            f"The MLflow store at tracking.uri = {hide_credentials(uri)} cannot be used:"
            f" {_explain(error)}. All results are on disk; once the store works, the next run or"
            " `munkey mlflow sync` logs them there"
        ) from error


def find_database(uri: str) -> Path | None:
    """Return the file of an SQLite store, or None for a server."""
    if not uri.startswith("sqlite:///"):
        return None
    return Path(uri.removeprefix("sqlite:///")).resolve()


def get_experiment_id(client: "MlflowClient", name: str, database: Path | None) -> str:
    """Return the id of an experiment, which is created if it does not exist.

    Raises MlflowException if it was deleted, and StoreError if an SQLite file was moved or copied:
    artifacts would be logged next to the old file.
    """
    from mlflow.exceptions import MlflowException

    location = None
    if database:
        location = f"{(database.parent / ARTIFACTS).as_uri()}/{name}"
    experiment = client.get_experiment_by_name(name)
    if experiment is None:
        try:
            return client.create_experiment(name, artifact_location=location)
        except MlflowException:
            # Another process may just have created it.
            experiment = client.get_experiment_by_name(name)
            if experiment is None:
                raise
    if experiment.lifecycle_stage == "deleted":
        restore = f"mlflow experiments restore --experiment-id {experiment.experiment_id}"
        raise MlflowException(f"its experiment {name} was deleted: `{restore}` brings it back")
    if location and experiment.artifact_location != location:
        raise StoreError(
            f"The MLflow store {database} was moved or copied: its experiment {name} keeps"
            f" artifacts in {experiment.artifact_location}. All results are on disk; name a new"
            " store in params.yaml, e.g. tracking.uri: sqlite:///mlflow-2.db, and `munkey mlflow"
            " sync` fills it"
        )
    return experiment.experiment_id


def hide_credentials(uri: str) -> str:
    """Remove the user name and the password from the address of a store."""
    return re.sub(r"//[^/@]*@", "//", uri)


def iterate_pages(search: "Callable[..., PagedList[ItemT]]", *arguments: object) -> Iterator[ItemT]:
    """Yield all results of one of the client's searches, page by page."""
    token = None
    while True:
        page = search(*arguments, page_token=token)
        yield from page
        token = page.token
        if not token:
            return


def _explain(error: BaseException) -> str:
    """Explain in one line why a store cannot be used, by the innermost error."""
    cause: BaseException | None = error
    while cause:
        if isinstance(cause, OSError | sqlite3.Error):
            error = cause
        cause = cause.__cause__ or cause.__context__
    if type(error) is TimeoutError:  # not that of the file lock, a subclass
        return f"it did not respond in time ({WAIT_S} s, unless MLFLOW_HTTP_REQUEST_TIMEOUT is set)"
    return " ".join(str(error).split())[:300]
