"""Secrets of the webhook settings: named, never written into them. `env:NAME` is a variable, `file:PATH` the text of a file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from landed.core.contract import Problem
from landed.sdk.settings import Secret

SECRET_BYTES_MIN: Final = 16
_FILE_BYTES_MAX: Final = 4_096


def secret_named(name: str, environment: Mapping[str, str], field: str, found: list[Problem]) -> Secret | None:
    """The secret that *name* points to; what is wrong is added to *found* under *field*, without a byte of it."""
    kind, colon, place = name.partition(":")
    text: str | None = None
    if not colon or kind not in ("env", "file"):
        # Not the words themselves: somebody may have put the secret there.
        found.append(Problem(field, "must be env:NAME or file:PATH; a secret itself does not belong into this file"))
        return None
    if kind == "env":
        text = environment.get(place)
        if text is None:
            found.append(Problem(field, f"the variable {place!r} is not set"))
    else:
        try:
            with Path(place).open("rb") as file:
                text = file.read(_FILE_BYTES_MAX).decode()
        except (OSError, UnicodeDecodeError) as error:
            found.append(Problem(field, f"the file {place!r} cannot be read ({type(error).__name__})"))
    if text is None:
        return None
    text = text.strip()
    if len(text.encode()) < SECRET_BYTES_MIN:
        found.append(Problem(field, f"the secret must be at least {SECRET_BYTES_MIN} bytes"))
        return None
    return Secret(text.encode())


def settings_document(path: Path) -> dict[str, Any]:
    """The TOML document at *path*.

    Raises:
        SettingsError: it cannot be read, or is no TOML; says where.
    """
    import tomllib

    from landed.sdk.errors import SettingsError

    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except OSError as error:
        raise SettingsError("webhook settings", [Problem(str(path), f"cannot be read ({type(error).__name__})")]) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        # The message of a decoder may quote the text.
        where = str(error).rpartition("(")[2].rstrip(")") if "(at " in str(error) else "somewhere"
        raise SettingsError("webhook settings", [Problem(str(path), f"is no TOML: {where}")]) from None
