"""Named points between two steps of the product at which a test has a process killed or stopped: faults by list, not by luck.

Off unless the environment names a point; then `reach` of any point is a call that does nothing.

    LANDED_FAILURE_POINT=sdk.claim_sent             kill -9 to itself when the point is reached
    LANDED_FAILURE_POINT=sdk.claim_sent:stop        SIGSTOP to itself: goes on with SIGCONT, as after a long pause
    LANDED_FAILURE_POINT=projector.committed:kill:3 the third time that it is reached, and no other time

Read once, when the process imports this module. For tests only: whoever sets it in production ends processes, which by the
guarantees of the ledger costs time and no effect.
"""

import itertools
import os
import signal
from collections.abc import Callable, Mapping
from typing import Final

SETTING: Final = "LANDED_FAILURE_POINT"

POINTS: Final[Mapping[str, str]] = {
    "sdk.before_claim": "the claim is made, nothing was sent",
    "sdk.claim_sent": "the claim is with the client of the log; whether it is on the log is unknown",
    "sdk.claim_acknowledged": "the claim is on the log, no verdict came yet",
    "sdk.before_withdrawal": "no verdict came in time, the claim is not withdrawn yet",
    "sdk.verdict_received": "the verdict is here, nothing was done about it",
    "sdk.before_release": "granted and not called since the lease is over; the grant is not given back yet",
    "sdk.before_call": "the lease was checked, the next step is the call",
    "sdk.after_call": "the call came back, nothing is recorded",
    "sdk.reference_sent": "the reference is with the client of the log, the read that verifies it was not made",
    "sdk.before_outcome": "the answer is classified, its event was not sent",
    "sdk.outbox_sent": "an outcome, a release or a withdrawal is with the client of the log; whether it is on the log is unknown",
    "sdk.outcome_acknowledged": "the outcome is on the log, the caller was not told",
    "sdk.lease_renewed": "the log has taken a renewal of the lease, the call runs",
    "reconciler.before_look": "an operation is due, its probe was not asked",
    "reconciler.looked": "the probe has answered, nothing follows from it yet",
    "reconciler.before_append": "what follows from a look or a lease that ran out was not sent",
    "reconciler.event_sent": "one event is with the client of the log, those beside it may follow",
    "reconciler.before_replay": "a request is to be sent again, nothing was claimed",
    "reconciler.replayed": "the call and its record are over, nothing was noted",
    "reconciler.acknowledged": "all events are on the log, nothing was noted",
    "compensator.before_read": "an inverse is due, what it requires was not read",
    "compensator.before_inverse": "an inverse is to be claimed, nothing was sent",
    "compensator.performed": "the inverse and its record are over, nothing was noted",
    "compensator.before_hand_over": "an inverse goes to a person, its event was not sent",
    "compensator.handed_over": "the event that hands over is with the client of the log, nothing was noted",
    "notifier.before_send": "a try to tell a receiver is on record, nothing was sent",
    "notifier.sent": "the receiver has answered, what became of the try is not recorded",
    "projector.took_over": "the partitions are owned, what the outbox holds was not appended",
    "projector.outbox_appended": "what the outbox held is on the log, nothing was read",
    "projector.read": "a batch was read, nothing of it is folded",
    "projector.before_verdicts": "decisions came back and are folded, their verdicts were not sent",
    "projector.verdicts_sent": "verdicts are with the client of the log, that they were is not written",
    "projector.before_transaction": "a batch is to be written, its transaction has not begun",
    "projector.in_transaction": "the positions are moved inside the transaction, nothing else is written",
    "projector.mid_batch": "half of a batch is written inside the transaction",
    "projector.before_commit": "all is written inside the transaction, nothing is committed",
    "projector.committed": "decisions and positions are committed, no decision was sent",
    "projector.decision_sent": "one decision of a batch is with the client of the log, the others are not",
    "projector.appended": "all decisions of a batch are with the client of the log",
    "projector.before_release": "all is written and acknowledged, partitions are not given up yet",
    "projector.released": "partitions are given up, their next owner may be at work",
}
"""Every point by name, with what holds there."""

_ACTIONS: Final = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}


def _nothing(_name: str) -> None:
    """No point is named: nothing ever happens."""


def armed(setting: str | None) -> Callable[[str], None]:
    """What `reach` does under *setting*: the value of LANDED_FAILURE_POINT, None or empty for "off".

    Raises:
        ValueError: names a point that is not in the list, an action that is none, or a count below one.
    """
    if not setting:
        return _nothing
    named, action, count, *more = (*setting.split(":"), "", "")
    if named not in POINTS:
        raise ValueError(f"{SETTING}: no such failure point {named!r}; known: {', '.join(POINTS)}")
    if (action or "kill") not in _ACTIONS or not (count or "1").isdecimal() or int(count or 1) < 1 or any(more):
        raise ValueError(f"{SETTING}: must be POINT[:kill|stop[:TIMES]], got {setting!r}")
    number, ending, times = itertools.count(1), _ACTIONS[action or "kill"], int(count or 1)

    def reached(name: str) -> None:
        if name == named and next(number) == times:
            os.kill(os.getpid(), ending)

    return reached


reach: Final = armed(os.environ.get(SETTING))
"""Called by the product where a named point is reached."""
