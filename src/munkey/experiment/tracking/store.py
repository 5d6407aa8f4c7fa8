"""An MLflow store, used through MLflow's client: it opens, or it is refused within seconds and in a sentence."""

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

LOCK = Path(".snakemake/mlflow.lock")  # for a server; an SQLite file has a lock beside it
ARTIFACTS = "mlartifacts"  # the folder beside an SQLite file
WAIT_S = 10  # for a server to answer, and for another process to unlock an SQLite file
TURN_S = 600  # for other processes that log
DEFAULTS = {  # the user may set these in the environment
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": str(WAIT_S),
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
}


class StoreError(OSError):
    """An MLflow store cannot be used. The message says which one, why and what to do."""


@contextmanager
def open_store(uri: str) -> "Iterator[MlflowClient]":
    """Open the store at `uri`, alone: other processes of this folder, or of an SQLite file, wait.

    Raises
    ------
    StoreError
        If the store refuses, does not answer, is locked or is not a store, also inside the block.
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
                # MLflow would try for minutes to open a file that is locked or no database.
                connection = sqlite3.connect(database, timeout=WAIT_S, isolation_level=None)
                with closing(connection):
                    connection.execute("BEGIN IMMEDIATE")
            yield MlflowClient(address)
    except StoreError:
        raise
    except (MlflowException, SQLAlchemyError, CommandError, sqlite3.Error, OSError) as error:
        raise StoreError(
            f"The MLflow store at tracking.uri = {hide_credentials(uri)} cannot be used: {_explain(error)}."
            " All results are on disk; once the store works, the next run or `munkey mlflow sync` shows them there"
        ) from error


def find_database(uri: str) -> Path | None:
    """Return the file of an SQLite store; None for a server."""
    if not uri.startswith("sqlite:///"):
        return None
    return Path(uri.removeprefix("sqlite:///")).resolve()


def experiment_id(client: "MlflowClient", name: str, database: Path | None) -> str:
    """Return the id of an experiment, which is created if it is missing.

    Raises StoreError if an SQLite file was moved or copied: MLflow keeps the absolute path of an
    experiment's artifacts, so they would be logged beside the old file.
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
            experiment = client.get_experiment_by_name(name)  # another process created it just now
            if experiment is None:
                raise
    if experiment.lifecycle_stage == "deleted":
        restore = f"mlflow experiments restore --experiment-id {experiment.experiment_id}"
        raise MlflowException(f"its experiment {name} was deleted: `{restore}` brings it back")
    if location and experiment.artifact_location != location:
        raise StoreError(
            f"The MLflow store {database} was moved or copied: its experiment {name} keeps artifacts in"
            f" {experiment.artifact_location}. All results are on disk; name a new store in params.yaml, e.g."
            " tracking.uri: sqlite:///mlflow-2.db, and `munkey mlflow sync` fills it"
        )
    return experiment.experiment_id


def hide_credentials(uri: str) -> str:
    """Return the address of a store without a user's name and password."""
    return re.sub(r"//[^/@]*@", "//", uri)


def iterate_pages(search: "Callable[..., PagedList[ItemT]]", *arguments: object) -> Iterator[ItemT]:
    """Yield all results of a search of the client, page after page."""
    token = None
    while True:
        page = search(*arguments, page_token=token)
        yield from page
        token = page.token
        if not token:
            return


def _explain(error: BaseException) -> str:
    """Explain in one line why a store cannot be used.

    The line is the error of the system or of SQLite, which libraries wrap in errors of their own.
    """
    cause: BaseException | None = error
    while cause:
        if isinstance(cause, OSError | sqlite3.Error):
            error = cause
        cause = cause.__cause__ or cause.__context__
    if type(error) is TimeoutError:  # not a lock's
        return f"it did not answer in time ({WAIT_S} s unless MLFLOW_HTTP_REQUEST_TIMEOUT says otherwise)"
    return " ".join(str(error).split())[:300]
