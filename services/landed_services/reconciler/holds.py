"""Operations that are left alone for a while: something about them is under way, or was said and does not show yet."""

from typing import Final

from landed.ports.tables import DueOperation

_Key = tuple[str, str, str]
_REMEMBERED_MAX: Final = 10_000


class _Hold:
    __slots__ = ("firm", "pause_s", "until_s", "version")

    def __init__(self, version: int, until_s: float, pause_s: float, *, firm: bool) -> None:
        self.version = version
        self.until_s = until_s
        self.pause_s = pause_s
        self.firm = firm


class Holds:
    """Until when each operation is left alone, by the monotonic clock; only a memory, without it the fold refuses repetitions.

    Args:
        first_pause_s: seconds of the first pause at one version of an operation; each further one at it is twice as long.
    """

    def __init__(self, first_pause_s: float) -> None:
        self._first_pause_s = first_pause_s
        self._holds: dict[_Key, _Hold] = {}
        self._taken: set[_Key] = set()

    def free(self, due: DueOperation, now_s: float) -> bool:
        """Whether something may be begun: nothing is under way, and it is news or its pause is over."""
        key = _key(due)
        if key in self._taken:
            return False
        hold = self._holds.get(key)
        if hold is None or now_s >= hold.until_s:
            return True
        return hold.version != due.operation.version and not hold.firm

    def take(self, due: DueOperation) -> None:
        """Something is under way, until `back_off`."""
        self._taken.add(_key(due))

    def back_off(self, due: DueOperation, now_s: float, *, longest_s: float, at_least_s: float = 0.0, firm: bool = False) -> None:
        """Nothing is under way any more; as long as it shows the same version, it is left alone for a pause.

        Args:
            firm: also when it shows another one, since what was tried changes the version by itself.
        """
        key, version = _key(due), due.operation.version
        self._taken.discard(key)
        before = self._holds.get(key)
        pause_s = self._first_pause_s
        if before is not None and (before.version == version or (before.firm and firm)):
            pause_s = min(before.pause_s * 2, longest_s)
        if len(self._holds) >= _REMEMBERED_MAX:
            self._holds = {name: hold for name, hold in self._holds.items() if hold.until_s > now_s}
        self._holds[key] = _Hold(version, now_s + max(pause_s, at_least_s), pause_s, firm=firm)


def _key(due: DueOperation) -> _Key:
    return due.tenant_id, due.route, due.operation.operation_id
