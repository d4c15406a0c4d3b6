"""A story as one HTML page that stands alone: no script, no font, no picture from elsewhere, so it can be attached to a ticket.

A lane for each actor, time downwards, evidence behind a click. Every text that comes from the log is escaped.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from html import escape
from typing import Final, Protocol, TypeVar

from landed_services.replay.showing import when
from landed_services.replay.telling import Line, Told

T_co = TypeVar("T_co", covariant=True)


class Many(Protocol[T_co]):
    """Values that can be counted, and read more than once: there may be more than fit into memory."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[T_co]: ...


LANES_MAX: Final = 8
"""Further actors share the last lane, under their names."""
OTHERS: Final = "others"

_POLICY: Final = "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
_STYLE: Final = """
:root{color-scheme:light dark;--ink:#1b1f24;--paper:#fff;--edge:#d0d7de;--soft:#f6f8fa;--bad:#b42318}
@media(prefers-color-scheme:dark){:root{--ink:#e6edf3;--paper:#0d1117;--edge:#30363d;--soft:#161b22;--bad:#ff7b72}}
body{font:14px/1.45 system-ui,sans-serif;color:var(--ink);background:var(--paper);margin:1.5rem}
table{border-collapse:collapse;width:100%}
th,td{border:1px solid var(--edge);padding:.3rem .5rem;vertical-align:top;text-align:left;overflow-wrap:anywhere}
th{background:var(--soft)}
td.at{white-space:nowrap;font-variant-numeric:tabular-nums}
.refused{color:var(--bad)}
summary{cursor:pointer}
@media print{body{margin:0}thead{display:table-header-group}tr{break-inside:avoid}
details::details-content{content-visibility:visible;display:block}}
"""


def report(lines: Many[Line], decisions: Many[Told], *, title: str) -> Iterator[str]:
    """The page, in pieces to be written one after the other."""
    lanes = lanes_of(lines)
    yield f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>{_POLICY}'
    yield f"<style>{_STYLE}</style></head>\n<body><h1>{escape(title)}</h1>\n"
    yield f"<p>{len(lines)} events, {len(decisions)} decisions. Times are UTC.</p>\n"
    yield "<h2>Decisions: what was known then, what is true now</h2>\n<table><thead><tr>"
    yield _cells("th", ("When, where", "Operation", "Decision", "Known then", "True now", "Because"))
    yield "</tr></thead><tbody>\n"
    for one in decisions:
        yield _decision(one)
    yield "</tbody></table>\n<h2>Events, a lane for each actor</h2>\n<table><thead><tr>"
    yield _cells("th", ("When, where", "Operation", *(lane or "the log" for lane in lanes)))
    yield "</tr></thead><tbody>\n"
    for line in lines:
        yield _event(line, lanes)
    yield "</tbody></table></body></html>\n"


def lanes_of(lines: Many[Line]) -> list[str]:
    """Actors in the order in which they first appear; where there are too many, the busiest, and a lane for the others."""
    counted = Counter(line.actor for line in lines)
    if len(counted) <= LANES_MAX:
        return list(counted)
    kept = {name for name, _ in counted.most_common(LANES_MAX - 1)}
    return [*(name for name in counted if name in kept), OTHERS]


def _event(line: Line, lanes: Sequence[str]) -> str:
    lane = line.actor if line.actor in lanes else OTHERS
    who = "" if line.actor in lanes else f"{line.actor}: "
    state = f" → {line.state}" if line.accepted and line.state is not None else ""
    said = f'<details id="e{line.partition}-{line.offset}"><summary>{escape(who + line.event + state)}</summary>'
    said += f"<div>{escape(line.evidence)}</div></details>"
    if not line.accepted:
        said += f'<div class="refused">not taken: {escape(line.reason or "")}</div>'
    cells = "".join(f"<td>{said if one == lane else ''}</td>" for one in lanes)
    return f"<tr>{_at(line)}<td>{escape(line.operation_id or line.route)}</td>{cells}</tr>\n"


def _decision(one: Told) -> str:
    seen = "nothing of it" if one.seen is None else f"up to {one.seen}"
    unseen = "".join(f"; not {place}" for place in one.not_seen)
    texts = (
        one.operation_id or one.route,
        f"{one.decision} by {one.by}: {one.says}",
        f"{one.known_then} (had seen {seen}{unseen})",
        f"{one.true_now} ({one.shown_now})",
        one.because,
    )
    return f"<tr>{_at(one)}{_cells('td', texts)}</tr>\n"


def _at(one: Line | Told) -> str:
    place = f"{one.partition}:{one.offset}"
    return f'<td class="at">{when(one.at_ms)}<br><a href="#e{one.partition}-{one.offset}">{place}</a></td>'


def _cells(tag: str, texts: Sequence[str]) -> str:
    return "".join(f"<{tag}>{escape(text)}</{tag}>" for text in texts)
