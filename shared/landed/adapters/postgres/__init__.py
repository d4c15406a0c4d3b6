"""The view of the log on PostgreSQL: connections, tables and their migrations, rows, and what services read.

Everything but the outbox can be dropped and folded again from the log. Times are bigint milliseconds since the epoch, UTC, as
they stand on the log: a view that is compared byte by byte holds no rounded ones.
"""

from landed.adapters.postgres.connections import connect, open_pool, translated
from landed.adapters.postgres.due import PostgresDueOperations
from landed.adapters.postgres.errors import (
    DatabaseDefect,
    DatabaseError,
    DatabaseSettingError,
    DatabaseUnreachable,
    SchemaOutdated,
)
from landed.adapters.postgres.migrating import check_schema, migrate, roll_back
from landed.adapters.postgres.reconcilers import PostgresProviderBudgets, PostgresReconcilers
from landed.adapters.postgres.routes import StoredRoute, load_routes
from landed.adapters.postgres.settings import PostgresSettings

__all__ = [
    "DatabaseDefect",
    "DatabaseError",
    "DatabaseSettingError",
    "DatabaseUnreachable",
    "PostgresDueOperations",
    "PostgresProviderBudgets",
    "PostgresReconcilers",
    "PostgresSettings",
    "SchemaOutdated",
    "StoredRoute",
    "check_schema",
    "connect",
    "load_routes",
    "migrate",
    "open_pool",
    "roll_back",
    "translated",
]
