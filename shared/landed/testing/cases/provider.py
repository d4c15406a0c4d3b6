"""The stand-in for every provider of a case: its rules decide, the first match wins, and it counts what exists because of us.

It is also the truth: what it counts is compared with what the case expects, whatever the ledger believes.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import msgspec

from landed.sdk.errors import NotSent
from landed.sdk.results import Pending
from landed.testing.cases.contracts import REFERENCE, STATUS
from landed.testing.cases.loading import Case, expanded
from landed.testing.cases.timeline import Timeline

CALL_ANSWERS: Final = frozenset({"ok", "pending", "error", "none", "lost", "malformed", "raised"})
READ_ANSWERS: Final = frozenset(
    {"found", "lookalike", "not_found", "pending", "error", "unavailable", "truth", "none", "lost", "malformed"}
)


Subject: TypeAlias = tuple[str, str]
"""Whose effect it is: tenant and operation id."""


class ProviderError(Exception):
    """An error as a provider answers it: code, and status of the response where it has one."""

    def __init__(self, text: str, code: str | None, status: int | None) -> None:
        super().__init__(text)
        self.code = code
        self.status = status


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A request as it reaches the provider."""

    tool: str
    op: str
    """Name of the operation in the case."""
    subject: Subject
    key: str | None
    arguments: Mapping[str, Any] = {}
    items: Mapping[str, Subject] = {}
    """Items of a request that carries several, by name."""
    request_hash: str | None = None
    """Hash of what is sent; None for a request of several items."""
    undoes: Subject | None = None
    """Subject that the request is to undo."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What the caller sees, and how long after the request."""

    kind: str
    after_s: float
    said: Mapping[str, Any]
    """The words of the rule: code, http, text, items, …"""
    fields: Mapping[str, Any] = {}
    """Of an acknowledgement."""

    def outcome(self) -> object:
        """The answer of a call; raises where the call ends with an error."""
        said = self.said
        match self.kind:
            case "ok" | "found" | "truth" | "lookalike":
                return dict(self.fields)
            case "pending":
                return Pending(reference=str(self.fields[REFERENCE]))
            case "malformed":
                return "<html>"
            case "error":
                raise ProviderError(said.get("text", "error"), said.get("code"), said.get("http"))
            case "lost":
                raise ConnectionResetError("the link broke")
            case "raised" if not said["sent"]:
                raise NotSent("the tool failed before it sent anything")
            case "raised":
                raise RuntimeError("the tool failed")
            case "not_found" | "unavailable":
                raise ProviderError(self.kind, self.kind, None)
            case _:
                raise TimeoutError("no answer in time")


class Record(msgspec.Struct, kw_only=True):
    """One effect at the provider."""

    tool: str
    subject: Subject
    at_s: float
    """From when it exists."""
    accepted_s: float
    reference: str | None
    fields: dict[str, Any]
    accepted_only: bool = False
    """It was answered as accepted, not settled."""
    removed_s: float | None = None


class Provider:
    """All providers of one case."""

    def __init__(self, case: Case, timeline: Timeline) -> None:
        self._case = case
        self._timeline = timeline
        self._requests: Counter[str] = Counter()
        self._keys: dict[str, set[tuple[str, str]]] = defaultdict(set)
        self._references: dict[tuple[str, Subject], str] = {}
        self.records: list[Record] = []
        self.effects: Counter[str] = Counter()
        """Effects that exist or existed because of us, by the name they are counted under."""
        self.log: list[tuple[float, Request]] = []
        """Every request of a tool with effects that reached the provider."""
        self.reads = reads_of(case)

    # ---- calls --------------------------------------------------------------------------------------------------------

    def call(self, request: Request) -> Answer:
        """Takes *request* now: its effect comes when the rule says, its answer is for the caller to wait for."""
        now_s = self._timeline.now_s
        rule = self._rule(request)
        if request.tool in self.reads:
            return self._asked(request, rule)
        self.log.append((now_s, request))
        if rule is None:
            rule = {"effect": "commit", "answer": "ok"}
        effect = rule.get("effect", "commit" if rule["answer"] in ("ok", "pending") else "none")
        fresh = effect in ("commit", "partial")
        reference = self._reference(request, rule, fresh=fresh)
        fields = {REFERENCE: reference, **({STATUS: rule["status"]} if "status" in rule else {}), **rule.get("value", {})}
        if fresh:
            self._commit(request, rule, {name: value for name, value in fields.items() if value is not None}, reference)
        elif self._says_gone(request, rule):
            self._remove(request.undoes)
        return Answer(kind=rule["answer"], after_s=rule.get("answer_after_s", 0.0), said=rule, fields=fields)

    def commit_unseen(self, request: Request, reference: str) -> None:
        """The effect of a call that has ended before the story begins."""
        self._commit(request, {"effect": "commit", "answer": "ok"}, {REFERENCE: reference}, reference)

    def _commit(self, request: Request, rule: Mapping[str, Any], fields: dict[str, Any], reference: str | None) -> None:
        only = rule.get("commits_for")
        allowed = None if only is None else {n for one in only for n in expanded(one)}
        subjects = request.items or {request.op: request.subject}
        committed = {name: subject for name, subject in subjects.items() if allowed is None or name in allowed}
        now_s = self._timeline.now_s
        at_s = now_s + rule.get("effect_after_s", 0.0)
        for subject in committed.values():
            record = Record(
                tool=request.tool,
                subject=subject,
                at_s=at_s,
                accepted_s=now_s,
                reference=reference,
                fields=fields,
                accepted_only=rule["answer"] == "pending",
            )
            self.records.append(record)

        def happens() -> None:
            # What was done by half counts as one, however many items the request had.
            count = min(1, len(committed)) if rule.get("effect") == "partial" and only is None else len(committed)
            self.effects[rule.get("counts_as", request.tool)] += count
            self.effects.update(rule.get("also", {}))
            self._remove(request.undoes)

        if at_s > now_s:
            self._timeline.at(at_s, happens)
        else:
            happens()

    def _remove(self, subject: Subject | None) -> None:
        for record in self.records:
            if subject is not None and record.subject == subject and record.removed_s is None:
                record.removed_s = self._timeline.now_s

    def _says_gone(self, request: Request, rule: Mapping[str, Any]) -> bool:
        """Whether the answer of an undo says that there is nothing left: the reads of this provider agree with it."""
        declared = self._case.contracts.get(request.tool, {})
        said = rule.get("code") or str(rule.get("http", ""))
        return (
            rule["answer"] == "error" and said in declared.get("gone_errors", ()) and not declared.get("gone_only_after_own_try")
        )

    def _asked(self, request: Request, rule: Mapping[str, Any] | None) -> Answer:
        """The answer of a read that an agent makes for itself: an empty one is an answer too, a failed one is none."""
        rule = rule or {"answer": "ok"}
        answers = rule["answer"] in ("ok", "found", "lookalike", "not_found", "truth", "pending")
        fields = {REFERENCE: rule.get(REFERENCE, self._made(request)), **rule.get("value", {})}
        return Answer(kind="ok" if answers else rule["answer"], after_s=rule.get("answer_after_s", 0.0), said=rule, fields=fields)

    # ---- reads --------------------------------------------------------------------------------------------------------

    def read(self, request: Request, *, subject: Subject) -> Answer:
        """Looks for the effect of *subject* with the reading tool of *request*."""
        return self._read(request, self._rule(request), subject=subject)

    def _read(self, request: Request, rule: Mapping[str, Any] | None, *, subject: Subject) -> Answer:
        if rule is None or rule["answer"] not in READ_ANSWERS:
            rule = {**(rule or {}), "answer": "truth"}
        after_s = rule.get("answer_after_s", 0.0)
        kind, seen = rule["answer"], self._there(subject, self._timeline.now_s - rule.get("lag_s", 0.0))
        if kind == "truth":
            removed = self._removed_status(request, seen)
            if seen is None or (removed is None and seen.removed_s is not None):
                return Answer(kind="not_found", after_s=after_s, said=rule)
            kind = "pending" if seen.accepted_only and seen.at_s > self._timeline.now_s else "found"
            rule = {**rule, **({STATUS: removed} if removed is not None else {})}
        fields: dict[str, Any] = dict(seen.fields) if seen is not None else {}
        fields |= {name: rule[name] for name in (REFERENCE, STATUS) if name in rule}
        return Answer(kind=kind, after_s=after_s, said=rule, fields=fields | rule.get("value", {}))

    def _there(self, subject: Subject, at_s: float) -> Record | None:
        """The effect of *subject* as it showed at *at_s*."""
        return next(
            (
                record
                for record in reversed(self.records)
                if record.subject == subject and (record.at_s <= at_s or (record.accepted_only and record.accepted_s <= at_s))
            ),
            None,
        )

    def _removed_status(self, request: Request, seen: Record | None) -> str | None:
        if seen is None or seen.removed_s is None:
            return None
        statuses = self._case.contracts.get(seen.tool, {}).get("removed_when")
        return statuses[0] if statuses else None

    def reference_of(self, subject: Subject) -> str | None:
        """Reference of the newest object of *subject*: what a notification about it carries."""
        return next((record.reference for record in reversed(self.records) if record.subject == subject), None)

    def change(self, tool: str, subject: Subject | None, fields: Mapping[str, Any], *, reference: str | None = None) -> None:
        """Somebody else changes what is there: of one operation, or under one reference, else all that *tool* made."""
        for record in self.records:
            if record.tool == tool and subject in (None, record.subject) and reference in (None, record.reference):
                record.fields.update(fields)
                if fields.get(STATUS) in self._case.contracts.get(tool, {}).get("removed_when", ()):
                    record.removed_s = self._timeline.now_s

    # ---- rules --------------------------------------------------------------------------------------------------------

    def _rule(self, request: Request) -> Mapping[str, Any] | None:
        """The first rule that matches; the request counts, and its key is known from now on."""
        self._requests[request.tool] += 1
        seen = self._keys[request.tool]
        key = None if request.key is None else (request.subject[0], request.key)
        known = key in seen
        if key is not None:
            seen.add(key)
        number, now_s = self._requests[request.tool], self._timeline.now_s
        for rule in self._case.rules:
            if (
                rule["tool"] in (request.tool, "*")
                and rule.get("call", number) == number
                and rule.get("call_from", 0) <= number
                and rule.get("from", 0.0) <= now_s
                and now_s < rule.get("until", float("inf"))
                and ("key" not in rule or (rule["key"] == "same") == known)
                and ("ops" not in rule or {n for one in rule["ops"] for n in expanded(one)} & set(request.items or {request.op}))
                and all(request.arguments.get(name) == value for name, value in rule.get("args", {}).items())
            ):
                return rule
        return None

    def _reference(self, request: Request, rule: Mapping[str, Any], *, fresh: bool) -> str | None:
        if REFERENCE in rule:
            found = str(rule[REFERENCE])
        elif rule["answer"] == "pending":
            found = self._named_later(request) or self._made(request)
        elif not fresh and (request.tool, request.subject) in self._references:
            return self._references[request.tool, request.subject]
        else:
            found = self._made(request)
        self._references[request.tool, request.subject] = found
        return found

    def _made(self, request: Request) -> str:
        return f"{request.tool}-{self._requests[request.tool]}"

    def _named_later(self, request: Request) -> str | None:
        """The reference that the story gives to what it only accepts now: an object has one from the start."""
        contract = self._case.contracts.get(request.tool, {})
        looked = {request.tool, contract.get("probe"), contract.get("verify")}
        in_rules = [rule[REFERENCE] for rule in self._case.rules if rule["tool"] in looked and REFERENCE in rule]
        told = [
            step.get("ref") for step in self._case.steps if step.do == "webhook" and request.op in step.ops and step.get("ref")
        ]
        return next(iter([*told, *in_rules]), None)


def reads_of(case: Case) -> frozenset[str]:
    """Tools that only read: those that are named as one, and those that say so."""
    found = {tool for tool, declared in case.contracts.items() if declared.get("read_only")}
    for declared in case.contracts.values():
        found |= {declared[name] for name in ("probe", "verify") if name in declared}
        if "undo_requires" in declared:
            found.add(declared["undo_requires"]["read"])
    return frozenset(found)
