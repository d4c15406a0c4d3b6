"""How much this reconciler may ask of each provider now: places of its own, and a share of what all reconcilers have together."""

from collections import Counter
from collections.abc import Iterable
from math import ceil
from typing import Final

from landed.ports.tables import ProviderBudgets
from landed.ports.time import Clock
from landed.sdk.providers import Provider, Providers

SLICE_S: Final = 0.25
"""Seconds for which tokens are taken in advance; what is left of them after `STALE_S` is given up."""
STALE_S: Final = 1.0
_PAUSE_FIRST_S: Final = 1.0
_PAUSE_LONGEST_S: Final = 60.0


class _Share:
    __slots__ = ("ask_again_s", "left", "pause_s", "taken_s")

    def __init__(self) -> None:
        self.left = 0
        self.taken_s = 0.0
        self.ask_again_s = 0.0
        self.pause_s = 0.0


class Budgets:
    """Tokens of the providers behind a registry's tools.

    Args:
        shared: what all reconcilers have together; None: this one has the whole budget.
    """

    def __init__(self, providers: Providers, shared: ProviderBudgets | None, clock: Clock) -> None:
        self._providers = providers
        self._shared = shared if shared is not None else BudgetsInMemory(clock)
        self._clock = clock
        self._shares: dict[str, _Share] = {}
        self._running: Counter[str] = Counter()

    def begin(self, tool: str) -> bool:
        """Takes a place and a token of the provider behind *tool*; False: there is none now."""
        provider = self._providers.of(tool)
        if self._is_closed(provider) or not self._has_token(provider):
            return False
        if provider.per_second is not None:
            self._shares[provider.name].left -= 1
        self._running[provider.name] += 1
        return True

    def end(self, tool: str, *, throttled_s: float | None = None) -> None:
        """The call is over; where the provider wants to be left alone, it is, by all reconcilers."""
        provider = self._providers.of(tool)
        self._running[provider.name] -= 1
        share = self._shares.setdefault(provider.name, _Share())
        if throttled_s is None:
            share.pause_s = 0.0
            return
        share.pause_s = min(max(share.pause_s * 2, _PAUSE_FIRST_S), _PAUSE_LONGEST_S)
        pause_s = max(share.pause_s, throttled_s)
        share.left = 0
        share.ask_again_s = self._clock.monotonic() + pause_s
        self._shared.pause(provider.name, seconds=pause_s, per_second=provider.per_second or 1.0)

    def closed(self, tools: Iterable[str]) -> list[str]:
        """Those of *tools* that nothing can be begun for now."""
        return [tool for tool in tools if self._is_closed(self._providers.of(tool))]

    def _is_closed(self, provider: Provider) -> bool:
        if self._running[provider.name] >= provider.at_once:
            return True
        share = self._shares.get(provider.name)
        return share is not None and share.left <= 0 and self._clock.monotonic() < share.ask_again_s

    def _has_token(self, provider: Provider) -> bool:
        rate = provider.per_second
        if rate is None:
            return True
        share, now_s = self._shares.setdefault(provider.name, _Share()), self._clock.monotonic()
        if share.left > 0 and now_s - share.taken_s < STALE_S:
            return True
        share.taken_s = now_s
        share.left = self._shared.take(provider.name, wanted=ceil(rate * SLICE_S), per_second=rate)
        if share.left <= 0:
            share.ask_again_s = now_s + min(max(1 / rate, 0.02), 1.0)
        return share.left > 0


class BudgetsInMemory:
    """The whole budget, in memory."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tokens: dict[str, tuple[float, float]] = {}

    def take(self, provider: str, *, wanted: int, per_second: float) -> int:
        now_s, most = self._clock.monotonic(), max(1.0, per_second)
        tokens, at_s = self._tokens.get(provider, (most, now_s))
        tokens = min(most, tokens + (now_s - at_s) * per_second)
        granted = max(0, min(wanted, int(tokens)))
        self._tokens[provider] = (tokens - granted, now_s)
        return granted

    def pause(self, provider: str, *, seconds: float, per_second: float) -> None:
        tokens, _ = self._tokens.get(provider, (0.0, 0.0))
        self._tokens[provider] = (min(tokens, 1 - seconds * per_second), self._clock.monotonic())
