"""What happens in the incident, step by step, each step waited for and checked: at the end it is as told, or the script fails."""

import asyncio
import base64
import contextlib
import hashlib
import json
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime
from typing import Any, Final

from standardwebhooks import Webhook as Signer

from demo.case_study.scene import CARD, Watched, switch
from demo.incident import tools
from demo.screen import Screen
from demo.stage import ROOT, Stage
from landed import AsyncLedger, Confirmed, Ledger, Result, Unknown
from landed.adapters.kafka import KafkaEventLog
from landed.adapters.postgres import open_pool
from landed.adapters.postgres.news import PostgresNews
from landed.adapters.system import SystemClock
from landed.testing.fault_proxy import CommitThenDrop
from landed_services.intake import Accepted, Intake, endpoints_from

TENANT: Final = "acme"
TRIP: Final = "trip-4711"
FLIGHT, HOTEL, PAYMENT = (f"{TRIP}:{step}" for step in ("flight", "hotel", "payment"))
AMOUNT: Final = 48_000
SECRET: Final = "whsec_" + base64.b64encode(b"a secret of the provider's own").decode()
SAID: Final = "Your trip could not be booked. You have not been charged."
AT_ONCE: Final = 16


class Story(Watched):
    def __init__(self, screen: Screen, stage: Stage, unrelated: int) -> None:
        super().__init__(screen, stage, tools.registry, tenant=TENANT, group_id=TRIP)
        self._unrelated = unrelated
        os.environ["LANDED_WORKER"] = "agent-1"

    def play(self) -> None:
        screen = self.screen
        self._policies()
        half = self._unrelated // 2
        self.others(range(half))
        with Ledger.connect(worker="agent-1", wait=60.0) as ledger:
            self.group = ledger.group(TRIP, workflow_type="trip")
            screen.title("The agent books; the worker that books the hotel freezes beyond its lease")
            flight = self.group.perform(self.tool("book_flight"), operation_id=FLIGHT, trip=TRIP)
            screen.check("the flight", type(flight).__name__, Confirmed.__name__)
            with self._frozen_worker() as worker:
                self.until("the reconciler found the hotel", lambda route: route.operation(HOTEL).state == "confirmed")
                self.others(range(half, self._unrelated))
                worker.send_signal(signal.SIGCONT)
                screen.check("the worker wakes and hears", worker.communicate(timeout=60)[0].strip(), "Unknown lease_over")
            screen.title("The card is charged, the answer is lost, and the provider answers no questions for now")
            switch(self.stage, "look-ups", on=False)
            self.stage.proxy.arm(CommitThenDrop(), method="POST", containing=PAYMENT.encode())
            paid = self.group.perform(tools.charge_card, operation_id=PAYMENT, trip=TRIP, amount=AMOUNT, card=CARD)
            screen.check("the agent hears", type(paid).__name__, Unknown.__name__)
            self.group.unwind("payment_timeout")
            self.until("a person is asked", lambda route: route.operation(PAYMENT).state == "escalated")
            screen.title("A person decides, the bookings are taken back, the agent tells its user")
            (task,) = self.reads("reviews", "list")
            why = "no such charge in the settlement list of yesterday"
            self.reads("reviews", "decide", task["id"], "not_found", "--reason", why, "--by", "ben", "--yes")
            self.until("the group is unwound", lambda route: route.group_state == "unwound")
            self.group.record_statement(PAYMENT, "not_found", hashlib.sha256(SAID.encode()).hexdigest())
        screen.title("The provider's webhook arrives late: the charge was made")
        switch(self.stage, "look-ups", on=True)
        self._webhook()
        self.until("the payment is refunded", lambda route: route.operation(PAYMENT).state == "compensated")
        self.until("the group is unwound again", lambda route: route.group_state == "unwound")
        kinds = [one["kind"] for one in self.all_records() if one["kind"] != "seat"]
        expected = ["flight", "hotel", "charge", "cancel hotel", "cancel flight", "refund"]
        screen.check("the provider's own records of the trip", kinds, expected)
        seats = sum(one["kind"] == "seat" for one in self.all_records())
        screen.check("seats of other trips at the provider", seats, self._unrelated)

    # ---- steps ----------------------------------------------------------------------------------------------------------

    def _policies(self) -> None:
        rules = {"engine": "rules", "rules": [{"id": "within-a-day", "max_age": 86_400}]}
        inverses = [*(f"cancel_{kind}" for kind in tools.BOOKINGS), "refund_card"]
        for key, value, why in (
            ("compensation", rules, "whoever undoes a trip does it within a day"),
            ("automatic", inverses, "each can be looked up"),
        ):
            self.reads("policies", "set", key, json.dumps(value), "--why", why, "--by", "anna", "--yes")

    def others(self, numbers: range) -> None:
        """Operations of other trips, each made once."""

        async def reserve() -> list[Result]:
            free = asyncio.Semaphore(AT_ONCE)
            async with AsyncLedger.connect(tenant=TENANT, worker="agent-7", wait=60.0) as ledger:

                async def one(number: int) -> Result:
                    async with free:
                        name = f"trip-{10_000 + number}"
                        return await ledger.perform(tools.reserve_seat, operation_id=f"{name}:seat", trip=name)

                return await asyncio.gather(*(one(number) for number in numbers))

        done = asyncio.run(reserve())
        self.screen.check("seats of other trips", sum(isinstance(one, Confirmed) for one in done), len(numbers))

    @contextlib.contextmanager
    def _frozen_worker(self) -> Any:
        words = [sys.executable, "-m", "demo.incident.worker", TRIP, HOTEL]
        environment = {**os.environ, tools.FREEZE_AFTER_EFFECT: "yes"}
        with subprocess.Popen(words, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as worker:
            try:
                yield worker
            finally:
                worker.kill()  # also when it is frozen; nothing where it has ended

    def _webhook(self) -> None:
        (charge,) = [one for one in self.all_records() if one["kind"] == "charge"]
        endpoint = {"name": "psp-acme", "tenant": TENANT, "scheme": "standard", "secrets": ["env:PSP"], "tools": ["charge_card"]}
        now = datetime.now(tz=UTC)
        message = {"type": "charge.succeeded", "created": int(now.timestamp()), "data": charge}
        body = json.dumps(message).encode()
        headers = {
            "content-type": "application/json",
            "webhook-id": f"msg_{charge['id']}",
            "webhook-timestamp": str(int(now.timestamp())),
            "webhook-signature": Signer(SECRET).sign(f"msg_{charge['id']}", now, body.decode()),
        }
        log = KafkaEventLog(self.stage.log)
        try:
            with open_pool(self.stage.view) as pool:
                contracts = [tool.contract for tool in tools.registry]
                news = PostgresNews(self.stage.view, pool)
                taken = Intake(endpoints_from([endpoint], {"PSP": SECRET}), contracts, log, news, SystemClock()).intake(
                    "psp-acme", headers, body
                )
        finally:
            log.close(10.0)
        self.screen.check("the webhook", taken.what if isinstance(taken, Accepted) else taken, "matched")
