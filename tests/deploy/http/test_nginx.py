"""The configuration of nginx in docs/, in front of a service."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from munkey.deploy.http.bodies import RequestLimits
from munkey.deploy.predictor import Predictor
from tests.conftest import ROOT, wait
from tests.deploy.http.inputs import TOKENS, Running, running
from tests.deploy.inputs import model_in, picture_in

NGINX = shutil.which("nginx", path=os.environ["PATH"] + ":/usr/sbin")
pytestmark = [
    pytest.mark.services,
    pytest.mark.skipif(not NGINX, reason="needs nginx: apt-get install nginx"),
]


@pytest.fixture(scope="module")
def nginx_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where nginx keeps its configuration and its logs."""
    return tmp_path_factory.mktemp("nginx")


@pytest.fixture(scope="module")
def behind(nginx_folder: Path) -> Iterator[tuple[Running, Running]]:
    """nginx, with timeouts of one second and small buffers of the kernel; and the service behind it."""
    folder = nginx_folder
    with ExitStack() as stack:
        predictor = stack.enter_context(Predictor.load(model_in(folder / "model"), device="cpu"))
        picture = picture_in(folder).read_bytes()
        service = stack.enter_context(running(predictor, picture, TOKENS, RequestLimits()))
        service.go.set()
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        text = (ROOT / "docs" / "nginx.conf").read_text()
        for there, here in {
            "listen 80;": f"listen 127.0.0.1:{port} sndbuf=8k;",
            "127.0.0.1:8000": f"127.0.0.1:{service.port}",
            "/var/log/nginx": str(folder),
            "timeout 10s": "timeout 1s",
        }.items():
            assert there in text
            text = text.replace(there, here)
        paths = ""
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"):
            paths += f"{kind}_temp_path {folder}/{kind};"
        main = f"daemon off; pid {folder}/pid; error_log {folder}/error.log; events {{}} http {{ {paths} {text} }}"
        (folder / "nginx.conf").write_text(main)
        process = stack.enter_context(subprocess.Popen([NGINX, "-c", str(folder / "nginx.conf")]))
        stack.callback(process.terminate)
        proxy = service._replace(port=port)
        while True:
            try:
                proxy.ask("GET", "/health")
                break
            except ConnectionRefusedError:
                assert process.poll() is None
                time.sleep(0.05)
        yield proxy, service


def ended(connection: socket.socket) -> bytes:
    """What still comes until the other end closes."""
    try:
        return b"".join(iter(lambda: connection.recv(1000), b""))
    except ConnectionResetError:
        return b""


def test_the_proxy_passes_answers_and_refusals_of_the_service(behind):
    proxy, _ = behind
    answer = proxy.ask("POST", "/predict?explain=true", proxy.picture, "forget")
    assert answer.status == 200
    assert answer.json["predictions"][0]["neighbors"]
    assert proxy.ask("POST", "/predict", b"no picture", "predict").status == 422
    assert "this needs the token" in proxy.ask("POST", "/forget").json["error"]


def test_a_body_that_is_too_large_is_refused_as_json(behind):
    proxy, _ = behind
    refused = proxy.ask("POST", "/predict", bytes(9 * 2**20), "predict")
    assert refused.status == 413
    assert refused.json == {"error": "refused by the proxy with status 413"}


def test_a_silent_or_slow_client_does_not_reach_the_service(behind):
    proxy, service = behind
    with (
        proxy.begin(sent=10) as silent,
        socket.create_connection(("127.0.0.1", proxy.port), timeout=60) as mute,
    ):
        time.sleep(0.2)
        assert service.metric("predictions_waiting") == 0
        mute.sendall(b"GET / HTTP/1.1\r\n")
        assert b" 200 " not in ended(silent) + ended(mute)


def test_a_client_that_does_not_read_is_closed(behind):
    proxy, _ = behind
    reader = socket.socket()
    reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    reader.settimeout(60)
    reader.connect(("127.0.0.1", proxy.port))
    request = f"GET /metrics HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKENS['verify']}\r\n\r\n".encode()
    reader.sendall(request * 100)
    time.sleep(4)
    assert ended(reader).count(b"HTTP/1.1 200") < 100


def test_one_client_has_16_connections_and_the_next_is_refused_as_json(behind):
    proxy, _ = behind
    clients = [proxy.begin(sent=10) for _ in range(16)]
    refused = proxy.ask("GET", "/health")
    assert refused.status == 503
    assert refused.json == {"error": "refused by the proxy with status 503"}
    for one in clients:
        one.close()


def test_a_client_that_leaves_the_proxy_leaves_the_service(behind):
    proxy, service = behind
    service.go.clear()
    before = service.metric('refusals_total{status="499"}')
    first = service.begin()
    abandoned = [proxy.begin() for _ in range(5)]
    service.wait_until("predictions_waiting", 6)
    for one in abandoned:
        one.close()
    wait(lambda: len(service.connections) == 1)  # the server has heard of it
    service.go.set()
    assert first.recv(12) == b"HTTP/1.1 200"
    service.wait_until('refusals_total{status="499"}', before + 5)


def test_the_log_names_no_file(behind, nginx_folder):
    proxy, _ = behind
    proxy.ask("GET", "/verify?published=pets%2F14.png", role="verify")
    log = nginx_folder / "munkey.log"
    deadline = time.monotonic() + 30
    # nginx writes its line after the client has its answer.
    while "GET /verify 4" not in log.read_text():
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.05)
    assert "pets" not in log.read_text()
