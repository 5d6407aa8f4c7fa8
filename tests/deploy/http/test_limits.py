"""What a client without a token can make the service hold, compute or say; and what each token opens."""

import asyncio
import base64
import gc
import http.client
import io
import json
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import uvicorn
from fastapi import HTTPException
from PIL import Image, features
from pydantic import ValidationError
from starlette.requests import Request

from munkey import ForgettingLDA
from munkey.deploy.http.bodies import PredictRequest, RequestLimits, decode_pictures
from munkey.deploy.http.server import VARIABLES, configure, open_listener, serve
from munkey.deploy.http.service import ENDPOINTS, create_app
from munkey.deploy.model.manifest import PictureSize
from munkey.deploy.predictor import Predictor
from munkey.memory.errors import ClosedMemoryError, LockedMemoryError, UnreadableMemoryError
from tests.data.decoding.test_decoder import file_of, with_scans
from tests.deploy.inputs import IDS, model_in, picture_in

TOKENS = {"predict": "may predict", "verify": "may verify", "forget": "may forget"}
PNG = {"Content-Type": "image/png"}
JPEG = {"Content-Type": "image/jpeg"}


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)


class Running(NamedTuple):
    """A service in this process. go: lets its predictions, which wait, go; begun, computed: pictures of each."""

    port: int
    picture: bytes
    go: threading.Event
    begun: list[int]
    computed: list[int]
    connections: set[Any]

    def ask(
        self, method: str, path: str, body: Any = b"", role: str | None = None, **headers: str
    ) -> Answer:
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
        """A prediction whose answer nobody reads. sent: bytes of its picture."""
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        head = f"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Type: image/png\r\nContent-Length: {len(self.picture)}"
        head += f"\r\nAuthorization: Bearer {TOKENS['verify']}"
        connection.sendall(head.encode() + b"\r\n\r\n" + self.picture[:sent])
        return connection

    def metric(self, name: str) -> float:
        answer = self.ask("GET", "/metrics", role="verify")
        assert (
            answer.headers.get("content-type", "").startswith("text/plain; version=0.0.4")
            or answer.status != 200
        )
        lines = dict(line.rsplit(" ", 1) for line in answer.text.splitlines())
        return float(lines.get(f"munkey_{name}", 0))

    def wait_until(self, name: str, value: float) -> None:
        wait_for(lambda: self.metric(name) == value)


def wait_for(true: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not true():
        assert time.monotonic() < until
        time.sleep(0.01)


@contextmanager
def running(
    predictor: Predictor, picture: bytes, tokens: Mapping[str, str], limits: RequestLimits
) -> Iterator[Running]:
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


def large_picture() -> bytes:
    """Of more bytes than uvicorn reads ahead."""
    file = io.BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (256, 256, 3), dtype=np.uint8)).save(
        file, "PNG"
    )
    return file.getvalue()


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Predicting is open, and 3 predictions may be under way."""
    folder = tmp_path_factory.mktemp("limits")
    tokens = {role: TOKENS[role] for role in ("verify", "forget")}
    with (
        Predictor.load(model_in(folder / "model"), device="cpu") as predictor,
        running(predictor, large_picture(), tokens, RequestLimits(predictions=3)) as one,
    ):
        yield one


@pytest.fixture(autouse=True)
def _predictions_wait(service: Running) -> None:
    service.go.clear()
    service.begun.clear()
    service.computed.clear()


def test_more_predictions_than_the_queue_takes_are_turned_away(service):
    held = [service.begin() for _ in range(3)]
    service.wait_until("predictions_waiting", 3)
    refused = service.ask("POST", "/predict", service.picture)
    assert (refused.status, refused.headers["retry-after"]) == (503, "1")
    assert refused.json == {"error": "3 predictions are in progress already; try again"}
    service.go.set()
    assert all(one.recv(12) == b"HTTP/1.1 200" for one in held)
    assert service.ask("POST", "/predict", service.picture).status == 200


def test_abandoned_predictions_are_not_computed(service):
    before = service.metric('refusals_total{status="499"}')
    first = service.begin()
    wait_for(lambda: service.begun == [1])  # or one that is abandoned could be ahead of it
    abandoned = [service.begin() for _ in range(2)]
    service.wait_until("predictions_waiting", 3)
    time.sleep(0.3)  # their pictures are read
    for one in abandoned:
        one.close()
    wait_for(lambda: len(service.connections) == 1)  # the server has heard of it
    service.go.set()
    assert first.recv(12) == b"HTTP/1.1 200"
    assert service.ask("POST", "/predict", service.picture).status == 200
    assert service.computed == [1, 1]
    assert service.metric('refusals_total{status="499"}') == before + 2


def test_a_request_that_does_not_arrive_is_ended(predictor):
    with (
        running(predictor, large_picture(), TOKENS, RequestLimits(seconds=0.2)) as one,
        one.begin(sent=10) as silent,
    ):
        answer = b"".join(iter(lambda: silent.recv(1000), b""))  # to the end of the connection
    assert (
        answer.startswith(b"HTTP/1.1 408")
        and b'{"error":"the request did not arrive within 0.2 s"}' in answer
    )


def declared(service: Running, path: str, token: str = "") -> bytes:
    """The answer to the head of a request that declares a body, of which nothing comes."""
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 8000000\r\n"
    head += f"Authorization: Bearer {token}\r\n" if token else ""
    with socket.create_connection(("127.0.0.1", service.port), timeout=20) as connection:
        connection.sendall(head.encode() + b"\r\n")
        return connection.recv(1000)


@pytest.mark.parametrize("path", ["/find", "/forget", "/certificate/check"])
def test_without_a_token_no_body_is_read(path, service):
    """FastAPI by itself reads and parses it first."""
    assert declared(service, path).startswith(b"HTTP/1.1 401")
    assert declared(service, path, "another token").startswith(b"HTTP/1.1 401")


def test_who_has_a_token_must_send_the_body_in_time(predictor):
    with running(predictor, b"", TOKENS, RequestLimits(seconds=0.2)) as one:
        for path in ("/forget", "/certificate/check"):
            assert declared(one, path, TOKENS["predict"]).startswith(b"HTTP/1.1 403")
            assert declared(one, path, TOKENS["forget"]).startswith(b"HTTP/1.1 408")


def test_samples_are_looked_up_by_pictures_with_the_limits_of_predictions(service):
    assert service.ask("POST", "/find", service.picture).status == 401
    found = service.ask("POST", "/find?count=2", service.picture, "verify")
    assert found.status == 200, found.text
    [asked] = found.json["pictures"]
    assert [set(sample) for sample in asked["samples"]] == [
        {"cosine", "copy", "id", "class", "unit", "file"}
    ] * 2
    text = base64.b64encode(service.picture).decode()
    headers = {"Content-Type": "application/json"}
    body = {"images": [text, text], "count": 1, "above": -1}
    by_json = service.ask("POST", "/find", body, "forget", **headers).json["pictures"]
    assert [one["samples"] for one in by_json] == [asked["samples"][:1]] * 2
    for wrong in ({"count": 0}, {"above": 2}, {"explain": True}, {"images": ["AA=="] * 65}):
        assert service.ask("POST", "/find", body | wrong, "verify", **headers).status == 422
    assert service.ask("POST", "/find?count=0", service.picture, "verify").status == 422
    assert service.ask("POST", "/find", b"no picture", "verify").status == 422
    with_text = service.ask(
        "POST", "/find", service.picture, "verify", **{"Content-Type": "text/plain"}
    )
    assert with_text.status == 415


def test_a_look_up_takes_one_of_the_places_of_predictions(service):
    held = [service.begin() for _ in range(3)]
    service.wait_until("predictions_waiting", 3)
    assert service.ask("POST", "/find", service.picture, "verify").status == 503
    service.go.set()
    assert all(one.recv(12) == b"HTTP/1.1 200" for one in held)


def test_the_service_describes_itself(service):
    page = service.ask("GET", "/docs")
    assert page.status == 200 and "/openapi.json" in page.text
    described = service.ask("GET", "/openapi.json").json
    endpoints = {
        (method.upper(), path) for path, methods in described["paths"].items() for method in methods
    }
    listed = [part.split(" ", 1) for part in ENDPOINTS.split("; ")]
    assert endpoints == {
        (method, path) for method, paths in listed for path in paths.split(", ")
    } - {("GET", "/docs")}
    for path, methods in described["paths"].items():
        for operation in methods.values():
            assert operation["description"] and operation["security"] == [{"HTTPBearer": []}], path
            refused = operation["responses"]["422"]["content"]["application/json"]["schema"]
            assert refused == {"$ref": "#/components/schemas/Refusal"}
    bodies = {
        path: methods["post"].get("requestBody")
        for path, methods in described["paths"].items()
        if "post" in methods
    }
    assert {path: sorted(body["content"]) for path, body in bodies.items() if body} == {
        "/predict": ["application/json", "image/*"],
        "/find": ["application/json", "image/*"],
        "/forget": ["application/json"],
        "/certificate/check": ["application/json"],
    }
    question = bodies["/predict"]["content"]["application/json"]["schema"]["properties"]
    assert question["images"]["maxItems"] == question["rows"]["maxItems"] == 64
    order = bodies["/forget"]["content"]["application/json"]["schema"]["properties"]
    assert order["files"]["maxItems"] == 1000 and order["ids"]["examples"]
    assert "#/$defs" not in json.dumps(bodies)


def test_a_client_that_leaves_in_the_middle_of_its_request_leaves_no_traceback(service, caplog):
    before = service.metric('refusals_total{status="499"}')
    for _ in range(3):
        service.begin(sent=10).close()
    service.wait_until('refusals_total{status="499"}', before + 3)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_finished_requests_are_not_kept(service):
    for _ in range(100):
        assert service.ask("POST", "/forget", bytes(60_000)).status == 401
    gc.collect()
    assert sum(isinstance(one, Request) for one in gc.get_objects()) < 10


def test_no_answer_reflects_the_host_that_a_client_names(service):
    refused = service.ask("GET", "/health/", Host="evil.example")
    assert refused.status == 404 and "evil" not in str(refused)


def test_many_unknown_ids_are_counted(service):
    refused = service.ask("POST", "/forget", {"ids": list(range(100_000, 200_000))}, "forget")
    assert (refused.status, refused.json["unknown_count"]) == (404, 100_000)
    assert (
        refused.json["unknown"] == [str(100_000 + one) for one in range(10)]
        and len(refused.text) < 1000
    )


def test_as_many_pixels_as_the_limit_are_accepted_and_one_more_is_not(service):
    file = io.BytesIO()
    Image.new("RGB", (5, 1)).save(file, "PNG")
    stored = PictureSize(height=1, width=5)
    assert len(decode_pictures([file.getvalue()] * 2, stored, RequestLimits(pixels=10))) == 2
    with pytest.raises(HTTPException, match="10 pixels"):
        decode_pictures([file.getvalue()] * 2, stored, RequestLimits(pixels=9))


def test_a_picture_of_20_000_scans_stops_no_prediction(service):
    """0.7 MB: without a limit, a decoder is busy with them for minutes."""
    service.go.set()
    refused = service.ask("POST", "/predict", with_scans((4000, 4000), 20_000), **JPEG)
    assert (refused.status, refused.json["error"].partition(",")[0]) == (422, "images.0: has 20")
    assert service.ask("POST", "/predict", service.picture).status == 200


@pytest.mark.skipif(not features.check("jpg_2000"), reason="this Pillow was built without it")
def test_what_a_decoder_does_not_finish_in_time_stops_no_prediction(predictor):
    """Of a format whose work no header tells."""
    limits = RequestLimits(decoding=0.1)
    with running(predictor, large_picture(), TOKENS, limits) as one:
        one.go.set()
        refused = one.ask(
            "POST",
            "/predict",
            file_of("JPEG2000", (3000, 3000)),
            "predict",
            **{"Content-Type": "image/jp2"},
        )
        assert (
            refused.status == 422
            and "was not decoded within 0.1 s of CPU time" in refused.json["error"]
        )
        assert one.ask("POST", "/predict", file_of("PNG"), "predict").status == 200


def test_as_many_rows_as_the_limit_are_accepted_and_one_more_is_not():
    assert PredictRequest(rows=[[0.5, 1.0]] * 64).inputs.shape == (64, 2)
    with pytest.raises(ValidationError, match="at most 64 items"):
        PredictRequest(rows=[[0.5, 1.0]] * 65)


@pytest.mark.parametrize(
    "asked", [{}, {"rows": [[0.5], [0.5, 1.0]]}, {"rows": [[0.5]], "images": [b"picture"]}], ids=str
)
def test_images_and_rows_of_two_lengths_are_not_mixed(asked):
    with pytest.raises(
        ValidationError, match="send 1 to 64 images, or 1 to 64 rows of the same length"
    ):
        PredictRequest(**asked)


def test_what_fails_within_is_said_as_json(service, monkeypatch):
    monkeypatch.setattr(Predictor, "purge", lambda self: 1 / 0)
    failed = service.ask("POST", "/purge", role="forget")
    assert (failed.status, failed.json) == (
        500,
        {"error": "internal error: ZeroDivisionError"},
    )


@pytest.mark.parametrize(
    ("error", "said", "retry"),
    [
        (
            LockedMemoryError("memory.db: kept busy; try again"),
            "memory.db: kept busy; try again",
            "1",
        ),
        (OSError("the disk is full"), "the memory cannot be used now: the disk is full", None),
        (ClosedMemoryError("closed"), "the memory cannot be used now: closed", None),
        (
            UnreadableMemoryError(Path("/m"), "damaged"),
            "the memory cannot be used now: /m: damaged. Nothing",
            None,
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_memory_that_cannot_be_used_is_not_the_fault_of_who_asks(
    error, said, retry, service, monkeypatch
):
    def fails(_):
        raise error

    monkeypatch.setattr(Predictor, "purge", fails)
    failed = service.ask("POST", "/purge", role="forget")
    assert (failed.status, failed.headers.get("retry-after")) == (503, retry) and failed.json[
        "error"
    ].startswith(said)


@pytest.mark.parametrize(
    ("method", "path", "least"),
    [
        ("POST", "/predict", None),
        ("POST", "/predict?explain=true", "verify"),
        ("GET", "/verify", "verify"),
        ("GET", "/metrics", "verify"),
        ("POST", "/purge", "forget"),
        ("POST", "/forget", "forget"),
    ],
)
def test_each_path_is_open_to_its_role_and_those_above(method, path, least, service):
    service.go.set()
    order = [None, "verify", "forget"]
    body = {"ids": []} if path == "/forget" else service.picture
    done = 404 if path == "/forget" else 200  # it finds nothing
    for role in order:
        answer = service.ask(method, path, body, role)
        expected = done if order.index(role) >= order.index(least) else 403 if role else 401
        assert answer.status == expected, answer
        named = "verify" if path == "/forget" and not role else least  # which may preview
        assert expected == done or f"the token of '{named}'" in answer.json["error"]
    assert service.ask(method, path, body, "another token").status == 401
    basic = service.ask(method, path, body, Authorization=f"Basic {TOKENS['forget']}")
    assert (basic.status, basic.headers["www-authenticate"]) == (401, "Bearer")


def test_where_predicting_has_a_token_it_needs_one(predictor, tmp_path):
    with running(predictor, picture_in(tmp_path).read_bytes(), TOKENS, RequestLimits()) as one:
        one.go.set()
        assert one.ask("POST", "/predict", one.picture).status == 401
        assert [one.ask("POST", "/predict", one.picture, role).status for role in TOKENS] == [
            200
        ] * 3
        assert one.ask("POST", "/predict?explain=true", one.picture, "predict").status == 403


def test_a_refusal_names_the_role_whose_token_opens_what_was_asked_for(predictor):
    """Where a role has no token, that of a higher one opens it."""
    tokens = {role: TOKENS[role] for role in ("predict", "forget")}
    with running(predictor, large_picture(), tokens, RequestLimits()) as one:
        for path in ("/rows", "/log", "/verify", "/metrics"):
            assert "this needs the token of 'forget':" in one.ask("GET", path).json["error"]
            refused = one.ask("GET", path, role="predict")
            assert refused.status == 403
            assert (
                refused.json["error"] == "this needs the token of 'forget', not that of 'predict'"
            )
        refused = one.ask("POST", "/forget", {"ids": [10]}, "predict")
        assert refused.status == 403
        assert refused.json["error"] == "this needs the token of 'forget', not that of 'predict'"


def test_a_refusal_to_forget_names_the_role_that_may(service, predictor):
    with running(predictor, large_picture(), TOKENS, RequestLimits()) as one:
        refused = one.ask("POST", "/forget", {"ids": [10]}, "predict")
        assert (
            refused.status == 403
            and "and to forget without dry_run that of 'forget'" in refused.json["error"]
        )
        refused = one.ask("POST", "/forget", {"ids": [10]}, "verify")
        assert refused.json["error"] == "this needs the token of 'forget', not that of 'verify'"


def test_an_emptied_model_refuses_in_words_and_still_proves_what_it_did(tmp_path):
    with (
        Predictor.load(model_in(tmp_path / "model"), device="cpu") as model,
        running(model, large_picture(), TOKENS, RequestLimits()) as one,
    ):
        one.go.set()
        assert one.ask("POST", "/forget", {"ids": IDS.tolist()}, "forget").json["left"] == 0
        refused = one.ask("POST", "/predict", one.picture, "predict")
        assert (
            refused.status == 503
            and "every sample was forgotten, so there is nothing" in refused.json["error"]
        )
        assert one.ask("GET", "/verify", role="verify").json["sound"]


def test_counts_and_heads_are_not_open(service):
    assert service.ask("GET", "/health").json == {"status": "ok"}
    assert service.ask("GET", "/health", role="verify").json["samples"] == len(IDS)


def test_names_of_files_are_gone_after_a_purge_which_is_said_and_after_the_end(tmp_path):
    model = model_in(tmp_path / "model")

    def holding(name: bytes) -> list[Path]:
        return [file for file in model.rglob("*") if file.is_file() and name in file.read_bytes()]

    assert holding(b"pets/12.png") and holding(b"pets/14.png")
    with (
        Predictor.load(model, device="cpu") as predictor,
        running(predictor, b"", TOKENS, RequestLimits()) as one,
    ):
        assert one.ask("POST", "/forget", {"ids": [12]}, "forget").json["purged"] is False
        assert (one.metric("samples"), one.metric("deleted_samples_total")) == (len(IDS) - 1, 1)
        assert (one.metric("unpurged"), one.metric("purged_timestamp_seconds")) == (1, 0)
        assert one.ask("GET", "/health", role="verify").json["purged"] is False
        begun = time.time()
        assert one.ask("POST", "/purge", role="forget").json["purged"] is True and not holding(
            b"pets/12.png"
        )
        assert one.ask("GET", "/health", role="verify").json["purged_at"]
        assert (
            one.metric("unpurged") == 0
            and begun <= one.metric("purged_timestamp_seconds") <= time.time()
        )
        one.ask("POST", "/forget", {"ids": [14]}, "forget")
        assert predictor.is_purge_due
    assert not holding(b"pets/14.png")
    with Predictor.load(model) as predictor:
        assert not predictor.is_purge_due


def test_a_model_of_embeddings_is_asked_with_rows(tmp_path):
    rows = np.random.default_rng(0).normal(size=(20, 4))
    json_ = {"Content-Type": "application/json"}
    ForgettingLDA().fit(rows, np.arange(20) % 2).save(tmp_path / "model")
    picture = base64.b64encode(large_picture()).decode()
    with (
        Predictor.load(tmp_path / "model") as model,
        running(model, b"", {"forget": TOKENS["forget"]}, RequestLimits()) as service,
    ):
        service.go.set()
        answers = service.ask("POST", "/predict", {"rows": rows[:3].tolist()}, **json_).json[
            "predictions"
        ]
        assert [each["class"] for each in answers] == list(model.predict(rows[:3]).classes)
        for wrong in ({"rows": [[1.0]]}, {"rows": [[1.0], [1.0, 2.0]]}, {"images": [picture]}):
            assert service.ask("POST", "/predict", wrong, **json_).status == 422


def test_a_connection_sends_each_answer_at_once():
    """Else a kept connection costs 40 ms a request."""
    with (
        open_listener("127.0.0.1", 0) as listener,
        socket.create_connection(listener.getsockname()),
    ):
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_how_to_send_rows_is_said_of_a_model_of_embeddings(tmp_path, monkeypatch):
    ForgettingLDA().fit(np.eye(4), [0, 1, 0, 1]).save(tmp_path / "model")
    monkeypatch.setattr(uvicorn.Server, "run", lambda self, sockets: None)
    said: list[str] = []
    serve(tmp_path / "model", "127.0.0.1", 0, None, said.append)
    assert """-d '{"rows": [[0.1, 0.2, …]]}' http""" in said[0] and "PICTURE" not in said[0]


def test_two_roles_with_one_token_are_refused_and_named(tmp_path, monkeypatch):
    for role in ("verify", "forget"):
        monkeypatch.setenv(VARIABLES[role], "a token for both of them")
    with pytest.raises(ValueError, match=r"each role needs its own token: .*verify, forget$"):
        serve(tmp_path / "model", "127.0.0.1", 0, None, print)
