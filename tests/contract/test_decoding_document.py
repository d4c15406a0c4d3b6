"""The document for other teams says what the code does; its consumers are run in tests/integration/projector."""

import re
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.unit.wire.test_records import RENEWED, RING, written

from landed.adapters.kafka.registry import COMPATIBILITY
from landed.wire.framing import to_confluent
from landed.wire.mac import UNSIGNED
from landed.wire.reasons import Reason
from landed.wire.registry import CA_SETTING, LOGIN_SETTING, URL_SETTING

DOCUMENT = Path("docs/decoding.md").read_text("utf-8")
SECRET = b"first secret of sixteen and more"


def is_right() -> Any:
    [code] = re.findall(r"```python\n(import hashlib.*?)```", DOCUMENT, re.DOTALL)
    space: dict[str, Any] = {}
    exec(code, space)
    return space["is_right"]


@pytest.mark.parametrize("schema_id", [None, 1, 77], ids=["single-object encoding", "a registry's", "another registry's"])
def test_the_way_to_check_a_mac_takes_what_was_signed_and_nothing_else(schema_id: int | None) -> None:
    out = written(RENEWED, RING)
    value = out.value if schema_id is None else to_confluent(out.value, schema_id)
    headers = dict(out.headers)
    assert is_right()(out.key, value, headers, SECRET)
    assert not is_right()(out.key, value, headers, b"another secret of sixteen or more")
    assert not is_right()(out.key + b"x", value, headers, SECRET)
    assert not is_right()(out.key, value + b"x", headers, SECRET)
    if schema_id is not None:
        assert not is_right()(out.key, value, {**headers, "landed-schema": b"0" * 16}, SECRET)


@pytest.mark.parametrize("word", [URL_SETTING, LOGIN_SETTING, CA_SETTING, COMPATIBILITY, Reason.SCHEMA_UNNAMED])
def test_every_setting_and_word_of_it_is_named(word: str) -> None:
    assert f"`{word}`" in DOCUMENT


def test_the_cost_of_cloud_events_is_what_the_document_says() -> None:
    headers = written(replace(RENEWED, event_id="0" * 32), ring=UNSIGNED, as_cloud_event=True).headers
    bytes_ = sum(len(name) + len(value) for name, value in headers if not name.startswith("landed-"))
    assert 140 <= bytes_ <= 200
