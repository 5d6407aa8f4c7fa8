"""The service over a real socket: its answers and refusals, the tokens, and kills."""

import base64
import gzip
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from PIL import Image

from munkey.deploy.http.bodies import PredictRequest, RequestLimits, parse_json
from munkey.deploy.predictor import Predictor
from tests.deploy.inputs import IDS, model_in, picture_in, png_of

pytestmark = pytest.mark.slow  # each starts a process that loads a model
TOKEN = "a token for these tests"
JSON = {"Content-Type": "application/json"}
ALLOWED = JSON | {"Authorization": f"Bearer {TOKEN}"}
VERIFY = {"MUNKEY_VERIFY_TOKEN": "a token that verifies"}


class Answer(NamedTuple):
    status: int
    json: Any


class Service(NamedTuple):
    """A running service."""

    process: subprocess.Popen[str]
    port: int
    output: str

    def ask(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] = JSON
    ) -> Answer:
        """An answer. body: bytes as they are, or anything else as JSON."""
        # on a busy machine
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        try:
            sent = body if isinstance(body, bytes | None) else json.dumps(body).encode()
            connection.request(method, path, sent, dict(headers))
            answer = connection.getresponse()
            return Answer(answer.status, json.loads(answer.read()))
        finally:
            connection.close()

    def forget(self, *ids: int) -> Answer:
        return self.ask("POST", "/forget", {"ids": ids}, ALLOWED)

    def read(self, path: str) -> Answer:
        return self.ask("GET", path, headers=ALLOWED)

    def predict(self, picture: Path, explain: bool = True) -> Answer:
        text = base64.b64encode(picture.read_bytes()).decode()
        body = {"images": [text], "explain": explain}
        headers = ALLOWED if explain else JSON
        answer = self.ask("POST", "/predict", body, headers)
        while answer.status == 503:
            time.sleep(0.1)  # the queue is full
            answer = self.ask("POST", "/predict", body, headers)
        return answer


def command(model: Path, *words: str) -> list[str]:
    return [sys.executable, "-m", "munkey.cli", "serve", str(model), "--port", "0", *words]


@contextmanager
def serving(model: Path, token: str | None = TOKEN) -> Iterator[Service]:
    """`munkey serve` on any free port. Killed at the end, unless it has ended. token: None: it makes one up."""
    environment = os.environ | VERIFY | {"OMP_NUM_THREADS": "1"}
    words = []
    if token:
        file = model.parent / "the service's token"
        file.write_text(f"{token}\n")
        words = ["--token-file", str(file)]
    with subprocess.Popen(
        command(model, *words), env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            output = ""
            for line in process.stdout:
                output += line
                if "/verify" in line:
                    break
            address = re.search(r"http://127\.0\.0\.1:(\d+)", output)
            assert address, f"it ended: {output}"
            yield Service(process, int(address[1]), output)
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: "\n".join(text[start : start + 76] for start in range(0, len(text), 76)),
        lambda text: f"data:image/png;base64,{text}",
        lambda text: text.translate(str.maketrans("+/", "-_")),
    ],
    ids=["wrapped", "data URI", "URL-safe"],
)
def test_base64_of_any_tool_and_a_byte_order_mark_are_accepted(change):
    picture = png(40, 30)
    text = json.dumps({"images": [change(base64.b64encode(picture).decode())]})
    for mark in (b"", b"\xef\xbb\xbf"):
        assert parse_json(PredictRequest, mark + text.encode()).images == [picture]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("service")


@pytest.fixture(scope="module")
def service(folder: Path) -> Iterator[Service]:
    """One for all tests that delete nothing."""
    with serving(model_in(folder / "model")) as running:
        yield running


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model that no service has used."""
    return model_in(tmp_path / "model")


@pytest.fixture(scope="module")
def picture(folder: Path) -> Path:
    return picture_in(folder)


def png(width: int, height: int) -> bytes:
    """A black picture."""
    return png_of(Image.new("1", (width, height)))


def truncated() -> bytes:
    """The beginning of a picture."""
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    return png_of(noise)[:3000]


@pytest.mark.skipif(not shutil.which("curl"), reason="needs curl")
def test_the_commands_that_the_service_prints_work_in_a_shell(service, picture):
    assert TOKEN not in service.output  # the user has it
    assert VERIFY["MUNKEY_VERIFY_TOKEN"] not in service.output
    lines = service.output.split("Call it like this:")[1].replace("PICTURE.png", str(picture))
    done = subprocess.run(
        ["bash", "-c", lines], env=os.environ | VERIFY, capture_output=True, text=True, check=True
    )
    answers = [json.loads(answer) for answer in done.stdout.replace("}{", "}\n{").splitlines()]
    assert answers[0] == {"status": "ok"}
    assert len(answers[1]["predictions"]) == 1
    assert "neighbors" in answers[2]["predictions"][0]  # the token was right
    assert answers[3]["missing"] == ["1", "2", "3"]
    assert len(answers[4]["samples"]) == 10
    assert answers[5]["sound"]


def test_the_service_answers_as_the_predictor(service, folder, picture):
    answer = service.predict(picture)
    with Predictor.load(folder / "model") as predictor:
        expected = predictor.predict(picture)
    (prediction,) = answer.json["predictions"]
    assert answer.status == 200
    assert prediction["class"] == expected.classes[0]
    assert list(prediction["probabilities"].values()) == pytest.approx(
        expected.probabilities[0].tolist(), rel=1e-5
    )
    assert [near["id"] for near in prediction["neighbors"]] == expected.neighbors.ids[0].tolist()
    for media_type in ("image/png", "Image/PNG", "image/png; charset=binary"):
        raw = service.ask(
            "POST",
            "/predict?explain=true",
            picture.read_bytes(),
            ALLOWED | {"Content-Type": media_type},
        )
        assert raw == answer
    assert "neighbors" not in service.predict(picture, explain=False).json["predictions"][0]


def test_the_service_reports_its_health_and_verifies_itself(service):
    health = service.read("/health")
    report = service.read("/verify")
    assert health.status == report.status == 200
    purged = {"purged": True, "purged_at": None}
    assert health.json == {"status": "ok", "samples": 24, "head": report.json["head"]} | purged
    assert report.json["sound"]
    assert report.json["rows"] == 24
    elsewhere = service.read(f"/verify?published={'0' * 64}")
    assert not elsewhere.json["sound"]
    assert "older copy" in elsewhere.json["said"]


@pytest.mark.parametrize(
    ("method", "path", "body", "headers", "status", "sentence"),
    [
        ("GET", "/nowhere", None, JSON, 404, "no such path or method; there are"),
        ("GET", "/predict", None, JSON, 405, "no such path or method"),
        ("POST", "/predict", b"{", JSON, 422, "the body: Invalid JSON"),
        ("POST", "/predict", b"[" * 100_000, JSON, 422, "the body: "),
        ("POST", "/predict", b"\xff\xfe", JSON, 422, "the body: "),
        ("POST", "/predict", {}, JSON, 422, "1 to 64 rows"),
        ("POST", "/predict", {"images": "x"}, JSON, 422, "images: "),
        ("POST", "/predict", {"images": [], "more": 1}, JSON, 422, "more: Extra inputs"),
        ("POST", "/predict", {"images": []}, JSON, 422, "send 1 to 64 images"),
        ("POST", "/predict", {"images": ["?"]}, JSON, 422, "images.0: must be base64"),
        ("POST", "/predict", {"images": ["AAAA"]}, JSON, 422, "images.0: cannot be read"),
        ("POST", "/predict", {"images": ["AAAA"] * 65}, JSON, 422, "images: List should have at most 64"),
        ("POST", "/predict?explain=maybe", b"", {"Content-Type": "image/png"}, 422, "query.explain: "),
        ("POST", "/predict", {"images": [1] * 1_000_000}, JSON, 422, "images.0: "),
        ("POST", "/predict", dict.fromkeys(map(str, range(100_000))), JSON, 422, "the body: 100,000 faults, such as"),
        ("POST", "/predict", b"{}", {"Content-Type": "text/plain"}, 415, "image/png"),
        ("POST", "/predict", truncated(), {"Content-Type": "image/png"}, 422, "cannot be read"),
        ("POST", "/predict", png(6000, 5000), {"Content-Type": "image/png"}, 413, "30,000,000 pixels"),
        ("POST", "/predict", b"x" * (RequestLimits.bytes + 1), JSON, 413, "at most 8,388,608 bytes"),
        ("POST", "/predict", b"x" * RequestLimits.bytes, JSON, 422, "the body: "),
        ("POST", "/forget", {"ids": ["10"]}, ALLOWED, 422, "ids.0: "),
        ("POST", "/forget", {"ids": [1.5]}, ALLOWED, 422, "ids.0: "),
        ("POST", "/forget", {"ids": [-1]}, ALLOWED, 422, "between 0 and 2^63 - 2"),
        ("POST", "/forget", {"ids": [2**80]}, ALLOWED, 422, "between 0 and 2^63 - 2"),
        ("POST", "/forget", {"ids": [True]}, ALLOWED, 422, "ids.0: "),
        ("POST", "/forget", b"", ALLOWED, 422, "the body: "),
        ("POST", "/forget", b'{"ids": [10], "ids" : [11]}', ALLOWED, 422, "the key 'ids' twice"),
        ("POST", "/forget", gzip.compress(b"{}", mtime=0), ALLOWED, 415, "gzip"),
        ("POST", "/predict", b'{"images": [], "images": ["AAAA"]}', JSON, 422, "the key 'images' twice"),
        ("POST", "/forget", b"[" * 100_000, ALLOWED, 422, "the body: Invalid JSON"),
        ("POST", "/forget", b"\xff", ALLOWED, 422, "the body: Invalid JSON"),
        ("POST", "/forget", [10], ALLOWED, 422, "the body: "),
        ("POST", "/forget", {"ids": [10], "dry_run": "yes"}, ALLOWED, 422, "dry_run: "),
        ("POST", "/forget", {"ids": [10], "all": True}, ALLOWED, 422, "all: Extra inputs"),
        ("POST", "/forget", b"x" * (RequestLimits.bytes + 1), ALLOWED, 413, "at most 8,388,608 bytes"),
        ("GET", "/verify?published=abc", None, ALLOWED, 422, "'abc' is not the head"),
    ],
)  # fmt: skip
def test_a_malformed_request_is_refused_in_a_sentence(
    service, method, path, body, headers, status, sentence
):
    refused = service.ask(method, path, body, headers)
    assert refused.status == status, refused
    assert sentence in refused.json["error"]
    assert len(refused.json["error"]) < 300
    assert service.read("/health").json["samples"] == 24


def test_a_body_of_unknown_length_has_the_same_limit(service):
    with socket.create_connection(("127.0.0.1", service.port), timeout=60) as connection:
        connection.sendall(
            b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Type: image/png\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        for _ in range(20):
            connection.sendall(b"100000\r\n" + bytes(1 << 20) + b"\r\n")
        connection.sendall(b"0\r\n\r\n")
        answer = connection.recv(200)
    assert answer.startswith(b"HTTP/1.1 413")


def test_bytes_that_are_not_http_do_not_stop_the_service(service):
    with socket.create_connection(("127.0.0.1", service.port), timeout=60) as connection:
        connection.sendall(os.urandom(1000) + b"\r\n\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 400")
    assert service.ask("GET", "/health").status == 200


@pytest.mark.ci
def test_100_requests_at_once_with_deletions_among_them(model, picture):
    """A request that is sent after a deletion was acknowledged gets no deleted neighbor."""
    gone: set[int] = set()

    def predict(service: Service) -> int:
        before = set(gone)
        answer = service.predict(picture)
        for near in answer.json["predictions"][0]["neighbors"]:
            assert near["id"] not in before
        return answer.status

    def forget(service: Service, one: int) -> int:
        answer = service.forget(one)
        gone.add(one)
        return answer.status

    with serving(model) as service, ThreadPoolExecutor(100) as pool:
        ids = iter(IDS.tolist())
        answers = []
        for number in range(100):
            if number % 10 == 5:
                answers.append(pool.submit(forget, service, next(ids)))
            else:
                answers.append(pool.submit(predict, service))
        for answer in answers:
            assert answer.result() == 200
        report = service.read("/verify").json
        assert report["sound"]
        assert report["rows"] == 14
        assert report["deletions"] == 10


def test_a_kill_undoes_no_acknowledged_deletion(model):
    acknowledged: set[int] = set()
    for round_ in range(2):
        with serving(model) as service, ThreadPoolExecutor(8) as pool:
            ids = [int(one) for one in IDS[8 * round_ : 8 * round_ + 8]]
            answers = {one: pool.submit(service.forget, one) for one in ids}
            answers[ids[3]].result()
            service.process.send_signal(signal.SIGKILL)
            for one, answer in answers.items():
                if answer.exception() is None:
                    assert answer.result().status == 200
                    acknowledged.add(one)
        with Predictor.load(model) as predictor:  # as the next service does
            assert not acknowledged & set(predictor.ids.tolist())
            assert predictor.verify().sound


def test_a_service_with_a_generated_token_forgets_and_finishes_its_requests_on_sigterm(
    model, picture
):
    with serving(model, token=None) as service, ThreadPoolExecutor(4) as pool:
        [token] = set(re.findall(r"Bearer ([\w-]{32,})", service.output))
        done = service.ask(
            "POST", "/forget", {"ids": [10]}, JSON | {"Authorization": f"Bearer {token}"}
        )
        assert done.status == 200
        assert done.json["deleted"] == 1
        assert len(token) >= 32
        answers = [pool.submit(service.predict, picture, explain=False) for _ in range(4)]
        answers[0].result()
        service.process.send_signal(signal.SIGTERM)
        for one in answers:
            assert one.exception() is not None or one.result().status == 200
        # 143 in a shell, as docs/service.md says
        assert service.process.wait(60) == -signal.SIGTERM
    with Predictor.load(model) as predictor:
        assert not predictor.is_purge_due
        assert predictor.deletions == 1
        assert 10 not in predictor.ids
