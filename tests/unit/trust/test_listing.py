"""A list probe is the team's own code: bounded, believed only in the form of the contract. And the words of `landed sweep`."""

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from landed import SettingsError, ToolRegistry
from landed.core.vocabulary import EffectStatus
from landed.sdk.listing import Listed, ListRequest
from landed_services.cli._app import run
from landed_services.cli._exit import Exit
from landed_services.trust.listing import listed

REQUEST = ListRequest(tenant_id="acme", tool="make", from_ms=100, to_ms=200, timeout_s=0.5)


def tool(listing: Any = None) -> Any:
    registry = ToolRegistry()

    @registry.effect(effect="x.make", reference_pattern=r"ef_\d+")
    def make() -> None: ...

    if listing is not None:
        make.list_probe(listing)
    return make


def test_entries_without_a_believable_form_are_counted_and_not_taken() -> None:
    odd: list[Any] = [
        "ef_1",
        Listed(reference="javascript:alert(1)"),
        Listed(reference="ef_2", status="gone"),  # type: ignore[arg-type]
        Listed(reference="ef_3", provider_time_ms="now"),  # type: ignore[arg-type]
        Listed(reference=None),  # type: ignore[arg-type]
    ]
    effects, unreadable = listed(tool(lambda request: [*odd, Listed(reference="ef_9", operation_id="op-1")]), REQUEST)
    assert (unreadable, [one.reference for one in effects]) == (5, ["ef_9"])


def test_a_mark_that_no_operation_can_have_is_none_of_ours() -> None:
    marks = ["op-1", "compensate:op-1", "policy:x", "", "a\nb", "x" * 400]
    effects, _ = listed(tool(lambda request: [Listed(reference=f"ef_{n}", operation_id=m) for n, m in enumerate(marks)]), REQUEST)
    assert [one.operation_id for one in effects] == ["op-1", "compensate:op-1", None, None, None, None]


def test_what_was_made_outside_the_span_is_left_out_and_what_has_no_time_is_kept() -> None:
    times = [99, 100, 199, 200, None]
    effects, _ = listed(
        tool(lambda request: [Listed(reference=f"ef_{n}", provider_time_ms=t) for n, t in enumerate(times)]), REQUEST
    )
    assert [one.provider_time_ms for one in effects] == [100, 199, None]
    assert effects[0].status is EffectStatus.SETTLED


async def one_by_one(request: ListRequest) -> AsyncIterator[Listed]:
    for number in range(2):
        await asyncio.sleep(0)
        yield Listed(reference=f"ef_{number}")


async def all_at_once(request: ListRequest) -> list[Listed]:
    return [Listed(reference="ef_0"), Listed(reference="ef_1")]


@pytest.mark.parametrize("listing", [one_by_one, all_at_once])
def test_a_list_probe_may_be_async(listing: Any) -> None:
    assert [one.reference for one in listed(tool(listing), REQUEST)[0]] == ["ef_0", "ef_1"]


def raises(request: ListRequest) -> Any:
    raise RuntimeError("card 4242 4242 of Jane Roe")


def test_a_list_probe_that_raises_is_told_without_its_text() -> None:
    with pytest.raises(SettingsError, match=r"list probe of 'make': failed \(RuntimeError\)") as caught:
        listed(tool(raises), REQUEST)
    assert "4242" not in str(caught.value)


def test_a_list_probe_that_hangs_is_bounded() -> None:
    woken = threading.Event()
    with pytest.raises(SettingsError, match=r"took longer than 0\.5 s"):
        listed(tool(lambda request: woken.wait(30)), REQUEST)
    woken.set()


@pytest.mark.parametrize("garbage", [None, 7, "ef_1", {"ef_1": 1}])
def test_garbage_is_no_list(garbage: Any) -> None:
    with pytest.raises(SettingsError, match=r"failed \(TypeError\)"):
        listed(tool(lambda request: garbage), REQUEST)


def test_a_tool_without_a_list_probe_says_what_to_register() -> None:
    with pytest.raises(SettingsError, match=r"register one with @tool\.list_probe"):
        listed(tool(), REQUEST)


WORDS = ["sweep", "payments.refund", "--tools", "demo.tools:registry", "--tenant", "acme"]


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        ([*WORDS, "--from", "yesterday"], Exit.USAGE, "--from: must be a time as"),
        ([*WORDS, "--from", "1h", "--to", "2h"], Exit.USAGE, "--from: must be before --to"),
        ([*WORDS, "--from", "2026-11-30T10:00+02:00", "--to", "2026-11-30T08:00"], Exit.USAGE, "--from: must be before --to"),
        ([*WORDS, "--from", "1h", "--time-limit", "0"], Exit.USAGE, "--time-limit: must be greater than 0"),
        ([*WORDS[:4], "--from", "1h"], Exit.USAGE, "--tenant: is required"),
        (["sweep", "nosuch", *WORDS[2:], "--from", "1h"], Exit.SETUP, "TOOL: 'nosuch' is not in demo.tools:registry"),
    ],
)
def test_what_is_wrong_with_the_command_is_named(
    words: list[str], code: Exit, told: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LANDED_TENANT", raising=False)
    assert run(words) == code
    assert told in capsys.readouterr().err
