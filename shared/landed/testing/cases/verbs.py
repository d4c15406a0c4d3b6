"""What each verb of each actor does: the whole vocabulary of steps, one entry each."""

from typing import Final

from landed.core.vocabulary import Decision
from landed.testing.cases.loading import Case
from landed.testing.cases.playing import Played, Player
from landed.testing.cases.world import World

PLAYED: Final[dict[tuple[str, str], Played]] = {
    ("agent", "call"): Player.call,
    ("agent", "call_many"): Player.call_many,
    ("agent", "call_again"): Player.call_again,
    ("agent", "rewrite_args"): lambda player, step: player.agents.rewrite(step),
    ("agent", "give_up_waiting"): lambda player, step: player.agents.give_up(step),
    ("agent", "heartbeat"): lambda player, step: player.agents.heartbeat(step),
    ("agent", "crash"): Player.crash,
    ("agent", "start"): Player.start,
    ("agent", "pause"): Player.pause,
    ("agent", "read"): Player.note,
    ("agent", "report_step_failed"): lambda player, step: player.people.unwind(step),
    ("agent", "start_workflow"): Player.start_workflow,
    ("agent", "note"): Player.note,
    **{
        (service, do): played
        for service in ("reconciler", "compensator")
        for do, played in {
            "tick": Player.tick,
            "replay": Player.replay,
            "catch_up": Player.tick,
            "crash": Player.crash,
            "start": Player.start,
        }.items()
    },
    ("operator", "unwind"): lambda player, step: player.people.unwind(step),
    ("operator", "cancel"): lambda player, step: player.people.unwind(step),
    ("operator", "read"): Player.note,
    ("operator", "replay"): Player.person_replays,
    ("operator", "disable_tool"): lambda player, step: player.people.disable_tool(step),
    ("operator", "override"): lambda player, step: player.people.override(step),
    ("operator", "erase"): lambda player, step: player.installation.erase(step),
    ("operator", "set_count"): lambda player, step: player.people.set_count(step),
    ("operator", "upgrade"): Player.upgrade,
    ("operator", "rebuild_read_model"): lambda player, step: player.installation.rebuild(),
    ("operator", "snapshot"): lambda player, step: player.installation.snapshot(step),
    ("operator", "restore"): lambda player, step: player.installation.restore(step),
    ("operator", "reset_offsets"): Player.read_again,
    ("operator", "add_partitions"): Player.note,
    ("operator", "repair"): lambda player, step: player.installation.repair(step),
    ("operator", "replay_parked"): lambda player, step: player.installation.replay_parked(step),
    ("reviewer", "approve"): lambda player, step: player.people.decide(step, Decision.ALLOW),
    ("reviewer", "reject"): lambda player, step: player.people.decide(step, Decision.DENY),
    ("provider", "webhook"): lambda player, step: player.intake.take(step),
    ("provider", "outside_change"): Player.outside_change,
    ("provider", "transport_repeats_request"): lambda player, step: player.agents.repeat_request(step),
    ("clock", "skew"): Player.skew,
    ("projector", "apply"): Player.note,
    ("projector", "catch_up"): Player.note,
    ("projector", "poll"): Player.note,
    ("projector", "commit"): Player.note,
    ("projector", "checkpoint"): Player.note,
    ("projector", "park"): lambda player, step: player.installation.park(step),
    ("projector", "relay_decisions"): Player.note,
    ("projector", "retry_batch"): Player.read_again,
    ("projector", "reconnect"): Player.read_again,
    ("projector", "pause"): Player.projector_down,
    ("projector", "crash"): Player.projector_down,
    ("projector", "stop"): Player.projector_down,
    ("projector", "start"): Player.projector_up,
    ("broker", "append"): Player.append,
    ("broker", "refuse_writes"): lambda player, step: player.world.broker.refuse(step.get("until")),
    ("broker", "rebalance"): Player.note,
    ("broker", "drop_group_offsets"): Player.note,
    ("broker", "prune"): lambda player, step: player.installation.prune(step),
    ("broker", "truncate"): lambda player, step: player.installation.truncate(step),
    ("broker", "open_transaction"): Player.open_transaction,
    ("broker", "abort_transaction"): Player.abort_transaction,
    ("database", "begin"): Player.note,
    ("database", "commit"): Player.note,
    ("database", "refuse_writes"): Player.database_down,
    ("database", "unavailable"): Player.database_down,
    ("database", "drop_connection"): Player.read_again,
    ("database", "fail_over"): lambda player, step: player.installation.fail_over(step),
    ("sdk", "append"): Player.append,
    ("sdk", "insert_lease"): lambda player, step: player.agents.claim_only(step),
}
"""What each word of each actor does; a test compares it with the schema."""


def play(case: Case) -> World:
    """Plays *case* to its end.

    Raises:
        NotSupported: a step cannot be played; says which word and why.
    """
    return Player(case, PLAYED).play()
