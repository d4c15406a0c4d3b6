"""The page of a story stands alone, shows every event in its actor's lane, and lets nothing from the log become markup."""

import re
from html.parser import HTMLParser

from msgspec.structs import replace
from tests.history import History
from tests.unit.replay.support import lost_answer, told

from landed_services.replay.report import LANES_MAX, OTHERS, lanes_of, report


class Page(HTMLParser):
    """Tags that are open at the end, all tags, and the cells of each row."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []
        self.rows: list[list[str]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += attrs
        if tag not in ("meta", "br"):
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if {"td", "th"} & set(self.open):
            self.rows[-1][-1] += data


def page(history: History) -> tuple[str, Page]:
    story, lines = told(history)
    text = "".join(report(lines, list(story.decisions()), title="t"))
    return text, Page(text)


def test_every_event_stands_in_the_lane_of_its_actor() -> None:
    _, shown = page(lost_answer())
    assert shown.open == []
    heads = [row for row in shown.rows if row[0] == "When, where"]
    assert heads[1][2:] == ["test", "projector", "reconciler"]
    events = shown.rows[shown.rows.index(heads[1]) + 1 :]
    assert [next(at for at, cell in enumerate(row[2:]) if cell) for row in events] == [0, 0, 0, 0, 0, 1, 2]
    assert events[6][4] == "outcome_confirmed → confirmedby probe, reference r1"


def test_decisions_show_known_then_beside_true_now() -> None:
    _, shown = page(lost_answer())
    refused = next(row for row in shown.rows if row[2].startswith("dispatch_refused"))
    assert refused[3:] == [
        "unknown (had seen up to dispatch_requested at 0:4)",
        "confirmed (Done)",
        "refused because unresolved, see outcome_unknown at 0:3",
    ]


def test_nothing_from_the_log_becomes_markup() -> None:
    evil = '<script src="//x">\'"&'
    history = History().prepare("X").must("operation_cancelled", by=evil, reason=evil, actor=evil)
    history.add("dispatch_granted", claim_id=evil, attempt=1, actor=evil)
    text, shown = page(history)
    assert shown.open == []
    assert "script" not in shown.tags
    assert text.count("&lt;script") > 3


def test_the_page_loads_nothing_from_elsewhere() -> None:
    text, shown = page(lost_answer())
    assert shown.tags.isdisjoint({"script", "img", "link", "iframe", "object"})
    assert not re.search(r"url\(|@import|https?:", text)
    assert {value[:1] for name, value in shown.attributes if name == "href" and value} == {"#"}
    assert "default-src 'none'" in text


def test_many_actors_share_the_last_lane_under_their_names() -> None:
    _, lines = told(lost_answer())
    many = [replace(lines[0], actor=f"<script>{number}") for number in range(LANES_MAX + 3)]
    assert lanes_of(many)[-1] == OTHERS
    assert len(lanes_of(many)) == LANES_MAX
    shown = Page("".join(report(many, [], title="t")))
    assert "script" not in shown.tags
    assert shown.rows[-1][-1].startswith(f"<script>{LANES_MAX + 2}: operation_prepared")
