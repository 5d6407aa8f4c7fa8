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
    accepted: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def accept() -> None:
            while True:
                try:
                    accepted.append(listening.accept()[0])
                except OSError:
                    return

        thread = threading.Thread(target=accept)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}", accepted
        listening.shutdown(socket.SHUT_RDWR)
    thread.join()
    for connection in accepted:
        connection.close()


def test_a_refused_connection_is_named_with_what_to_do_and_without_the_password(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    assert refusal("http://me:secret@127.0.0.1:9") == (
        "The MLflow store at tracking.uri = http://127.0.0.1:9 cannot be used: [Errno 111] Connection refused. All"
        " results are on disk; once the store works, the next run or `munkey mlflow sync` logs them there"
    )


def test_a_server_that_never_answers_is_asked_once(silent, tmp_path, monkeypatch):
    uri, accepted = silent
    monkeypatch.chdir(tmp_path)
    assert stores.DEFAULTS["MLFLOW_HTTP_REQUEST_TIMEOUT"] == "10"
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "1")
    assert "it did not respond in time (10 s, unless" in refusal(uri)
    assert len(accepted) == 1


def test_a_locked_file_is_waited_for_and_then_named(checkout, monkeypatch):
    monkeypatch.setattr(stores, "WAIT_S", 0.5)
    other = sqlite3.connect("mlflow.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    assert "cannot be used: database is locked" in refusal("sqlite:///mlflow.db")
    other.execute("ROLLBACK")
    with open_store("sqlite:///mlflow.db") as client:
        assert [each.name for each in client.search_experiments()] == ["Default"]
    other.close()


def test_another_process_that_logs_without_end_is_named(checkout, monkeypatch):
    monkeypatch.setattr(stores, "TURN_S", 0.2)
    with open_store("sqlite:///mlflow.db"):
        assert "mlflow.db.lock" in refusal("sqlite:///mlflow.db")


class Taken:
    """A client in whose store others make the experiment `digits`, and no other, between two questions."""

    def __init__(self) -> None:
        self.asked = 0

    def get_experiment_by_name(self, name: str) -> SimpleNamespace | None:
        self.asked += 1
        return (
            SimpleNamespace(experiment_id="7", lifecycle_stage="active")
            if name == "digits" and self.asked > 1
            else None
        )

    def create_experiment(self, name: str, artifact_location: str | None) -> str:
        raise MlflowException(f"{name} cannot be made")


def test_an_experiment_that_another_process_made_just_now_is_taken():
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
def test_what_is_no_store_is_named_and_left_as_it_is(uri, reason, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "garbage.db").write_text("not a database" * 100)
    (tmp_path / "folder").mkdir()
    said = refusal(uri)
    assert f"tracking.uri = {uri} cannot be used" in said and reason in said
    assert (tmp_path / "garbage.db").read_text() == "not a database" * 100
