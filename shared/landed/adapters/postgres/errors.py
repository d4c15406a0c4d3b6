"""Errors of the database adapter: what the driver says, in words of the ledger. Branches answer "what can I do".

DatabaseError
├── DatabaseSettingError    the setting is wrong: fix it (names the setting, never the password)
├── DatabaseUnreachable     the server did not answer, or the connection broke: trying again may help
├── SchemaOutdated          the tables are missing or of another release: run `landed migrate`
└── DatabaseDefect          the server refused a statement: look at the data and at the message
"""

from landed.core.errors import LandedError


class DatabaseError(LandedError):
    """Base of all errors of the database adapter."""


class DatabaseSettingError(DatabaseError, ValueError):
    pass


class DatabaseUnreachable(DatabaseError):
    pass


class SchemaOutdated(DatabaseError):
    pass


class DatabaseDefect(DatabaseError):
    pass
