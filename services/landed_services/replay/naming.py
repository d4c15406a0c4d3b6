"""Which operation is meant: by its id, else by a beginning that no other id has. Looks at the keys of a log alone. Pure."""

from typing import Final

from msgspec.structs import replace

from landed_services.replay.errors import SeveralFit
from landed_services.replay.scope import RouteKey, Scope

LISTED: Final = 5
"""Ids that an error lists; of others it says that they are there."""


class Named:
    """Takes the keys of a log; then says the scope with the operation that is meant, and its routes.

    Args:
        scope: with `operation_id` as it was typed.
    """

    def __init__(self, scope: Scope) -> None:
        self._scope, self._typed = scope, scope.operation_id or ""
        self._routes: dict[str, set[RouteKey]] = {}

    def take(self, key: bytes | None) -> None:
        found = self._scope.begins_operation(key)
        if found is None:
            return
        name, route = found
        # Whatever number of ids fits, no more are kept than are told; the whole id always is.
        if name in self._routes or name == self._typed or len(self._routes) <= LISTED:
            self._routes.setdefault(name, set()).add(route)

    @property
    def scope(self) -> Scope:
        """Raises SeveralFit: what was typed is no id, and several begin with it."""
        names = [self._typed] if self._typed in self._routes else sorted(self._routes)
        if len(names) > 1:
            listed = ", ".join(names[:LISTED]) + (", …" if len(names) > LISTED else "")
            raise SeveralFit(f"operation {self._typed!r} fits several: {listed}")
        name = names[0] if names else self._typed
        return replace(self._scope, operation_id=name, routes=frozenset(self._routes.get(name, ())))
