"""Many, silent, or slow clients do not keep others from the service. All on the loopback, and within seconds."""

import logging
import resource
import socket
import time
from contextlib import ExitStack, suppress

import pytest

from munkey.deploy.http import connections
from munkey.deploy.http.bodies import RequestLimits
from munkey.deploy.http.connections import MAX_CONNECTIONS, OncePerMinute
from munkey.deploy.predictor import Predictor
from tests.conftest import wait
from tests.deploy.http.inputs import TOKENS, running
from tests.deploy.inputs import model_in


@pytest.fixture
def service(tmp_path):
    """Predicting is open."""
    tokens = {"forget": TOKENS["forget"]}
    with (
        Predictor.load(model_in(tmp_path / "model"), device="cpu") as predictor,
        running(predictor, b"", tokens, RequestLimits()) as one,
    ):
        yield one


@pytest.fixture
def connect(service):
    """Connects to the service and sends some bytes. All connections are closed after the test."""
    with ExitStack() as stack:

        def open_one(sent: bytes = b"") -> socket.socket:
            client = socket.create_connection(("127.0.0.1", service.port), timeout=20)
            stack.enter_context(client)
            client.sendall(sent)
            return client

        yield open_one


def is_ended(client: socket.socket) -> bool:
    """Whether the service has closed a connection that it sent nothing."""
    client.setblocking(False)
    try:
        return client.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True


def send_until_closed(client: socket.socket, data: bytes) -> None:
    """Send data again and again, for at most a minute. Raises OSError when the service closes."""
    client.settimeout(60)
    begun = time.monotonic()
    while time.monotonic() - begun < 60:
        client.sendall(data)
        time.sleep(0.02)


@pytest.fixture
def _many_descriptors():
    """Both ends of a connection are in this process, and often it may open 1,024 files only."""
    before, limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(before, min(2048, limit)), limit))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (before, limit))


@pytest.mark.usefixtures("_many_descriptors")
def test_silent_connections_block_no_request_and_write_one_warning(
    service, connect, monkeypatch, caplog
):
    """The failure: 520 of them made every request 503, and each of these wrote a line."""
    monkeypatch.setattr(connections, "SILENCE_S", 60.0)  # none is closed because of its age
    silent = [connect() for _ in range(520)]
    for _ in range(20):
        assert service.ask("GET", "/health").status == 200
    assert service.ask("POST", "/forget", {"ids": [10]}, "forget").json["deleted"] == 1
    too_many = 520 + 1 - MAX_CONNECTIONS  # with that of a request
    for number, client in enumerate(silent):
        assert is_ended(client) == (number < too_many)
    levels = [record.levelno for record in caplog.records]
    assert levels.count(logging.WARNING) == 1
    assert max(levels) == logging.WARNING


@pytest.mark.parametrize(
    "sent", [b"", b"GET /health HTT", b"GET /health HTTP/1.1\r\nHost: x\r\n"], ids=len
)
def test_a_connection_that_sends_no_whole_head_is_closed(sent, connect, monkeypatch):
    monkeypatch.setattr(connections, "SILENCE_S", 0.3)
    client = connect(sent)
    begun = time.monotonic()
    assert client.recv(1) == b""
    assert time.monotonic() - begun < 10


def test_bytes_after_a_response_do_not_keep_a_connection_open(connect, monkeypatch):
    """The failure: one byte of a body that was refused unread, and uvicorn waits forever."""
    monkeypatch.setattr(connections, "SILENCE_S", 0.3)
    client = connect(b"POST /forget HTTP/1.1\r\nHost: x\r\nContent-Length: 8000\r\n\r\n")
    assert client.recv(12) == b"HTTP/1.1 401"
    with pytest.raises(OSError, match=r"reset|[Bb]roken"):
        send_until_closed(client, b" ")


def test_a_slow_request_in_progress_is_not_closed_as_silent(service, connect, monkeypatch):
    monkeypatch.setattr(connections, "SILENCE_S", 0.2)
    head = f"POST /forget HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKENS['forget']}\r\n"
    body = b'{"ids": [10]}'
    client = connect(f"{head}Content-Length: {len(body)}\r\n\r\n".encode())
    time.sleep(0.6)
    client.sendall(body)
    assert client.recv(12) == b"HTTP/1.1 200"


def test_a_client_that_reads_no_response_is_closed(service, connect, monkeypatch):
    monkeypatch.setattr(connections, "SILENCE_S", 60.0)
    monkeypatch.setattr(connections, "UNREAD_S", 0.3)
    client = connect()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.settimeout(0.1)
    wait(lambda: service.connections)

    def is_closed() -> bool:
        """Seen by the service: a client whose receive buffer is full may miss that it was reset."""
        with suppress(OSError):
            client.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n" * 50)
        return not service.connections

    wait(is_closed)
    assert service.ask("GET", "/health").status == 200


def test_a_deletion_is_served_while_all_other_places_are_taken(service, connect, monkeypatch):
    monkeypatch.setattr(connections, "MAX_REQUESTS", 2)
    request = b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n"
    clients = [connect(request), connect(request)]
    refused = []

    def is_refused() -> bool:
        refused.append(service.ask("GET", "/health"))
        return refused[-1].status == 503

    wait(is_refused)
    assert refused[-1].headers["retry-after"] == "1"
    assert "2 requests" in refused[-1].json["error"]
    assert service.ask("POST", "/forget", {"ids": [10]}, "forget").json["deleted"] == 1
    for client in clients:
        client.close()
    wait(lambda: service.ask("GET", "/health").status == 200)


def test_head_is_answered_wherever_get_is(service):
    for path in ("/health", "/rows", "/log", "/certificate", "/verify", "/metrics", "/docs"):
        role = None if path in ("/health", "/docs") else "forget"
        with_body = service.ask("GET", path, role=role)
        answer = service.ask("HEAD", path, role=role)
        assert (answer.status, answer.text) == (with_body.status, ""), path
        assert answer.headers["content-type"] == with_body.headers["content-type"]
    assert service.ask("HEAD", "/health").headers["content-length"] == "15"
    assert service.ask("HEAD", "/rows").status == 401
    assert service.ask("HEAD", "/predict").status == 405
    assert service.ask("GET", "/health").status == 200


def test_the_log_repeats_a_message_once_a_minute(monkeypatch):
    """Two errors count as one message if their type and text are the same."""
    once_per_minute = OncePerMinute()

    def passes(message: str, error: Exception | None = None) -> bool:
        exc_info = (type(error), error, None) if error else None
        record = logging.LogRecord("x", logging.WARNING, "", 0, message, (), exc_info)
        return once_per_minute.filter(record)

    clock = [0.0]
    monkeypatch.setattr(connections.time, "monotonic", lambda: clock[0])
    assert passes("Invalid HTTP request received.")
    assert passes("failed", ValueError("a"))
    assert passes("failed", ValueError("b"))
    clock[0] = 59.0
    assert not passes("Invalid HTTP request received.")
    assert not passes("failed", ValueError("a"))
    clock[0] = 60.0
    assert passes("Invalid HTTP request received.")
