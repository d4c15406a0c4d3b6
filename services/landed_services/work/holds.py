"""What is left alone for a while: something about it is under way, or was said and does not show in the view yet."""

from collections.abc import Hashable
from typing import Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_REMEMBERED_MAX: Final = 10_000


class _Hold(Generic[V]):
    __slots__ = ("firm", "pause_s", "until_s", "version")

    def __init__(self, version: V, until_s: float, pause_s: float, *, firm: bool) -> None:
        self.version = version
        self.until_s = until_s
        self.pause_s = pause_s
        self.firm = firm


class Holds(Generic[K, V]):
    """Until when each of them is left alone, by the monotonic clock; only a memory, without it the fold refuses repetitions.

    Args:
        first_pause_s: seconds of the first pause at one version; each further one at it is twice as long.
    """

    def __init__(self, first_pause_s: float) -> None:
        self._first_pause_s = first_pause_s
        self._holds: dict[K, _Hold[V]] = {}
        self._taken: set[K] = set()

    def free(self, key: K, version: V, now_s: float) -> bool:
        """Whether something may be begun: nothing is under way, and it is news or its pause is over."""
        if key in self._taken:
            return False
        hold = self._holds.get(key)
        if hold is None or now_s >= hold.until_s:
            return True
        return hold.version != version and not hold.firm

    def take(self, key: K) -> None:
        """Something is under way, until `back_off` or `release`."""
        self._taken.add(key)

    def release(self, key: K) -> None:
        """Nothing is under way any more, and nothing was begun."""
        self._taken.discard(key)

    def back_off(
        self,
        key: K,
        version: V,
        now_s: float,
        *,
        longest_s: float,
        at_least_s: float = 0.0,
        at_most_s: float = float("inf"),
        firm: bool = False,
    ) -> None:
        """Nothing is under way any more; as long as it shows the same version, it is left alone for a pause.

        Args:
            longest_s: what a pause grows to.
            at_least_s: how long it is in any case; at_most_s: how long it is this once at most.
            firm: also when it shows another version, since what was tried changes it by itself.
        """
        self._taken.discard(key)
        before = self._holds.get(key)
        pause_s = self._first_pause_s
        if before is not None and (before.version == version or (before.firm and firm)):
            pause_s = min(before.pause_s * 2, longest_s)
        if len(self._holds) >= _REMEMBERED_MAX:
            self._holds = {name: hold for name, hold in self._holds.items() if hold.until_s > now_s}
        self._holds[key] = _Hold(version, now_s + min(max(pause_s, at_least_s), at_most_s), pause_s, firm=firm)
