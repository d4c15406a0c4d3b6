"""Where a group lies on the log, as the view knows it."""

import msgspec

from landed.adapters.postgres import PostgresSettings, connect, translated
from landed.adapters.postgres.escaping import escaped, unescaped
from landed.adapters.postgres.statements import statement


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where all records of a group are that the view knows, and where others may still be."""

    route: str
    partition: int
    first_offset: int
    last_offset: int
    folded_to: int
    """Offset up to which its partition is folded: what is behind it the view does not know."""


def places_of(
    database: PostgresSettings, tenant_id: str, *, route: str | None = None, operation_id: str | None = None
) -> list[Place]:
    """Places of the group *route*, or of those that hold *operation_id*, as far as the view knows them. Raises DatabaseError."""
    with connect(database) as connection, translated(database):
        tenant = escaped(tenant_id)
        if route is None:
            asked = {"tenant_id": tenant, "operation_id": escaped(operation_id)}
            routes = [row[0] for row in connection.execute(statement("routes_of_operation"), asked)]
        else:
            routes = [escaped(route)]
        return [
            Place(
                route=unescaped(one), partition=partition, first_offset=first_offset, last_offset=last_offset, folded_to=folded_to
            )
            for one in routes
            for partition, first_offset, last_offset, folded_to in connection.execute(
                statement("places_of_route"), {"tenant_id": tenant, "route": one}
            )
        ]
