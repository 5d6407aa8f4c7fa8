"""The limits on a client without a token, and the paths that each token opens."""

import base64
import gc
import json
import logging
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import uvicorn
from fastapi import HTTPException
from PIL import Image, features
from pydantic import ValidationError
from starlette.requests import Request

from munkey import ForgettingLDA
from munkey.deploy.http.bodies import PredictRequest, RequestLimits, decode_pictures
from munkey.deploy.http.server import VARIABLES, open_listener, serve
from munkey.deploy.http.service import ENDPOINTS
from munkey.deploy.model.manifest import PictureSize
from munkey.deploy.predictor import Predictor
from munkey.memory.errors import ClosedMemoryError, UnreadableMemoryError
from tests.conftest import wait
from tests.data.inputs import file_of, with_scans
from tests.deploy.http.inputs import TOKENS, Running, running
from tests.deploy.inputs import IDS, holds_bytes, model_in, picture_in, png_of

JPEG = {"Content-Type": "image/jpeg"}


def large_picture() -> bytes:
    """A picture of more bytes than uvicorn reads ahead."""
    return png_of(np.random.default_rng(0).integers(0, 256, (256, 256, 3), dtype=np.uint8))


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


def test_more_predictions_than_the_limit_are_refused(service):
    clients = [service.begin() for _ in range(3)]
    service.wait_until("predictions_waiting", 3)
    refused = service.ask("POST", "/predict", service.picture)
    assert refused.status == 503
    assert refused.headers["retry-after"] == "1"
    assert "3 predictions" in refused.json["error"]
    service.go.set()
    for client in clients:
        assert client.recv(12) == b"HTTP/1.1 200"
    assert service.ask("POST", "/predict", service.picture).status == 200


def test_abandoned_predictions_are_not_computed(service):
    before = service.metric('refusals_total{status="499"}')
    first = service.begin()
    wait(lambda: service.begun == [1])  # or one that is abandoned could be ahead of it
    abandoned = [service.begin() for _ in range(2)]
    service.wait_until("predictions_waiting", 3)
    time.sleep(0.3)  # their pictures are read
    for one in abandoned:
        one.close()
    wait(lambda: len(service.connections) == 1)  # the server has heard of it
    service.go.set()
    assert first.recv(12) == b"HTTP/1.1 200"
    assert service.ask("POST", "/predict", service.picture).status == 200
    assert service.computed == [1, 1]
    assert service.metric('refusals_total{status="499"}') == before + 2


def test_a_request_that_does_not_arrive_in_time_is_refused(predictor):
    with (
        running(predictor, large_picture(), TOKENS, RequestLimits(seconds=0.2)) as one,
        one.begin(sent=10) as silent,
    ):
        answer = b"".join(iter(lambda: silent.recv(1000), b""))  # to the end of the connection
    assert answer.startswith(b"HTTP/1.1 408")
    assert b"0.2 s" in answer


def declared(service: Running, path: str, token: str = "") -> bytes:
    """The answer to the head of a request that declares a body, of which nothing comes."""
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 8000000\r\n"
    head += f"Authorization: Bearer {token}\r\n" if token else ""
    with socket.create_connection(("127.0.0.1", service.port), timeout=20) as connection:
        connection.sendall(head.encode() + b"\r\n")
        return connection.recv(1000)


@pytest.mark.parametrize("path", ["/find", "/forget", "/certificate/check"])
def test_no_body_is_read_without_a_token(path, service):
    """FastAPI by itself reads and parses it first."""
    assert declared(service, path).startswith(b"HTTP/1.1 401")
    assert declared(service, path, "another token").startswith(b"HTTP/1.1 401")


def test_a_client_with_a_token_must_send_the_body_in_time(predictor):
    with running(predictor, b"", TOKENS, RequestLimits(seconds=0.2)) as one:
        for path in ("/forget", "/certificate/check"):
            assert declared(one, path, TOKENS["predict"]).startswith(b"HTTP/1.1 403")
            assert declared(one, path, TOKENS["forget"]).startswith(b"HTTP/1.1 408")


def test_find_has_the_limits_of_predictions(service):
    assert service.ask("POST", "/find", service.picture).status == 401
    answer = service.ask("POST", "/find?count=2", service.picture, "verify")
    assert answer.status == 200, answer.text
    [of_picture] = answer.json["pictures"]
    assert len(of_picture["samples"]) == 2
    for sample in of_picture["samples"]:
        assert sample.keys() == {"cosine", "copy", "id", "class", "unit", "file"}
    text = base64.b64encode(service.picture).decode()
    headers = {"Content-Type": "application/json"}
    body = {"images": [text, text], "count": 1, "above": -1}
    by_json = service.ask("POST", "/find", body, "forget", **headers).json["pictures"]
    for picture in by_json:
        assert picture["samples"] == of_picture["samples"][:1]
    for wrong in ({"count": 0}, {"above": 2}, {"explain": True}, {"images": ["AA=="] * 65}):
        assert service.ask("POST", "/find", body | wrong, "verify", **headers).status == 422
    assert service.ask("POST", "/find?count=0", service.picture, "verify").status == 422
    assert service.ask("POST", "/find", b"no picture", "verify").status == 422
    with_text = service.ask(
        "POST", "/find", service.picture, "verify", **{"Content-Type": "text/plain"}
    )
    assert with_text.status == 415


def test_find_takes_one_of_the_places_of_predictions(service):
    clients = [service.begin() for _ in range(3)]
    service.wait_until("predictions_waiting", 3)
    assert service.ask("POST", "/find", service.picture, "verify").status == 503
    service.go.set()
    for client in clients:
        assert client.recv(12) == b"HTTP/1.1 200"


def test_openapi_describes_all_endpoints_and_bodies(service):
    page = service.ask("GET", "/docs")
    assert page.status == 200
    assert "/openapi.json" in page.text
    described = service.ask("GET", "/openapi.json").json
    listed = set()
    for part in ENDPOINTS.split("; "):
        method, paths = part.split(" ", 1)
        listed |= {(method, path) for path in paths.split(", ")}
    endpoints = {("GET", "/docs")}
    bodies = {}
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            endpoints.add((method.upper(), path))
            assert operation["description"], path
            assert operation["security"] == [{"HTTPBearer": []}], path
            refused = operation["responses"]["422"]["content"]["application/json"]["schema"]
            assert refused == {"$ref": "#/components/schemas/Refusal"}
            if "requestBody" in operation:
                bodies[path] = operation["requestBody"]
    assert endpoints == listed
    assert {path: sorted(body["content"]) for path, body in bodies.items()} == {
        "/predict": ["application/json", "image/*"],
        "/find": ["application/json", "image/*"],
        "/forget": ["application/json"],
        "/certificate/check": ["application/json"],
    }
    question = bodies["/predict"]["content"]["application/json"]["schema"]["properties"]
    assert question["images"]["maxItems"] == question["rows"]["maxItems"] == 64
    order = bodies["/forget"]["content"]["application/json"]["schema"]["properties"]
    assert order["files"]["maxItems"] == 1000
    assert order["ids"]["examples"]
    assert "#/$defs" not in json.dumps(bodies)


def test_a_client_that_disconnects_during_its_request_causes_no_traceback(service, caplog):
    before = service.metric('refusals_total{status="499"}')
    for _ in range(3):
        service.begin(sent=10).close()
    service.wait_until('refusals_total{status="499"}', before + 3)
    for record in caplog.records:
        assert record.levelno < logging.WARNING


def test_finished_requests_are_not_kept(service):
    for _ in range(100):
        assert service.ask("POST", "/forget", bytes(60_000)).status == 401
    gc.collect()
    assert sum(isinstance(one, Request) for one in gc.get_objects()) < 10


def test_no_answer_contains_the_host_header(service):
    refused = service.ask("GET", "/health/", Host="evil.example")
    assert refused.status == 404
    assert "evil" not in str(refused)


def test_many_unknown_ids_are_counted(service):
    refused = service.ask("POST", "/forget", {"ids": list(range(100_000, 200_000))}, "forget")
    assert refused.status == 404
    assert refused.json["missing_count"] == 100_000
    assert refused.json["missing"] == [str(100_000 + one) for one in range(10)]
    assert len(refused.text) < 1000


def test_more_pixels_than_the_limit_are_refused(service):
    picture = png_of(Image.new("RGB", (5, 1)))
    stored = PictureSize(height=1, width=5)
    assert len(decode_pictures([picture] * 2, stored, RequestLimits(pixels=10))) == 2
    with pytest.raises(HTTPException, match="10 pixels"):
        decode_pictures([picture] * 2, stored, RequestLimits(pixels=9))


def test_a_picture_of_20_000_scans_blocks_no_prediction(service):
    """0.7 MB: without a limit, a decoder is busy with them for minutes."""
    service.go.set()
    refused = service.ask("POST", "/predict", with_scans((4000, 4000), 20_000), **JPEG)
    assert refused.status == 422
    assert refused.json["error"].partition(",")[0] == "images.0: has 20"
    assert service.ask("POST", "/predict", service.picture).status == 200


@pytest.mark.skipif(not features.check("jpg_2000"), reason="this Pillow was built without it")
def test_a_picture_that_is_not_decoded_in_time_blocks_no_prediction(predictor):
    """Its format has no header that tells the work of decoding it."""
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
        assert refused.status == 422
        assert "0.1 s of CPU time" in refused.json["error"]
        assert one.ask("POST", "/predict", file_of("PNG"), "predict").status == 200


def test_more_rows_than_the_limit_are_refused():
    assert PredictRequest(rows=[[0.5, 1.0]] * 64).inputs.shape == (64, 2)
    with pytest.raises(ValidationError, match="at most 64 items"):
        PredictRequest(rows=[[0.5, 1.0]] * 65)


@pytest.mark.parametrize(
    "body", [{}, {"rows": [[0.5], [0.5, 1.0]]}, {"rows": [[0.5]], "images": [b"picture"]}], ids=str
)
def test_images_with_rows_and_rows_of_two_lengths_are_refused(body):
    with pytest.raises(ValidationError, match="1 to 64 images, or 1 to 64 rows"):
        PredictRequest(**body)


def test_an_internal_error_is_answered_as_json(service, monkeypatch):
    monkeypatch.setattr(Predictor, "purge", lambda self, wait: 1 / 0)
    failed = service.ask("POST", "/purge", role="forget")
    assert failed.status == 500
    assert failed.json == {"error": "internal error: ZeroDivisionError"}


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OSError("the disk is full"), "the disk is full"),
        (ClosedMemoryError("closed"), "closed"),
        (UnreadableMemoryError(Path("/m"), "damaged"), "/m: damaged"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_unusable_memory_is_answered_with_503(error, message, service, monkeypatch):
    """A busy one: tests/deploy/http/test_deletions.py."""

    def fails(*_):
        raise error

    monkeypatch.setattr(Predictor, "purge", fails)
    failed = service.ask("POST", "/purge", role="forget")
    assert failed.status == 503
    assert "retry-after" not in failed.headers
    assert message in failed.json["error"]


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
def test_each_path_is_open_to_its_role_and_higher_ones(method, path, least, service):
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
    assert basic.status == 401
    assert basic.headers["www-authenticate"] == "Bearer"


def test_predicting_needs_its_token_if_one_is_set(predictor, tmp_path):
    with running(predictor, picture_in(tmp_path).read_bytes(), TOKENS, RequestLimits()) as one:
        one.go.set()
        assert one.ask("POST", "/predict", one.picture).status == 401
        for role in TOKENS:
            assert one.ask("POST", "/predict", one.picture, role).status == 200
        assert one.ask("POST", "/predict?explain=true", one.picture, "predict").status == 403


def test_a_refusal_names_the_role_whose_token_opens_the_path(predictor):
    """Where a role has no token, that of a higher one opens it."""
    tokens = {role: TOKENS[role] for role in ("predict", "forget")}
    with running(predictor, large_picture(), tokens, RequestLimits()) as one:
        for path in ("/rows", "/log", "/verify", "/metrics"):
            assert "token of 'forget'" in one.ask("GET", path).json["error"]
            refused = one.ask("GET", path, role="predict")
            assert refused.status == 403
            assert "'forget', not that of 'predict'" in refused.json["error"]
        refused = one.ask("POST", "/forget", {"ids": [10]}, "predict")
        assert refused.status == 403
        assert "'forget', not that of 'predict'" in refused.json["error"]


def test_a_refusal_to_forget_names_the_role_forget(service, predictor):
    with running(predictor, large_picture(), TOKENS, RequestLimits()) as one:
        refused = one.ask("POST", "/forget", {"ids": [10]}, "predict")
        assert refused.status == 403
        assert "without dry_run that of 'forget'" in refused.json["error"]
        refused = one.ask("POST", "/forget", {"ids": [10]}, "verify")
        assert "'forget', not that of 'verify'" in refused.json["error"]


def test_an_emptied_model_refuses_predictions_and_still_verifies(tmp_path):
    with (
        Predictor.load(model_in(tmp_path / "model"), device="cpu") as model,
        running(model, large_picture(), TOKENS, RequestLimits()) as one,
    ):
        one.go.set()
        assert one.ask("POST", "/forget", {"ids": IDS.tolist()}, "forget").json["left"] == 0
        refused = one.ask("POST", "/predict", one.picture, "predict")
        assert refused.status == 503
        assert "every sample was forgotten" in refused.json["error"]
        assert one.ask("GET", "/verify", role="verify").json["sound"]


def test_health_shows_counts_only_with_a_token(service):
    assert service.ask("GET", "/health").json == {"status": "ok"}
    assert service.ask("GET", "/health", role="verify").json["samples"] == len(IDS)


def test_names_of_files_are_gone_from_disk_after_a_purge_and_after_the_end(tmp_path):
    model = model_in(tmp_path / "model")
    assert holds_bytes(model, b"pets/12.png")
    assert holds_bytes(model, b"pets/14.png")
    with (
        Predictor.load(model, device="cpu") as predictor,
        running(predictor, b"", TOKENS, RequestLimits()) as one,
    ):
        assert one.ask("POST", "/forget", {"ids": [12]}, "forget").json["purged"] is False
        assert one.metric("samples") == len(IDS) - 1
        assert one.metric("deleted_samples_total") == 1
        assert one.metric("unpurged") == 1
        assert one.metric("purged_timestamp_seconds") == 0
        assert one.ask("GET", "/health", role="verify").json["purged"] is False
        begun = time.time()
        assert one.ask("POST", "/purge", role="forget").json["purged"] is True
        assert not holds_bytes(model, b"pets/12.png")
        assert one.ask("GET", "/health", role="verify").json["purged_at"]
        assert one.metric("maintenance_failed") == 0
        assert one.metric("unpurged") == 0
        assert begun <= one.metric("purged_timestamp_seconds") <= time.time()
        one.ask("POST", "/forget", {"ids": [14]}, "forget")
        assert predictor.is_purge_due
    assert not holds_bytes(model, b"pets/14.png")
    with Predictor.load(model) as predictor:
        assert not predictor.is_purge_due


def test_a_model_of_embeddings_predicts_rows(tmp_path):
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


def test_connections_disable_nagles_algorithm():
    """Else a kept connection costs 40 ms a request."""
    with (
        open_listener("127.0.0.1", 0) as listener,
        socket.create_connection(listener.getsockname()),
    ):
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_the_hint_for_a_model_of_embeddings_sends_rows(tmp_path, monkeypatch):
    ForgettingLDA().fit(np.eye(4), [0, 1, 0, 1]).save(tmp_path / "model")
    monkeypatch.setattr(uvicorn.Server, "run", lambda self, sockets: None)
    messages: list[str] = []
    serve(tmp_path / "model", "127.0.0.1", 0, None, 600, messages.append)
    assert """-d '{"rows": [[0.1, 0.2, …]]}' http""" in messages[0]
    assert "PICTURE" not in messages[0]


def test_two_roles_with_one_token_are_refused_and_named(tmp_path, monkeypatch):
    for role in ("verify", "forget"):
        monkeypatch.setenv(VARIABLES[role], "a token for both of them")
    with pytest.raises(ValueError, match=r"verify, forget$"):
        serve(tmp_path / "model", "127.0.0.1", 0, None, 600, print)
