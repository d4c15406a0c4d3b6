"""``landed reviews``: what automation handed over to people, and their decisions."""

from __future__ import annotations

from typing import Annotated

import msgspec
from cyclopts import App, Parameter

from landed.core.vocabulary import Choice

from ._confirm import confirm
from ._exit import CommandFailed, Exit, require
from ._output import Format, plain, print_facts, print_table, print_text
from ._people import Desk, Person, Tenant, Yes, desk, person, print_one, print_values

reviews = App(
    name="reviews",
    help="Review tasks: what automation handed over, and the decision."
    "\n\nFor example:\n\n    landed reviews list\n\n    landed reviews show refund-17",
    help_format="plaintext",
)
LIMIT_MAX = 10_000
NEWS_SHOWN = 20
Review = Annotated[
    str, Parameter(help="Operation id, or its beginning where that fits only one; its number may follow: refund-17#2.")
]
ReviewSeen = Annotated[str, Parameter(help="The task as you saw it: operation id (or its beginning) and number, refund-17#2.")]
Chosen = Annotated[
    Choice, Parameter(help="One of the choices that `landed reviews show` offers.", name_transform=lambda name: name.lower())
]


@reviews.command(name="list")
def list_(
    *,
    queue: Annotated[str | None, Parameter(help="Only tasks of this owner queue.")] = None,
    reason: Annotated[str | None, Parameter(help="Only tasks with this reason, such as conflict.")] = None,
    older_than: Annotated[float, Parameter(help="Only tasks that are open for at least so many seconds.")] = 0.0,
    limit: Annotated[int, Parameter(help="How many at most.")] = 200,
    tenant: Tenant = None,
    output: Format = "text",
) -> int:
    """List open review tasks, oldest first; without a filter also the newest news that matches no operation.

    For example:

        landed reviews list --queue payments --older-than 3600

        landed reviews list -o jsonl
    """
    require("--older-than", older_than >= 0, "must not be negative (seconds)")
    require("--limit", 1 <= limit <= LIMIT_MAX, f"must be from 1 to {LIMIT_MAX}")
    from landed_services.people.times import age
    from landed_services.queries.reviews import open_reviews

    with desk(tenant) as at:
        found = open_reviews(at.connection, at.tenant_id, queue=queue, reason=reason, age_s=older_than, limit=limit)
    rows = [(one.id, age(one.age_s), one.queue, one.stakes, ", ".join(one.reasons), one.tool or "", one.label) for one in found]
    columns = ("review", "age", "queue", "stakes", "reasons", "tool", "shown as")
    print_values(found, output, columns=columns, rows=rows, empty="No review task is open.")
    if output == "text" and queue is None and reason is None and not older_than:
        _print_news(at)
    return Exit.DONE


def _print_news(at: Desk) -> None:
    """What no operation explains stands beside the tasks: somebody has to look at it as well."""
    from .news import as_table, unmatched_news

    found = unmatched_news(at, NEWS_SHOWN)
    if found:
        print("\nNews that matches no operation (landed news list):")
        print_table(*as_table(found))


@reviews.command
def show(review: Review, *, tenant: Tenant = None, output: Format = "text") -> int:
    """Show one task with request, evidence, choices and timeline.

    For example:

        landed reviews show refund-17
    """
    from landed_services.people.reviews import review_named
    from landed_services.queries.reviews import review_detail

    with desk(tenant) as at:
        known, number = review_named(at.connection, at.tenant_id, review)
        task, name = known.operation.review, known.operation.operation_id
        if task is None:
            raise CommandFailed(f"{name}: no review task is open, the operation is {known.operation.state}", Exit.FOUND)
        if number not in (None, task.review_id):
            raise CommandFailed(f"{name}#{number} is not open; the open one is {name}#{task.review_id}", Exit.FOUND)
        detail = review_detail(at.connection, known)
    if output != "text":
        print_one(detail, output, "")
    else:
        _print(detail)
    return Exit.DONE


@reviews.command
def decide(
    review: ReviewSeen,
    choice: Chosen,
    *,
    reason: Annotated[str, Parameter(help="Why; recorded with the decision.")],
    reference: Annotated[str | None, Parameter(help="The provider's reference, with the choice confirmed.")] = None,
    by: Person = None,
    yes: Yes = False,
    tenant: Tenant = None,
    output: Format = "text",
) -> int:
    """Decide a review task. The first decision counts; a task that changed since you saw it is another one.

    For example:

        landed reviews decide refund-17#2 confirmed --reference re_8f2 --reason "seen in the provider's dashboard"
    """
    from landed_services.people import reviews as people

    with desk(tenant, decides=True) as at:
        known, number = people.review_named(at.connection, at.tenant_id, review)
        name = known.operation.operation_id
        if number is None:
            shown = f"{name}#{known.operation.review.review_id}" if known.operation.review else f"{name}#1"
            raise CommandFailed(f"review: name the task as you saw it, with its number, such as {shown}", Exit.USAGE)
        who = person(by)
        confirm(f"{name}#{number}: {choice.value}, decided by {who}?", yes=yes)
        done = people.decide(at.log, at.connection, known, number, choice, reviewer=who, reason=reason, reference=reference)
    print_one(done, output, f"{plain(done.operation_id)}#{done.review_id}: {done.choice.value}; it is {done.state} now")
    return Exit.DONE


def _print(detail: object) -> None:
    from landed_services.people.times import age, utc
    from landed_services.queries.reviews import ReviewDetail

    assert isinstance(detail, ReviewDetail)
    one = detail.review
    lines = [
        ("review", one.id),
        ("shown as", f"{one.label}: {one.sentence}"),
        ("reasons", ", ".join(one.reasons)),
        ("owner", f"queue {one.queue}, open for {age(one.age_s)} (since {utc(one.opened_at_ms)})"),
        ("at stake", one.stakes),
        ("request", f"{one.tool}, {one.effect_type}; arguments on the log: {_json(detail.request['stored_args'])}"),
        ("group", f"{one.group_id}" if one.group_id else "none"),
        ("attempts", f"{detail.attempts}; references: {', '.join(detail.references) or 'none'}"),
    ]
    if detail.claimed_states:
        said = ", ".join(detail.claimed_states)
        lines.append(("agent told", said + ("; the ledger says otherwise" if one.told is not None else "")))
    if detail.follow_up:
        lines.append(("follow-up", detail.follow_up))
    for child, state in detail.children:
        lines.append(("child group", f"{child} ({state})"))
    print_facts(lines)
    print("\nChoices:")
    for offer in detail.offers:
        waits = f" (from {utc(offer.from_ms)})" if offer.from_ms is not None else ""
        waits += f" (waits for {offer.blocked_by})" if offer.blocked_by else ""
        print_text(f"{offer.meaning}{waits}", indent=f"  {offer.choice.value:12} ", rest=" " * 15)
    if detail.evidence:
        print("\nEvidence:")
        for piece in detail.evidence:
            print_text(f"{utc(piece.at_ms)}  {piece.event} by {piece.by}: {piece.says}", indent="  ", rest="    ")
    print("\nTimeline:")
    rows = [
        (utc(row.at_ms), row.event, row.actor, row.evidence + ("" if row.accepted else f" [not taken: {row.reason}]"))
        for row in detail.timeline
    ]
    print_table(("time", "event", "by", "evidence"), rows)
    print(f"\nDecide: landed reviews decide {plain(one.id)} CHOICE --reason WHY")


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
