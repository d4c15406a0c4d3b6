"""The demo's provider behind the fault proxy: what makes it a fair example, tried on the real server.

It stores and lists the metadata of refunds (so a probe can find one by operation id) and it ignores Idempotency-Key (so
whoever sends twice pays twice).
"""

from __future__ import annotations

import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlencode

import pytest

from landed.testing.fault_proxy import Answer, CommitThenDrop, Delay, Duplicate, FaultProxy, Reset

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))  # demo/ is no part of the distribution

from demo.provider import Client, HttpError, NotSent, Provider, ResponseLost  # noqa: E402

pytestmark = pytest.mark.skipif(find_spec("localstripe") is None, reason="extra `demo` is not installed")

OPERATION = {"operation_id": "refund:order-17"}


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    with Provider() as running:
        yield running


@pytest.fixture
def proxy(provider: Provider) -> Iterator[FaultProxy]:
    with FaultProxy("127.0.0.1", provider.port) as running:
        yield running


@pytest.fixture
def direct(provider: Provider) -> Client:
    return Client(provider.url)


@pytest.fixture
def through_proxy(proxy: FaultProxy) -> Client:
    return Client(proxy.url)


@pytest.fixture
def charge(direct: Client) -> str:
    created = direct.create_charge(4200)
    assert (created.amount, created.currency, created.status) == (4200, "eur", "succeeded")
    return created.id


def test_a_refund_is_stored_and_listed_with_its_metadata(direct: Client, charge: str) -> None:
    refund = direct.create_refund(charge, 4200, OPERATION)
    assert (refund.charge, refund.amount, refund.currency, refund.status) == (charge, 4200, "eur", "succeeded")
    assert refund.metadata == OPERATION
    assert abs(refund.created - time.time()) < 60
    assert direct.list_refunds(charge=charge) == (refund,)


def test_a_probe_finds_the_refund_by_its_operation_id_among_others(direct: Client, charge: str) -> None:
    other = direct.create_refund(charge, 100, {"operation_id": "refund:order-18", "agent": "a"})
    mine = direct.create_refund(charge, 200, {**OPERATION, "agent": "a"})
    assert direct.list_refunds(charge=charge, metadata=OPERATION) == (mine,)
    assert direct.list_refunds(charge=charge, metadata={"operation_id": "refund:order-19"}) == ()
    assert {refund.id for refund in direct.list_refunds(charge=charge, metadata={"agent": "a"})} == {mine.id, other.id}
    assert direct.list_refunds(charge=direct.create_charge(1).id) == ()


def test_refunds_are_listed_across_pages(direct: Client, charge: str) -> None:
    made = [direct.create_refund(charge, 1, {"n": f"{number}"}).id for number in range(205)]
    listed = direct.list_refunds(charge=charge)
    assert sorted(refund.id for refund in listed) == sorted(made)
    assert direct.list_refunds(charge=charge, metadata={"n": "0"})[0].id == made[0]


def test_commit_then_drop_leaves_one_refund_and_a_caller_that_does_not_know(
    proxy: FaultProxy, through_proxy: Client, direct: Client, charge: str
) -> None:
    proxy.arm(CommitThenDrop(), method="POST", path="/v1/refunds")
    with pytest.raises(ResponseLost, match="RemoteDisconnected"):
        through_proxy.create_refund(charge, 4200, OPERATION)
    [refund] = direct.list_refunds(charge=charge)
    assert (refund.metadata, refund.status) == (OPERATION, "succeeded")
    [exchange] = proxy.exchanges
    assert (exchange.sent, exchange.provider_statuses, exchange.answered) == (1, (200,), None)


def test_a_naive_retry_after_the_lost_answer_makes_a_second_refund(
    proxy: FaultProxy, through_proxy: Client, direct: Client, charge: str
) -> None:
    proxy.arm(CommitThenDrop(), method="POST", path="/v1/refunds")
    with pytest.raises(ResponseLost):
        through_proxy.create_refund(charge, 4200, OPERATION)
    second = through_proxy.create_refund(charge, 4200, OPERATION)
    refunds = direct.list_refunds(charge=charge, metadata=OPERATION)
    assert len({refund.id for refund in refunds}) == 2
    assert second in refunds
    assert len(proxy.exchanges) == 2, "the client itself sent each call once"


def test_the_provider_ignores_an_idempotency_key(provider: Provider, direct: Client, charge: str) -> None:
    headers = {
        "Authorization": "Bearer sk_test_demo",
        "Idempotency-Key": "refund:order-17",
        "Content-Type": "application/x-www-form-urlencoded",
    }
    connection = http.client.HTTPConnection("127.0.0.1", provider.port, timeout=5)
    for _ in range(2):
        connection.request("POST", "/v1/refunds", urlencode({"charge": charge, "amount": "1"}), headers)
        assert connection.getresponse().read()
    connection.close()
    assert len(direct.list_refunds(charge=charge)) == 2


def test_a_request_duplicated_on_the_way_makes_two_refunds_of_one_call(
    proxy: FaultProxy, through_proxy: Client, direct: Client, charge: str
) -> None:
    proxy.arm(Duplicate())
    refund = through_proxy.create_refund(charge, 4200, OPERATION)
    assert len(direct.list_refunds(charge=charge)) == 2
    assert refund in direct.list_refunds(charge=charge)


@pytest.mark.parametrize(
    ("fault", "refunds_made"),
    [
        (Reset(), 0),
        (Reset(after_commit=True), 1),
        (Delay(3, after_commit=True), 1),
        (Answer(200, b"", after_commit=True), 1),
        (Answer(200, b'{"id": 7}', after_commit=True), 1),
    ],
)
def test_a_call_without_a_usable_answer_is_lost_whether_or_not_it_took_effect(
    proxy: FaultProxy, direct: Client, charge: str, fault: Reset | Delay | Answer, refunds_made: int
) -> None:
    proxy.arm(fault)
    with pytest.raises(ResponseLost):
        Client(proxy.url, timeout_s=1.5).create_refund(charge, 4200, OPERATION)
    proxy.wait_for(lambda seen: len(seen[0].provider_statuses) == refunds_made)
    assert len(direct.list_refunds(charge=charge)) == refunds_made


def test_a_refused_connection_is_known_to_have_sent_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(NotSent, match=r"POST /v1/refunds: ConnectionRefusedError"):
        Client(f"http://127.0.0.1:{port}").create_refund("ch_1", 1, {})


def test_an_error_status_is_told_with_its_code(proxy: FaultProxy, through_proxy: Client, charge: str) -> None:
    with pytest.raises(HttpError) as not_found:
        through_proxy.create_refund("ch_missing", 1, {})
    assert (not_found.value.status, not_found.value.code) == (404, "invalid_request_error")
    proxy.arm(Answer(429, b'{"error": {"type": "rate_limit_error", "code": "rate_limit", "message": "slow down"}}'))
    with pytest.raises(HttpError) as throttled:
        through_proxy.create_refund(charge, 1, {})
    assert (throttled.value.status, throttled.value.code, throttled.value.message) == (429, "rate_limit", "slow down")
    proxy.arm(Answer(502, b"<html>bad gateway"))
    with pytest.raises(HttpError) as no_code:
        through_proxy.create_refund(charge, 1, {})
    assert (no_code.value.status, no_code.value.code, no_code.value.message) == (502, None, "<html>bad gateway")


@pytest.mark.parametrize("url", ["https://127.0.0.1:1", "127.0.0.1:80", "http://127.0.0.1", "http://127.0.0.1:1/v1"])
def test_a_base_url_of_another_shape_is_refused_by_name(url: str) -> None:
    with pytest.raises(ValueError, match=r"^base_url: "):
        Client(url)


def test_the_provider_listens_on_the_loopback_address_only(provider: Provider) -> None:
    socket.create_connection(("127.0.0.1", provider.port), timeout=2).close()
    for address in ("127.0.0.2", "::1"):
        with pytest.raises(OSError, match=r"refused|assign|unreachable|supported"):
            socket.create_connection((address, provider.port), timeout=2)


def test_the_provider_keeps_nothing_on_disk_and_starts_empty(direct: Client, charge: str) -> None:
    store = Path("/tmp/localstripe.pickle")  # the name that localstripe's own store has in its source
    before = store.stat().st_mtime_ns if store.exists() else None
    direct.create_refund(charge, 1, {})
    assert (store.stat().st_mtime_ns if store.exists() else None) == before
    with Provider() as fresh:
        assert Client(fresh.url).list_refunds() == ()


def test_a_stopped_provider_is_gone_at_once_and_stopping_again_does_nothing() -> None:
    provider = Provider()
    provider.start()
    with pytest.raises(RuntimeError, match="already started"):
        provider.start()
    address = ("127.0.0.1", provider.port)
    started = time.monotonic()
    provider.stop()
    assert time.monotonic() - started < 20
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address, timeout=2)
    provider.stop()
    with pytest.raises(RuntimeError, match="not started"):
        _ = provider.url


def test_the_provider_ends_when_its_parent_is_killed() -> None:
    code = "from demo.provider import Provider; p = Provider(); p.start(); print(p.port, flush=True); input()"
    parent = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with parent:
        assert parent.stdout is not None
        port = int(parent.stdout.readline())
        socket.create_connection(("127.0.0.1", port), timeout=2).close()
        os.kill(parent.pid, signal.SIGKILL)
        parent.wait(30)
    deadline = time.monotonic() + 30
    while answers(port):
        assert time.monotonic() < deadline, "still answering 30 s after its parent was killed"
        time.sleep(0.02)


def test_a_provider_that_cannot_start_shows_its_last_lines(tmp_path: Path) -> None:
    broken = tmp_path / "server.py"
    broken.write_text("raise SystemExit('no such thing')")
    with pytest.raises(RuntimeError, match=r"(?s)no port within 20.0 s.*no such thing"):
        Provider(broken).start()


def test_a_missing_extra_is_named_with_its_installation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(RuntimeError, match=r"pip install 'landed\[demo\]'"):
        Provider().start()


def test_no_package_of_the_product_imports_the_provider() -> None:
    sources = [path for root in ("schemas", "shared", "services") for path in (ROOT / root).rglob("*.py")]
    assert sources
    assert [path for path in sources if "import localstripe" in (text := path.read_text()) or "from localstripe" in text] == []


def answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True
