"""How often a process looks for cycles. States and records form none, and going through all that are held costs a long reading or
a rebuild a good part of its time. For processes of their own: whoever runs such work in a thread decides for himself."""

import atexit
import gc


def collect_rarely() -> None:
    """The garbage collector looks less often from now on."""
    gc.set_threshold(50_000, 20, 100)


def collect_never() -> None:
    """As `collect_rarely`, for a process that folds once and ends: what it holds is there until its end anyway."""
    gc.disable()
    # The interpreter looks for cycles once more when it ends, disabled or not, and passes over what is frozen.
    atexit.register(gc.freeze)
