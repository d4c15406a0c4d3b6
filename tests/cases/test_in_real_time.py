"""Cases of many kinds on the real broker, the real database, and a projector and a reconciler in processes of their own."""

from pathlib import Path

from tests.conftest import new_database

from landed.adapters.embedded import Servers
from landed.testing.cases import load
from landed.testing.cases.real.playing import play

# Of those that last seconds; a crash half a second after a call is a story for simulated time.
CHOSEN = (
    # lost_response, idempotency_key, false_evidence, webhook
    *("C01", "C02", "C05", "C11", "C14", "C17", "C18", "C21", "C22", "C34", "C35", "C39", "C43", "C44", "C46"),
    # agent_reexecution, approval, clock, batch_partial
    *("C51", "C54", "C58", "C59", "C67", "C69", "C93", "C132"),
)


def test_cases_of_many_kinds_hold_in_real_time(servers: Servers, fresh_database: str) -> None:
    by_id = {case.id: case for case in load(Path(__file__).parent / "cases.yaml")}
    chosen = [by_id[name] for name in CHOSEN]
    assert len(chosen) >= 12
    assert len({case.kind for case in chosen}) >= 8
    outcomes = play(chosen, bootstrap=servers.bootstrap, database_url=fresh_database)
    late = [one for one in outcomes if one.result != "pass"]
    # All at once, on a machine that does other work, a call may still wait for its verdict when the next step of its case
    # is due: whatever did not come out right is played again with nothing beside it, and counts then.
    for one in late:
        print("again by itself:", one.case.id, one.result, one.because)
    with new_database(servers) as url:
        again = play([one.case for one in late], bootstrap=servers.bootstrap, database_url=url) if late else []
    assert [(one.case.id, one.result, one.because) for one in again if one.result != "pass"] == []
