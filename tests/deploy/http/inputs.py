"""A service in this process, its tokens and its answers, which the tests of HTTP share."""

import asyncio
import http.client
import json
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import uvicorn

from munkey.deploy.http.bodies import RequestLimits
from munkey.deploy.http.server import configure
from munkey.deploy.http.service import create_app
from munkey.deploy.predictor import Predictor
from tests.conftest import wait

TOKENS = {"predict": "may predict", "verify": "may verify", "forget": "may forget"}
PNG = {"Content-Type": "image/png"}


class Answer(NamedTuple):
    """The answer to a request."""

    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)


class Running(NamedTuple):
    """A service in this process.

    go: set, it lets predictions go on, which wait for it. begun, computed: how many pictures each prediction has.
    """

    port: int
    picture: bytes
    go: threading.Event
    begun: list[int]
    computed: list[int]
    connections: set[Any]

    def ask(
        self, method: str, path: str, body: Any = b"", role: str | None = None, **headers: str
    ) -> Answer:
        """Send a request. body: bytes as they are, or anything else as JSON. role: whose token is sent, or a token."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        token = {"Authorization": f"Bearer {TOKENS.get(role, role)}"} if role else {}
        try:
            sent = body if isinstance(body, bytes) else json.dumps(body).encode()
            connection.request(method, path, sent, PNG | token | headers)
            answer = connection.getresponse()
            return Answer(answer.status, dict(answer.getheaders()), answer.read().decode())
        finally:
            connection.close()

    def begin(self, sent: int | None = None) -> socket.socket:
        """Begin a prediction, whose answer is not read. sent: how many bytes of its picture are sent."""
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        head = f"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Type: image/png\r\nContent-Length: {len(self.picture)}"
        head += f"\r\nAuthorization: Bearer {TOKENS['verify']}"
        connection.sendall(head.encode() + b"\r\n\r\n" + self.picture[:sent])
        return connection

    def metric(self, name: str) -> float:
        """The value of a metric; 0 if it is absent."""
        answer = self.ask("GET", "/metrics", role="verify")
        if answer.status == 200:
            assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
        lines = dict(line.rsplit(" ", 1) for line in answer.text.splitlines())
        return float(lines.get(f"munkey_{name}", 0))

    def wait_until(self, name: str, value: float) -> None:
        wait(lambda: self.metric(name) == value)


@contextmanager
def running(
    predictor: Predictor, picture: bytes, tokens: Mapping[str, str], limits: RequestLimits
) -> Iterator[Running]:
    """Serve a model whose predictions wait for the event `go`."""
    go = threading.Event()
    begun = []
    computed = []
    predict = predictor.predict

    def slow(images, **options):
        begun.append(len(images))
        go.wait(60)
        computed.append(len(images))
        return predict(images, **options)

    predictor.predict = slow
    config = configure(create_app(predictor, tokens, limits))
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=lambda: asyncio.run(server.serve([listener])))
        thread.start()
        try:
            port = listener.getsockname()[1]
            yield Running(port, picture, go, begun, computed, server.server_state.connections)
        finally:
            go.set()
            server.should_exit = True
            thread.join()
