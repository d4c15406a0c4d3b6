"""The intake of a case: notifications of providers as the core takes them, kept while nobody knows their operation."""

import hashlib
from typing import Final

from landed.core.news import About, News, follows, one_of, received, unmatched
from landed.testing.cases.contracts import word_of_news
from landed.testing.cases.loading import Step
from landed.testing.cases.world import TENANT, World

_KEPT_S: Final = 259_200.0


class Intake:
    """Takes deliveries, each once, and matches again what came too early."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._parked: list[News] = []
        """News of which nobody knows the operation."""
        self._early: list[News] = []
        """News whose operation is known, and of which nothing follows yet."""
        self._arrived_ms: dict[str, int] = {}
        self._matching = False
        world.broker.after.append(self.match_again)

    def take(self, step: Step) -> None:
        """A delivery arrives: recorded at once, whether or not anybody knows its operation."""
        world = self._world
        known = world.find(step.get("op"))
        number = len(self._arrived_ms) + 1
        webhook_id = step.get("delivery") or f"delivery-{number}"
        word = word_of_news(step.get("says"), step.get("status"))
        terms = world.contract(step.get("tool")).webhook
        provider_time = step.get("provider_time")
        news = News(
            tenant_id=step.get("tenant", TENANT if known is None else known.tenant_id),
            endpoint=step.get("tool"),
            webhook_id=webhook_id,
            operation_key=None if known is None or self._by_reference(step) else known.operation_id,
            reference=step.get("ref", self._reference(step)),
            status=word,
            tools=(step.get("tool"),),
            provider_time_ms=None if provider_time is None else round(provider_time * 1000),
            digest=hashlib.sha256(repr(sorted(step.fields.items(), key=str)).encode()).hexdigest(),
            keep_ms=round((terms.keep_unmatched if terms is not None else _KEPT_S) * 1000),
        )
        if webhook_id in self._arrived_ms:
            world.notes.append(f"{step.at:g} s: delivery {webhook_id} came again: recorded once")
        self._arrived_ms.setdefault(webhook_id, world.timeline.now_ms())
        about = self._about(news)
        if about is None:
            world.append(unmatched(news))
            self._parked.append(news)
            return
        world.append(received(news, about))
        self._follow(news, about)

    def _by_reference(self, step: Step) -> bool:
        """Whether the provider's notifications name its own object alone."""
        return (self._world.declared(step.get("tool")).get("webhook") or {}).get("match") == "reference"

    def _reference(self, step: Step) -> str | None:
        known = self._world.find(step.get("op"))
        return None if known is None else self._world.provider.reference_of((known.tenant_id, known.operation_id))

    def match_again(self) -> None:
        """News that is kept is asked about again whenever the log has grown."""
        if not (self._parked or self._early) or self._matching:
            return
        self._matching = True
        try:
            now_ms = self._world.timeline.now_ms()
            for kept in (self._parked, self._early):
                kept[:] = [one for one in kept if now_ms < self._arrived_ms[one.webhook_id] + one.keep_ms]
            for news in list(self._parked):
                about = self._about(news)
                if about is not None:
                    self._parked.remove(news)
                    self._world.append(received(news, about))
                    self._follow(news, about)
            for news in list(self._early):
                about = self._about(news)
                event = None if about is None else follows(news, about)
                if event is not None:
                    self._early.remove(news)
                    self._world.append(event)
        finally:
            self._matching = False

    @property
    def unmatched(self) -> int:
        """News that matches no operation as yet."""
        return len(self._parked)

    def _about(self, news: News) -> About | None:
        known = (
            About(route=route.route, group_id=None if route.route == operation.operation_id else route.route, operation=operation)
            for route in self._world.routes()
            if route.tenant_id == news.tenant_id
            for operation in route.operations.values()
        )
        return one_of(news, known)

    def _follow(self, news: News, about: About) -> None:
        event = follows(news, about)
        if event is not None:
            self._world.append(event)
        elif about.operation.contract is not None and not _tells_nothing(news):
            self._early.append(news)


def _tells_nothing(news: News) -> bool:
    return not news.status.startswith(("confirmed", "rejected"))
