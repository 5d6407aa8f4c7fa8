"""Stores that cannot be used: each is told in a sentence, and none is waited for without end."""

import socket
import sqlite3
import threading
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from mlflow.exceptions import MlflowException

from munkey.experiment.tracking import store as stores
from munkey.experiment.tracking.store import (
    StoreError,
    get_experiment_id,
    iterate_pages,
    open_store,
)


def refusal(uri: str) -> str:
    with pytest.raises(StoreError) as refused, open_store(uri) as client:
        client.search_experiments()
    return str(refused.value)


@pytest.fixture
def silent() -> Iterator[tuple[str, list[socket.socket]]]:
    """The address of a server that accepts connections and never answers, and the connections."""
    connections: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def accept() -> None:
            while True:
                try:
                    connections.append(listening.accept()[0])
                except OSError:
                    return

        thread = threading.Thread(target=accept)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}", connections
        listening.shutdown(socket.SHUT_RDWR)
    thread.join()
    for connection in connections:
        connection.close()


def test_a_refused_connection_is_named_with_what_to_do_and_without_the_password(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    message = refusal("http://me:secret@127.0.0.1:9")
    for part in ("http://127.0.0.1:9", "Connection refused", "on disk", "`munkey mlflow sync`"):
        assert part in message
    assert "secret" not in message


def test_a_server_that_never_answers_is_asked_once(silent, tmp_path, monkeypatch):
    uri, connections = silent
    monkeypatch.chdir(tmp_path)
    assert stores.DEFAULTS["MLFLOW_HTTP_REQUEST_TIMEOUT"] == "10"
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "1")
    assert "10 s" in refusal(uri)
    assert len(connections) == 1


def test_a_file_that_stays_locked_is_refused(checkout, monkeypatch):
    monkeypatch.setattr(stores, "WAIT_S", 0.5)
    other = sqlite3.connect("mlflow.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    assert "cannot be used: database is locked" in refusal("sqlite:///mlflow.db")
    other.execute("ROLLBACK")
    with open_store("sqlite:///mlflow.db") as client:
        (experiment,) = client.search_experiments()
        assert experiment.name == "Default"
    other.close()


def test_a_store_that_another_process_holds_is_refused_by_its_lock(checkout, monkeypatch):
    monkeypatch.setattr(stores, "TURN_S", 0.2)
    with open_store("sqlite:///mlflow.db"):
        assert "mlflow.db.lock" in refusal("sqlite:///mlflow.db")


class Taken:
    """A client in whose store others make the experiment `digits`, and no other, between two questions."""

    def __init__(self) -> None:
        self.queries = 0

    def get_experiment_by_name(self, name: str) -> SimpleNamespace | None:
        self.queries += 1
        if name == "digits" and self.queries > 1:
            return SimpleNamespace(experiment_id="7", lifecycle_stage="active")
        return None

    def create_experiment(self, name: str, artifact_location: str | None) -> str:
        raise MlflowException(f"{name} cannot be made")


def test_an_experiment_that_another_process_has_just_created_is_used():
    assert get_experiment_id(Taken(), "digits", None) == "7"  # type: ignore[arg-type]
    with pytest.raises(MlflowException, match="other cannot be made"):
        get_experiment_id(Taken(), "other", None)  # type: ignore[arg-type]


def test_a_search_goes_on_until_its_last_page():
    class Page(list):
        token = None

    def search(filter_string, page_token):
        page = Page([f"{filter_string}{page_token}"])
        page.token = {None: "1", "1": "2"}.get(page_token)
        return page

    assert list(iterate_pages(search, "page ")) == ["page None", "page 1", "page 2"]


@pytest.mark.parametrize(
    ("uri", "reason"),
    [
        ("sqlite:///garbage.db", "file is not a database"),
        ("sqlite:///folder", "unable to open database file"),
        ("sqlite:///garbage.db/mlflow.db", "File exists"),
        ("unknown://host", "unknown"),
    ],
)
def test_an_address_of_no_store_is_refused_and_its_file_is_unchanged(
    uri, reason, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "garbage.db").write_text("not a database" * 100)
    (tmp_path / "folder").mkdir()
    message = refusal(uri)
    assert f"tracking.uri = {uri} cannot be used" in message
    assert reason in message
    assert (tmp_path / "garbage.db").read_text() == "not a database" * 100
