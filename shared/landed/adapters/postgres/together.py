"""Many rows in one statement that goes through a pipeline: as JSON, which the server takes apart again.

A statement for each row costs the client three times as much from a dozen rows on; COPY is cheaper still for very many, but does
not go through a pipeline, so each costs a round trip.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Final

import msgspec

from landed.adapters.postgres.connections import Connection
from landed.adapters.postgres.rows import Row
from landed.adapters.postgres.statements import statement

BYTES_MAX: Final = 4_194_304
"""Length of the rows of one statement, in bytes; a single row may be longer."""
_ENCODE: Final = msgspec.json.Encoder().encode


def write_together(connection: Connection, name: str, columns: Mapping[str, str], rows: Sequence[Row]) -> None:
    """Runs the INSERT *name* for all *rows*: once, unless they are very long.

    Args:
        columns: names and types of the values of a row, in their order in the statement.
    """
    for text in _as_json(columns, rows):
        connection.execute(_for_many(name, tuple(columns.items())), (text,), prepare=True)


def _as_json(columns: Mapping[str, str], rows: Sequence[Row]) -> Iterator[str]:
    encoded: list[bytes] = []
    size = 0
    for row in rows:
        one = _ENCODE(dict(zip(columns, row, strict=True)))
        if encoded and size + len(one) > BYTES_MAX:
            yield f"[{b','.join(encoded).decode()}]"
            encoded, size = [], 0
        encoded.append(one)
        size += len(one)
    if encoded:
        yield f"[{b','.join(encoded).decode()}]"


@cache
def _for_many(name: str, columns: tuple[tuple[str, str], ...]) -> bytes:
    """The statement of one row, with a set of rows in place of its VALUES."""
    head, _, rest = statement(name).partition("VALUES")
    given, _, tail = rest.partition(")")
    if given.count("%s") != len(columns):
        raise LookupError(f"statement {name!r} does not insert {len(columns)} values")
    # Bytes are text in base64 in JSON.
    taken = ", ".join(f"decode(k.{column}, 'base64')" if kind == "bytea" else f"k.{column}" for column, kind in columns)
    kinds = ", ".join(f"{column} {'text' if kind == 'bytea' else kind}" for column, kind in columns)
    return f"{head}SELECT {taken} FROM json_to_recordset(%s::json) AS k ({kinds}){tail}".encode()
