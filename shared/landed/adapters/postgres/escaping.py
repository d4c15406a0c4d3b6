"""Text that PostgreSQL cannot hold (NUL, lone surrogates), reversibly, and shown as such.

Text that needs no escaping is stored as it is. Other text starts with `MARK` and has NUL, lone surrogates and backslashes written
as `\\uXXXX`; so does text that happens to start with `MARK`, which keeps the mapping one to one.
"""

import re
from typing import Final, overload

MARK: Final = "␀escaped:"
_UNFIT: Final = re.compile("[\x00\ud800-\udfff]")
_WRITTEN: Final = re.compile("[\x00\\\\\ud800-\udfff]")
_READ: Final = re.compile(r"\\u([0-9a-f]{4})")


@overload
def escaped(text: str) -> str: ...
@overload
def escaped(text: None) -> None: ...
def escaped(text: str | None) -> str | None:
    """*text* as it is stored; `unescaped` gives it back."""
    if text is None or (text.isascii() and "\x00" not in text):
        return text  # nearly all text there is
    if not (_UNFIT.search(text) or text.startswith(MARK)):
        return text
    return MARK + _WRITTEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


@overload
def unescaped(text: str) -> str: ...
@overload
def unescaped(text: None) -> None: ...
def unescaped(text: str | None) -> str | None:
    """The text that was stored as *text*."""
    if text is None or not text.startswith(MARK):
        return text
    return _READ.sub(lambda found: chr(int(found[1], 16)), text[len(MARK) :])
