"""A service in a process of its own, and a client over a real socket."""

import base64
import http.client
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

TOKEN = "a token for these tests"
JSON = {"Content-Type": "application/json"}
ALLOWED = JSON | {"Authorization": f"Bearer {TOKEN}"}


class Answer(NamedTuple):
    status: int
    json: Any


class Service(NamedTuple):
    """A running service."""

    process: subprocess.Popen[str]
    port: int
    said: str

    def ask(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] = JSON) -> Answer:
        """An answer. body: bytes as they are, or anything else as JSON."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)  # on a busy machine
        try:
            sent = body if isinstance(body, bytes | None) else json.dumps(body).encode()
            connection.request(method, path, sent, dict(headers))
            answer = connection.getresponse()
            return Answer(answer.status, json.loads(answer.read()))
        finally:
            connection.close()

    def forget(self, *ids: int) -> Answer:
        return self.ask("POST", "/forget", {"ids": ids}, ALLOWED)

    def predict(self, picture: Path, explain: bool = True) -> Answer:
        text = base64.b64encode(picture.read_bytes()).decode()
        return self.ask("POST", "/predict", {"images": [text], "explain": explain})


def command(model: Path, *words: str) -> list[str]:
    return [sys.executable, "-m", "munkey.cli", "serve", str(model), "--port", "0", *words]


@contextmanager
def serving(model: Path, token: str | None = TOKEN) -> Iterator[Service]:
    """`munkey serve` on any free port. Killed at the end, unless it has ended. token: None: it makes one up."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"} | ({"MUNKEY_TOKEN": token} if token else {})
    with subprocess.Popen(command(model), env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            said = ""
            while (line := process.stdout.readline()) and "/verify" not in line:
                said += line
            address = re.search(r"http://127\.0\.0\.1:(\d+)", said)
            assert address, f"it ended: {said}"
            yield Service(process, int(address[1]), said)
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
