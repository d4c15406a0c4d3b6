"""Asks a tool's list probe: the team's own code, bounded in time and number, and believed only in the form of the contract."""

import asyncio
import inspect
from collections.abc import AsyncIterable, Awaitable, Iterable
from typing import Any, Final

from landed.core.contract import Problem
from landed.core.identity import RequestError, check_id
from landed.core.sweeping import Effect
from landed.core.vocabulary import EffectStatus
from landed.sdk.answer import valid_reference
from landed.sdk.errors import SettingsError
from landed.sdk.listing import Listed, ListFunction, ListRequest
from landed.sdk.tools import Tool
from landed_services.trust.bounded import within

LISTED_MAX: Final = 1_000_000


def listed(tool: Tool[..., Any], request: ListRequest) -> tuple[list[Effect], int]:
    """Effects that the provider lists for *request*, and how many entries had no form that can be believed.

    Raises:
        SettingsError: the tool has no list probe, or it failed, took longer than `timeout_s`, or gave no entries.
    """
    if tool.list_function is None:
        raise _failed(tool, "has none: register one with @tool.list_probe")
    entries = _asked(tool, tool.list_function, request)
    effects, odd = [], 0
    for one in entries:
        effect = _effect(tool, one)
        if effect is None:
            odd += 1
        elif effect.provider_time_ms is None or request.from_ms <= effect.provider_time_ms < request.to_ms:
            effects.append(effect)
    return effects, odd


def _effect(tool: Tool[..., Any], one: object) -> Effect | None:
    if not isinstance(one, Listed):
        return None
    reference = valid_reference(tool.contract, one.reference)
    time_ms = one.provider_time_ms
    if reference is None or one.status not in tuple(EffectStatus) or not (time_ms is None or type(time_ms) is int):
        return None
    mark = one.operation_id
    try:
        mark = None if mark is None else check_id("operation_id", mark, inverse_allowed=True)
    except RequestError:
        mark = None  # no operation of ours can have such an id
    return Effect(reference=reference, operation_id=mark, provider_time_ms=time_ms, status=EffectStatus(one.status))


def _asked(tool: Tool[..., Any], function: ListFunction, request: ListRequest) -> list[object]:
    found: list[object] = []

    def run() -> None:
        answer = function(request)
        if inspect.isawaitable(answer) or isinstance(answer, AsyncIterable):
            asyncio.run(_collected(answer, found))
        else:
            _take(answer, found)

    try:
        within(request.timeout_s, run, name="landed-list-probe")
    except TimeoutError as error:
        raise _failed(tool, f"took longer than {request.timeout_s:g} s") from error
    except Exception as error:
        # The text of an error may hold content or secrets: only its class is told.
        raise _failed(tool, f"failed ({type(error).__name__})") from error
    return found


async def _collected(answer: Awaitable[Any] | AsyncIterable[Any], found: list[object]) -> None:
    entries: Any = await answer if inspect.isawaitable(answer) else answer
    if isinstance(entries, AsyncIterable):
        async for one in entries:
            _take((one,), found)
    else:
        _take(entries, found)


def _take(answer: Iterable[object], found: list[object]) -> None:
    if isinstance(answer, str | bytes | dict) or not isinstance(answer, Iterable):
        raise TypeError("a list probe gives `Listed` entries")
    for one in answer:
        found.append(one)
        if len(found) > LISTED_MAX:
            raise ValueError(f"more than {LISTED_MAX} entries: sweep a shorter span")


def _failed(tool: Tool[..., Any], rule: str) -> SettingsError:
    return SettingsError("sweep", [Problem(f"list probe of {tool.name!r}", rule)])
