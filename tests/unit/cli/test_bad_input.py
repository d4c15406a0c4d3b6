"""Bad input on the command line or in the settings: one line with field and rule, the right exit code, no traceback, at once."""

import pytest

from landed.adapters.postgres import PostgresSettings
from landed.adapters.postgres.errors import DatabaseSettingError
from landed_services.cli._app import run
from landed_services.cli._exit import Exit

SERVERS = {"LANDED_KAFKA_BOOTSTRAP": "127.0.0.1:1", "LANDED_DATABASE_URL": "postgresql://u:hunter2@127.0.0.1:1/x"}
TOOLS = ["reconciler", "--tools", "demo.tools:registry"]
WRONG: list[tuple[list[str], dict[str, str], Exit, str]] = [
    (["topics", "create", "--partitions", "0"], {}, Exit.USAGE, "--partitions: must be 1 to"),
    (["topics", "create", "--replication", "0"], {}, Exit.USAGE, "--replication: must be 1 to"),
    ([*TOOLS, "--probe-limit", "-1"], {}, Exit.USAGE, "--probe-limit: must be greater than 0"),
    ([*TOOLS, "--probe-limit", "nan"], {}, Exit.USAGE, "--probe-limit: must be greater than 0"),
    (["reconciler", "--tools", "nosuch:registry"], {}, Exit.SETUP, "'nosuch' cannot be imported"),
    (["topics", "check"], {"LANDED_TOPIC": ""}, Exit.SETUP, "LANDED_TOPIC: must be a topic name"),
    (["verify"], {"LANDED_TOPIC": "bad topic!"}, Exit.SETUP, "LANDED_TOPIC: must be a topic name"),
    (["projector"], {"LANDED_REPLIES_TOPIC": "bad topic!"}, Exit.SETUP, "LANDED_REPLIES_TOPIC: must be a topic name"),
    (["topics", "check"], {"LANDED_TOPIC": "t", "LANDED_REPLIES_TOPIC": "t"}, Exit.SETUP, "must be another topic"),
    (["reviews", "list", "--tenant", "policy:x"], {}, Exit.USAGE, "tenant: must not start with 'policy:'"),
    (["reviews", "list", "--limit", "0"], {"LANDED_TENANT": "acme"}, Exit.USAGE, "--limit: must be from 1"),
    (["reviews", "list", "--older-than", "-1"], {"LANDED_TENANT": "acme"}, Exit.USAGE, "--older-than: must not be negative"),
    (["approvals", "list", "--limit", "99999"], {"LANDED_TENANT": "acme"}, Exit.USAGE, "--limit: must be from 1"),
    (["policies", "set", "tool:x", "--why", "w"], {"LANDED_TENANT": "acme"}, Exit.USAGE, "value: give either a value"),
    (
        ["policies", "set", "tool:x", '{"disable":1}', "--why", "w"],
        {"LANDED_TENANT": "acme"},
        Exit.USAGE,
        "unknown field `disable`",
    ),
    (["policies", "set", "ceiling:x", '{"surge_per_hour":1,"max":2}', "--why", "w"], {}, Exit.USAGE, "unknown field `max`"),
    (["policies", "set", "colour", "{}", "--why", "w"], {"LANDED_TENANT": "acme"}, Exit.USAGE, "key: must be tool:<tool>"),
    (["policies", "show", "tool:"], {"LANDED_TENANT": "acme"}, Exit.USAGE, "key: must be tool:<tool>"),
    (["observe", "report", "--days", "0"], {"LANDED_TENANT": "acme"}, Exit.USAGE, "--days: must be greater than 0"),
    (["approvals", "list"], {"LANDED_TENANT": ""}, Exit.SETUP, "tenant: say whose ledger: --tenant, or LANDED_TENANT"),
    (["migrate"], {"LANDED_DATABASE_URL": "postgresql://u:hunter2@h:99999999/x"}, Exit.SETUP, "LANDED_DATABASE_URL "),
    (["migrate"], {"LANDED_DATABASE_URL": "postgresql://u:hunter2@[::1/x"}, Exit.SETUP, "LANDED_DATABASE_URL"),
    (["migrate"], {"LANDED_DATABASE_URL": "postgresql://u:12/hunter2@h:5432/x"}, Exit.SETUP, "percent-encoded"),
    (["migrate"], {"LANDED_DATABASE_URL": "postgresql://u:hunter2#3@h:5432/x"}, Exit.SETUP, "percent-encoded"),
]


@pytest.mark.parametrize(("words", "environment", "code", "rule"), WRONG, ids=[" ".join(row[0]) + " " + row[3] for row in WRONG])
def test_bad_input_names_field_and_rule(
    words: list[str],
    environment: dict[str, str],
    code: Exit,
    rule: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in {**SERVERS, **environment}.items():
        monkeypatch.setenv(name, value)
    assert run(words) == code
    said = capsys.readouterr().err
    assert rule in said
    assert "hunter2" not in said
    assert "defect" not in said


@pytest.mark.parametrize(
    "url", ["postgresql://u:12/hunter2@h:5432/x", "postgresql://u:hunter2/x@h:5432/x", "postgresql://u:p@h:x/d"]
)
def test_a_password_that_is_not_encoded_is_refused_and_not_shown(url: str) -> None:
    with pytest.raises(DatabaseSettingError, match="percent-encoded") as caught:
        PostgresSettings(url=url)
    assert "hunter2" not in str(caught.value)
