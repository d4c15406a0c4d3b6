"""What a writer with a registry says before it has asked one."""

import sys

import pytest

import landed_schemas
from landed.adapters.kafka.registry import RegistryUnfit, SchemaRegistry
from landed.wire.registry import RegistrySettings, subject


def test_without_its_packages_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka.schema_registry", None)
    with pytest.raises(RegistryUnfit, match=r"pip install 'landed\[registry\]'"):
        SchemaRegistry(RegistrySettings(url="http://127.0.0.1:1"), "landed.operations")


def test_each_kind_of_event_has_a_subject_of_its_own_on_each_topic() -> None:
    schema = landed_schemas.schemas()["dispatch_granted"]
    assert subject("landed.operations", schema) == "landed.operations-landed.events.v1.DispatchGranted"
    subjects = {subject(topic, one) for topic in ("a", "b") for one in landed_schemas.schemas().values()}
    assert len(subjects) == 2 * len(landed_schemas.schemas())
