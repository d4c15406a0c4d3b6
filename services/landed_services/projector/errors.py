"""Why a projector ends by itself.

ProjectorError
├── LogReplaced     the log does not continue where the database stands: repair as docs/operations.md says
├── NotFolded       there is no view to compare with: nobody has folded this log yet
└── TakenOver       another projector owns a partition now: what was meant for it is not committed, nothing is to be done
"""

from landed.core.errors import LandedError


class ProjectorError(LandedError):
    """Base of what ends a projector. What a retry may heal is not here: it is retried."""


class LogReplaced(ProjectorError):
    pass


class NotFolded(ProjectorError):
    pass


class TakenOver(ProjectorError):
    pass
