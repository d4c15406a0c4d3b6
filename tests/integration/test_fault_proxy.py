"""The fault proxy, told from both sides: what the caller sees, and what the provider did.

The provider is a real HTTP server that counts its effects: each POST makes one, whatever becomes of the answer.
"""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from landed.testing.fault_proxy import Answer, CommitThenDrop, Delay, Duplicate, FaultProxy, Reset


class Provider(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.effects: list[str] = []
        self.lock = threading.Lock()
        self.release = threading.Event()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Provider

    def do_POST(self) -> None:
        text = self.read_body().decode()
        with self.server.lock:
            self.server.effects.append(text)
            number = len(self.server.effects)
        if self.path == "/broken-off":
            self.wfile.write(b"HTTP/1.1 201 Created\r\nContent-Length: 100\r\n\r\nonly the begin")
            self.close_connection = True
        elif self.path == "/silent":
            self.server.release.wait(10)
        elif self.path == "/chunked":
            self.wfile.write(b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n")
            self.wfile.write(b"7;note=x\r\nlanded \r\n3\r\nyes\r\n0\r\nTrailer: t\r\n\r\n")
        elif self.path == "/until-close":
            self.wfile.write(b"HTTP/1.1 201 Created\r\n\r\nall of it")
            self.close_connection = True
        else:
            self.answer(201, json.dumps({"number": number, "text": text}).encode())

    def do_GET(self) -> None:
        if self.path == "/nothing":
            self.send_response(204)
            self.end_headers()
        else:
            self.answer(200, json.dumps(self.server.effects).encode())

    do_HEAD = do_GET

    def read_body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") == "chunked":
            raise AssertionError("the proxy passes bodies on with a Content-Length")
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Provider", "yes")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def provider() -> Iterator[Provider]:
    with Provider() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield server
        server.release.set()
        server.shutdown()
        thread.join(5)


@pytest.fixture
def proxy(provider: Provider) -> Iterator[FaultProxy]:
    with FaultProxy("127.0.0.1", provider.server_port) as running:
        yield running


def call(proxy: FaultProxy, method: str, path: str, body: str | None = None, *, timeout_s: float = 5.0) -> tuple[int, bytes]:
    """One request on a connection of its own, sent once."""
    connection = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=timeout_s)
    try:
        connection.request(method, path, body)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def bytes_seen_by_caller(proxy: FaultProxy, request: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=5) as connection:
        connection.sendall(request)
        seen = b""
        while more := connection.recv(4096):
            seen += more
    return seen


RAW_POST = b"POST /refunds HTTP/1.1\r\nHost: provider\r\nContent-Length: 5\r\n\r\nfirst"


def test_an_unarmed_proxy_passes_the_request_and_the_answer_on_unharmed(proxy: FaultProxy, provider: Provider) -> None:
    before = time.time()
    assert call(proxy, "POST", "/refunds?expand=charge", "first") == (201, b'{"number": 1, "text": "first"}')
    assert provider.effects == ["first"]
    [exchange] = proxy.exchanges
    assert (exchange.number, exchange.method, exchange.path) == (1, "POST", "/refunds?expand=charge")
    assert (exchange.fault, exchange.sent, exchange.provider_statuses) == (None, 1, (201,))
    assert (exchange.answered, exchange.error, exchange.done) == (201, None, True)
    assert before <= exchange.at <= time.time()


def test_one_connection_carries_many_requests(proxy: FaultProxy, provider: Provider) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=5)
    connection.connect()
    first_socket = connection.sock
    for number in range(1, 4):
        connection.request("POST", "/refunds", f"{number}")
        response = connection.getresponse()
        assert response.headers["X-Provider"] == "yes"
        assert json.loads(response.read())["number"] == number
    assert connection.sock is first_socket
    connection.close()
    assert provider.effects == ["1", "2", "3"]


def test_commit_then_drop_makes_the_effect_and_answers_without_a_byte(proxy: FaultProxy, provider: Provider) -> None:
    proxy.arm(CommitThenDrop())
    assert bytes_seen_by_caller(proxy, RAW_POST) == b""
    assert provider.effects == ["first"]
    [exchange] = proxy.exchanges
    assert (exchange.fault, exchange.provider_statuses, exchange.answered) == (CommitThenDrop(), (201,), None)


def test_commit_then_drop_reaches_a_client_library_as_a_closed_connection(proxy: FaultProxy, provider: Provider) -> None:
    proxy.arm(CommitThenDrop())
    with pytest.raises(http.client.RemoteDisconnected):
        call(proxy, "POST", "/refunds", "first")
    assert call(proxy, "GET", "/refunds") == (200, b'["first"]')


def test_a_reset_before_the_commit_leaves_the_provider_untouched(proxy: FaultProxy, provider: Provider) -> None:
    proxy.arm(Reset())
    with pytest.raises(ConnectionResetError) as lost:
        bytes_seen_by_caller(proxy, RAW_POST)
    assert lost.type is ConnectionResetError
    assert provider.effects == []
    [exchange] = proxy.exchanges
    assert (exchange.sent, exchange.provider_statuses, exchange.answered, exchange.done) == (0, (), None, True)


def test_a_reset_after_the_commit_leaves_one_effect(proxy: FaultProxy, provider: Provider) -> None:
    proxy.arm(Reset(after_commit=True))
    with pytest.raises(ConnectionResetError) as lost:
        bytes_seen_by_caller(proxy, RAW_POST)
    assert lost.type is ConnectionResetError
    assert provider.effects == ["first"]
    [exchange] = proxy.exchanges
    assert (exchange.sent, exchange.provider_statuses, exchange.answered, exchange.done) == (1, (201,), None, True)


def test_a_delay_before_the_commit_makes_a_late_effect_for_a_caller_that_gave_up(proxy: FaultProxy, provider: Provider) -> None:
    proxy.arm(Delay(1.0))
    with pytest.raises(TimeoutError):
        call(proxy, "POST", "/refunds", "first", timeout_s=0.1)
    assert provider.effects == []
    assert proxy.exchanges[0].sent == 0
    proxy.wait_for(lambda seen: seen[0].done)
    assert provider.effects == ["first"]


def test_a_delay_after_the_commit_leaves_an_effect_that_a_caller_that_gave_up_does_not_know(
    proxy: FaultProxy, provider: Provider
) -> None:
    proxy.arm(Delay(30.0, after_commit=True))
    with pytest.raises(TimeoutError):
        call(proxy, "POST", "/refunds", "first", timeout_s=0.5)
    [exchange] = proxy.wait_for(lambda seen: seen[0].provider_statuses == (201,))
    assert provider.effects == ["first"]
    assert (exchange.answered, exchange.done) == (None, False)


@pytest.mark.parametrize("after_commit", [False, True])
def test_a_patient_caller_gets_the_delayed_answer(proxy: FaultProxy, provider: Provider, after_commit: bool) -> None:
    proxy.arm(Delay(0.3, after_commit=after_commit))
    started = time.monotonic()
    status, _ = call(proxy, "POST", "/refunds", "first")
    assert time.monotonic() - started >= 0.3
    assert (status, provider.effects) == (201, ["first"])


def test_a_duplicate_makes_two_effects_and_answers_with_the_second(proxy: FaultProxy, provider: Provider) -> None:
    proxy.arm(Duplicate())
    assert call(proxy, "POST", "/refunds", "first") == (201, b'{"number": 2, "text": "first"}')
    assert provider.effects == ["first", "first"]
    [exchange] = proxy.exchanges
    assert (exchange.sent, exchange.provider_statuses, exchange.answered) == (2, (201, 201), 201)


def test_an_armed_answer_before_the_commit_leaves_the_provider_untouched(proxy: FaultProxy, provider: Provider) -> None:
    proxy.arm(Answer(429, b'{"error": "slow down"}'))
    assert call(proxy, "POST", "/refunds", "first") == (429, b'{"error": "slow down"}')
    assert provider.effects == []
    [exchange] = proxy.exchanges
    assert (exchange.sent, exchange.provider_statuses, exchange.answered) == (0, (), 429)


def test_an_armed_answer_after_the_commit_hides_an_effect(proxy: FaultProxy, provider: Provider) -> None:
    proxy.arm(Answer(503, after_commit=True))
    assert call(proxy, "POST", "/refunds", "first") == (503, b"")
    assert provider.effects == ["first"]
    [exchange] = proxy.exchanges
    assert (exchange.sent, exchange.provider_statuses, exchange.answered) == (1, (201,), 503)


def test_a_rule_breaks_only_requests_that_match_its_method_path_and_body(proxy: FaultProxy, provider: Provider) -> None:
    proxy.arm(Answer(500), method="post", path="/refunds/?", containing=b"op-1")
    assert call(proxy, "GET", "/refunds/7")[0] == 200
    assert call(proxy, "POST", "/charges/7", "op-1")[0] == 201
    assert call(proxy, "POST", "/refunds/7", "op-2")[0] == 201
    assert call(proxy, "POST", "/refunds/7?expand=charge", "op-1")[0] == 500
    assert call(proxy, "POST", "/refunds/7", "op-1")[0] == 201
    assert provider.effects == ["op-1", "op-2", "op-1"]


def test_a_rule_counts_the_requests_that_match_and_breaks_times_of_them_from_the_nth(proxy: FaultProxy) -> None:
    proxy.arm(Answer(500), method="POST", nth=2, times=2)
    statuses = []
    for _ in range(5):
        call(proxy, "GET", "/refunds")
        statuses.append(call(proxy, "POST", "/refunds", "x")[0])
    assert statuses == [201, 500, 500, 201, 201]


def test_the_first_rule_armed_wins_and_the_others_count_on(proxy: FaultProxy) -> None:
    proxy.arm(Answer(500))
    proxy.arm(Answer(501), times=2)
    assert [call(proxy, "GET", "/refunds")[0] for _ in range(3)] == [500, 501, 200]


def test_a_rule_for_good_holds_until_it_is_disarmed(proxy: FaultProxy) -> None:
    proxy.arm(Answer(500), times=None)
    assert [call(proxy, "GET", "/refunds")[0] for _ in range(3)] == [500, 500, 500]
    proxy.disarm()
    assert call(proxy, "GET", "/refunds")[0] == 200


def test_among_concurrent_requests_exactly_the_armed_number_is_broken(proxy: FaultProxy, provider: Provider) -> None:
    proxy.arm(CommitThenDrop(), nth=51, times=50)

    def lost(number: int) -> bool:
        try:
            status, body = call(proxy, "POST", "/refunds", f"{number}", timeout_s=20)
        except http.client.RemoteDisconnected:
            return True
        assert (status, json.loads(body)["text"]) == (201, f"{number}"), "answers are not mixed up"
        return False

    with ThreadPoolExecutor(32) as pool:
        assert sum(pool.map(lost, range(200))) == 50
    assert sorted(provider.effects, key=int) == [f"{number}" for number in range(200)]
    assert [exchange.number for exchange in proxy.exchanges] == list(range(1, 201))
    assert all(exchange.provider_statuses == (201,) and exchange.done for exchange in proxy.exchanges)


@pytest.mark.parametrize(("path", "body"), [("/chunked", b"landed yes"), ("/until-close", b"all of it")])
def test_an_answer_in_another_framing_arrives_whole(proxy: FaultProxy, path: str, body: bytes) -> None:
    assert call(proxy, "POST", path, "x") == (201, body)


def test_a_request_in_chunks_arrives_whole(proxy: FaultProxy, provider: Provider) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=5)
    connection.request("POST", "/refunds", iter([b"in ", b"pieces"]), encode_chunked=True)
    assert connection.getresponse().status == 201
    connection.close()
    assert provider.effects == ["in pieces"]


def test_answers_without_a_body_leave_the_connection_usable(proxy: FaultProxy) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=5)
    for method, path, length in [("HEAD", "/refunds", "2"), ("GET", "/nothing", None), ("GET", "/refunds", "2")]:
        connection.request(method, path)
        response = connection.getresponse()
        response.read()
        assert response.headers["Content-Length"] == length
    connection.close()


def test_a_large_body_passes_both_ways(proxy: FaultProxy, provider: Provider) -> None:
    text = "x" * 3_000_000
    status, body = call(proxy, "POST", "/refunds", text, timeout_s=20)
    assert (status, json.loads(body)["text"] == text, provider.effects == [text]) == (201, True, True)


def test_a_caller_that_expects_100_continue_is_told_to_go_on(proxy: FaultProxy, provider: Provider) -> None:
    request = RAW_POST.replace(b"Host", b"Expect: 100-continue\r\nConnection: close\r\nHost")
    assert bytes_seen_by_caller(proxy, request).startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\n")
    assert provider.effects == ["first"]


@pytest.mark.parametrize(
    ("request_bytes", "reason"),
    [
        (b"\x16\x03\x01 not http\r\n\r\n", b"request line"),
        (b"GET / HTTP/2.0\r\n\r\n", b"request line"),
        (b"GET / HTTP/1.1\r\nno colon\r\n\r\n", b"header line"),
        (b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", b"Content-Length"),
        (b"GET / HTTP/1.1\r\nX: " + b"x" * 70_000 + b"\r\n\r\n", b"head"),
    ],
)
def test_what_is_no_http_is_told_so_and_never_forwarded(
    proxy: FaultProxy, provider: Provider, request_bytes: bytes, reason: bytes
) -> None:
    seen = bytes_seen_by_caller(proxy, request_bytes)
    assert seen.startswith(b"HTTP/1.1 400 ")
    assert b"fault proxy: " + reason in seen
    assert (proxy.exchanges, provider.effects) == ((), [])


def test_an_unreachable_provider_is_answered_with_502_and_nothing_was_sent() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with FaultProxy("127.0.0.1", port) as proxy:
        assert call(proxy, "POST", "/refunds", "first")[0] == 502
        [exchange] = proxy.exchanges
    assert (exchange.sent, exchange.provider_statuses, exchange.answered) == (0, (), 502)
    assert exchange.error is not None
    assert exchange.error.startswith("ConnectionRefusedError")


def test_an_answer_that_the_provider_broke_off_is_not_passed_on(proxy: FaultProxy, provider: Provider) -> None:
    assert bytes_seen_by_caller(proxy, RAW_POST.replace(b"/refunds", b"/broken-off")) == b""
    assert provider.effects == ["first"]
    [exchange] = proxy.exchanges
    assert (exchange.sent, exchange.provider_statuses, exchange.answered) == (1, (), None)
    assert exchange.error is not None
    assert exchange.error.startswith("IncompleteReadError")


def test_a_silent_provider_is_waited_for_no_longer_than_the_bound(provider: Provider) -> None:
    with FaultProxy("127.0.0.1", provider.server_port, provider_timeout_s=0.2) as proxy:
        assert bytes_seen_by_caller(proxy, RAW_POST.replace(b"/refunds", b"/silent")) == b""
        [exchange] = proxy.exchanges
    assert provider.effects == ["first"]
    assert (exchange.sent, exchange.provider_statuses) == (1, ())
    assert exchange.error is not None
    assert exchange.error.startswith("TimeoutError")


def test_stop_cuts_whatever_is_under_way_and_leaves_no_thread_and_no_port(provider: Provider) -> None:
    threads_before = threading.active_count()
    proxy = FaultProxy("127.0.0.1", provider.server_port)
    proxy.start()
    port = proxy.port
    proxy.arm(Delay(60), times=10)
    waiting = [socket.create_connection(("127.0.0.1", port), timeout=5) for _ in range(10)]
    for connection in waiting:
        connection.sendall(RAW_POST)
    idle = socket.create_connection(("127.0.0.1", port), timeout=5)
    proxy.wait_for(lambda seen: len(seen) == 10)

    started = time.monotonic()
    proxy.stop()
    assert time.monotonic() - started < 20

    for connection in [*waiting, idle]:
        assert connection.recv(1) == b""
        connection.close()
    assert provider.effects == []
    assert threading.active_count() == threads_before
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=5)
    proxy.stop()


def test_stop_does_not_wait_for_a_caller_that_reads_nothing(provider: Provider) -> None:
    with FaultProxy("127.0.0.1", provider.server_port) as proxy:
        proxy.arm(Answer(500, b"x" * 20_000_000))
        with socket.create_connection(("127.0.0.1", proxy.port), timeout=5) as connection:
            connection.sendall(RAW_POST)
            proxy.wait_for(lambda seen: len(seen) == 1 and seen[0].done)
            started = time.monotonic()
            proxy.stop()
            assert time.monotonic() - started < 20


def test_two_proxies_run_side_by_side_each_with_its_own_rules(provider: Provider, proxy: FaultProxy) -> None:
    with FaultProxy("127.0.0.1", provider.server_port) as other:
        proxy.arm(Answer(500))
        assert (call(other, "GET", "/refunds")[0], call(proxy, "GET", "/refunds")[0]) == (200, 500)


def test_waiting_for_what_never_comes_ends_with_a_named_error(proxy: FaultProxy) -> None:
    with pytest.raises(TimeoutError, match=r"not met within 0\.05 s"):
        proxy.wait_for(lambda seen: len(seen) == 1, timeout_s=0.05)


def test_bad_values_are_refused_by_the_name_of_their_field(provider: Provider, proxy: FaultProxy) -> None:
    misuses: list[tuple[str, Callable[[], object]]] = [
        ("seconds", lambda: Delay(-1)),
        ("seconds", lambda: Delay(float("nan"))),
        ("status", lambda: Answer(99)),
        ("nth", lambda: proxy.arm(Reset(), nth=0)),
        ("times", lambda: proxy.arm(Reset(), times=0)),
        ("upstream_port", lambda: FaultProxy("127.0.0.1", 0)),
        ("provider_timeout_s", lambda: FaultProxy("127.0.0.1", 80, provider_timeout_s=0)),
    ]
    for field, misuse in misuses:
        with pytest.raises(ValueError, match=f"^{field}: "):
            misuse()
    with pytest.raises(RuntimeError, match="already running"):
        proxy.start()
    with pytest.raises(RuntimeError, match="not running"):
        _ = FaultProxy("127.0.0.1", 80).port
