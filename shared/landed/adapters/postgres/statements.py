"""Named statements, one file of `sql/` each; the first comment of a file says what it is for."""

from functools import cache
from importlib.resources import files
from typing import LiteralString


@cache
def statement(name: str) -> LiteralString:
    """Text of `sql/<name>.sql`, without its comment.

    Raises:
        LookupError: there is no such file.
    """
    path = files("landed.adapters.postgres") / "sql" / f"{name}.sql"
    if not path.is_file():
        raise LookupError(f"no statement named {name!r}")
    lines = path.read_text("utf-8").splitlines()
    return "\n".join(line for line in lines if not line.lstrip().startswith("--")).strip()
