"""The servers that all other tests use."""

from __future__ import annotations

import psycopg
from confluent_kafka.admin import AdminClient

from landed.adapters.embedded import Servers


def test_the_shared_servers_answer(servers: Servers) -> None:
    assert AdminClient({"bootstrap.servers": servers.bootstrap}).list_topics(timeout=5).brokers
    with psycopg.connect(servers.database_url) as connection:
        assert connection.execute("SHOW server_version").fetchone() is not None


def test_a_fresh_database_is_empty_and_takes_any_text(fresh_database: str) -> None:
    with psycopg.connect(fresh_database) as connection:
        count = connection.execute("SELECT count(*) FROM information_schema.tables WHERE table_schema = 'public'")
        assert count.fetchone() == (0,)
        assert connection.execute("SELECT %s::text", ("Grüße, 世界",)).fetchone() == ("Grüße, 世界",)
        assert connection.execute("SHOW server_encoding").fetchone() == ("UTF8",)
