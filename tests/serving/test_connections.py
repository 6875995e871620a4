"""Connections that say nothing, say it slowly, or do not listen: none keeps a place for ever."""

import re
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import pytest
import uvicorn

import undertow as ut
from undertow.errors import InvalidInput
from undertow.serving.accounts import Clients
from undertow.serving.http import Guarded, configured, listening, most_connections

GET = b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\n"
PATIENCE, MOST = 0.5, 12
LARGE = 2**25


class Quick(Guarded):
    patience, most = PATIENCE, MOST


async def app(scope, receive, send):
    """Read the body, then answer; a path of /large has many bytes in many pieces."""
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": []})
    pieces = LARGE // 2**16 if scope["path"] == "/large" else 1
    for left in range(pieces, 0, -1):
        await send({"type": "http.response.body", "body": b"x" * 2**16, "more_body": left > 1})


@contextmanager
def served(**settings) -> Iterator[tuple[int, uvicorn.Server]]:
    """Serve the application on a free port, in a thread."""
    bound = listening("127.0.0.1", 0)
    server = uvicorn.Server(configured(app, **{"http": Quick, "lifespan": "off", **settings}))
    thread = threading.Thread(target=server.run, args=([bound],), daemon=True)
    thread.start()
    try:
        yield bound.getsockname()[1], server
    finally:
        server.should_exit = True
        thread.join(30)
        assert not thread.is_alive()


def connected(port, sent=b""):
    made = socket.create_connection(("127.0.0.1", port), timeout=10)
    made.sendall(sent)
    return made


def answered(port):
    """Whether a request that is made properly is answered."""
    with connected(port, GET + b"Connection: close\r\n\r\n") as made:
        return made.recv(2**16).startswith(b"HTTP/1.1 200")


def ended(made, within=20 * PATIENCE):
    """After how many seconds the server has closed a connection; what it said before is read."""
    start = time.monotonic()
    made.settimeout(within)
    try:
        while made.recv(2**16):
            pass
    except ConnectionResetError:
        pass
    return time.monotonic() - start


IDLE = {
    "nothing": b"",
    "half a line": b"GET /v1/hea",
    "half the headers": GET,
    "half a body": b"PUT / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nabc",
    "a chunk without its end": (
        b"PUT / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc"
    ),
    "half a second request": GET + b"\r\n" + GET,
}


@pytest.mark.parametrize("sent", IDLE.values(), ids=IDLE)
def test_a_client_that_stops_is_cut_off(sent):
    with served() as (port, _), connected(port, sent) as made:
        assert PATIENCE / 2 < ended(made) < 10 * PATIENCE


@pytest.mark.parametrize("start", [GET, GET + b"\r\n" + GET], ids=["first", "second"])
def test_a_header_byte_by_byte_is_cut_off(start):
    with served() as (port, _), connected(port, start) as made:
        begun = time.monotonic()
        with suppress(ConnectionResetError, BrokenPipeError):
            while time.monotonic() - begun < 20 * PATIENCE:
                made.sendall(b"X")
                time.sleep(PATIENCE / 10)
        assert time.monotonic() - begun < 10 * PATIENCE


def test_a_client_that_does_not_read_is_cut_off():
    with served() as (port, server):
        with connected(port, b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n"):
            time.sleep(PATIENCE / 2)
            assert len(server.server_state.connections) == 1
            deadline = time.monotonic() + 20 * PATIENCE
            state = server.server_state
            while (state.connections or state.tasks) and time.monotonic() < deadline:
                time.sleep(PATIENCE / 10)
            assert not state.connections
            assert not state.tasks
        assert answered(port)


def test_a_large_answer_that_is_read_arrives_whole():
    with served() as (port, _), connected(port) as made:
        made.sendall(b"GET /large HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        found = 0
        while piece := made.recv(2**16):
            found += len(piece)
        assert found >= LARGE


def test_idle_connections_make_room():
    patient = type("Patient", (Quick,), {"patience": 60.0})
    with served(http=patient) as (port, server), ExitStack() as stack:
        for _ in range(5 * MOST):
            stack.enter_context(connected(port, b"GET"))
        assert answered(port)
        assert len(server.server_state.connections) <= MOST


def test_requests_that_are_being_answered_are_not_cut_off():
    gate = threading.Event()

    async def waiting(scope, receive, send):
        import anyio

        await receive()
        await anyio.to_thread.run_sync(gate.wait, 30)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"done"})

    bound = listening("127.0.0.1", 0)
    server = uvicorn.Server(configured(waiting, http=Quick, lifespan="off"))
    thread = threading.Thread(target=server.run, args=([bound],), daemon=True)
    thread.start()
    port = bound.getsockname()[1]
    with ExitStack() as stack:
        asked = [stack.enter_context(connected(port, GET + b"\r\n")) for _ in range(MOST)]
        time.sleep(2 * PATIENCE)
        late = stack.enter_context(connected(port, GET + b"\r\n"))
        assert ended(late) < PATIENCE  # all places are taken by requests
        gate.set()
        assert all(one.recv(2**16).startswith(b"HTTP/1.1 200") for one in asked)
    server.should_exit = True
    thread.join(30)


def test_the_number_of_connections_leaves_files_to_the_ledger(monkeypatch):
    for allowed, most in ((1024, 200), (256, 96), (resource.RLIM_INFINITY, 200)):
        monkeypatch.setattr(resource, "getrlimit", lambda _, allowed=allowed: (allowed, allowed))
        assert most_connections() == most
    monkeypatch.setattr(resource, "getrlimit", lambda _: (100, 100))
    with pytest.raises(InvalidInput, match="ulimit -n"):
        most_connections()


def _few_files():
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))


def test_many_idle_connections_do_not_stop_the_command(tmp_path):
    """The real service, with 256 open files, answers beside 250 connections that say nothing."""
    chain = ut.MarkovChain([[0.882, 0.118], [0.305, 0.695]], states=("inactive", "active"))
    ut.Ledger(tmp_path / "year.db", dataset="w25", model=chain, limit=1.0)
    clients, token = Clients(()).add("airflow", ("spend",))
    clients.write(tmp_path / "c.json")
    command = [sys.executable, "-c", "from undertow.cli import main; main()"]
    options = ["ledger", "serve", "year.db", "--clients", "c.json", "--port", "0"]
    with subprocess.Popen(
        [*command, *options], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, preexec_fn=_few_files,
    ) as running, ExitStack() as stack:  # fmt: skip
        try:
            assert running.stdout is not None
            said = "".join(running.stdout.readline() for _ in range(5))
            port = int(re.findall(r"http://127.0.0.1:(\d+)/v1", said)[0])
            while not answered(port):  # it has started
                pass
            for _ in range(250):
                stack.enter_context(connected(port))
            asked = (
                b"GET /v1/datasets/w25 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                b"Authorization: Bearer " + token.encode() + b"\r\n\r\n"
            )
            with connected(port, asked) as made:
                assert made.recv(2**16).startswith(b"HTTP/1.1 200")
        finally:
            running.send_signal(signal.SIGINT)
            _, errors = running.communicate(timeout=60)
    assert (running.returncode, errors) == (0, "")
