"""What a schema registry with Confluent's interface says of the events' schemas.

Writers ask once, when they start, for the id of each schema; they register nothing, which is a step of a deployment
(`landed schemas register`). Readers do not ask at all: the schemas come with this package, and a record names its own.
"""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, Final, TypeVar

import msgspec

import landed_schemas
from landed.adapters.kafka.errors import LogError
from landed.wire.registry import URL_SETTING, RegistrySettings, subject

COMPATIBILITY: Final = "BACKWARD_TRANSITIVE"
"""Kept by the registry for every subject: the newest schema reads what was written under each earlier one. Not FULL: a word added
to an enum is a change that older readers stop at, on purpose (docs/decisions/0004-enums-of-the-log-have-no-default.md)."""

TIMEOUT_S: Final = 5.0
"""Longest wait for one answer; after a second try the registry counts as out of reach."""
_TRIES_AGAIN: Final = 1
_WAIT_MS: Final = 200
_TOGETHER: Final = 4

_NOT_THERE: Final = range(40400, 40500)
"""Error codes of a registry that knows no such subject, version or schema. Any other 404 is of something that is no registry."""
_T = TypeVar("_T")


class RegistryError(LogError):
    """Something about the schema registry: nothing was appended."""


class RegistryUnreachable(RegistryError):
    """The registry did not answer in time, or not as it should: try again, or check its settings."""


class RegistryUnfit(RegistryError):
    """The registry does not hold the schemas, refuses one, or cannot be asked from here: the message says what to do."""


class Registered(msgspec.Struct, frozen=True, kw_only=True):
    """The present schema of one event, beside what the registry holds of it."""

    event: str
    subject: str
    fingerprint: str
    """Hexadecimal, as header `landed-schema` carries it."""
    id: int | None
    """In this registry; None: it is not registered there."""
    version: int | None
    compatibility: str | None
    """Level kept for the subject; None: none of its own, so the registry's general one counts."""
    problem: str = ""


class SchemaRegistry:
    """The subjects of one topic in a registry. Safe under threads.

    Raises:
        RegistryUnfit: the packages that talk to a registry are not installed.
    """

    def __init__(self, settings: RegistrySettings, topic: str) -> None:
        self._url = settings.url
        self._topic = topic
        self._client = _client(settings)

    def ids(self) -> dict[bytes, int]:
        """Id in the registry of each present schema, by the schema's fingerprint.

        Raises:
            RegistryUnreachable: no answer, or not a registry's.
            RegistryUnfit: a schema is not registered.
        """
        found = self._of_each(self._id_and_version)
        missing = sorted(name for name, known in found.items() if known is None)
        if missing:
            raise RegistryUnfit(
                f"the schema registry {self._url} does not hold {len(missing)} of {len(found)} schemas of topic {self._topic} "
                f"({', '.join(missing[:3])}{', …' if len(missing) > 3 else ''}): register them with `landed schemas register`, "
                f"or unset {URL_SETTING} to write without a registry"
            )
        schemas = landed_schemas.schemas()
        return {landed_schemas.fingerprint(schemas[name]): known[0] for name, known in found.items() if known is not None}

    def check(self) -> list[Registered]:
        """What the registry holds of each present schema, as somebody else's consumer finds it. Changes nothing.

        Raises:
            RegistryUnreachable: no answer, or not a registry's.
        """
        return list(self._of_each(self._looked_at).values())

    def register(self) -> list[Registered]:
        """Registers what is missing and sets the compatibility of each subject; a repeat changes nothing.

        Raises:
            RegistryUnreachable: no answer, or not a registry's; those before it are registered.
            RegistryUnfit: the registry refuses a schema; says which and why.
        """
        for name, schema in landed_schemas.schemas().items():
            self._register(name, schema)
        return self.check()

    def close(self) -> None:
        self._client.close()

    def _register(self, name: str, schema: landed_schemas.Schema) -> None:
        where = subject(self._topic, schema)
        try:
            # The schema first: a registry may know no subject before, and what is refused leaves its settings alone.
            self._asked(lambda: self._client.register_schema(where, _registrable(name)))
            if self._compatibility(where) != COMPATIBILITY:
                self._asked(lambda: self._client.set_compatibility(subject_name=where, level=COMPATIBILITY))
        except _Refused as refused:
            raise RegistryUnfit(f"the schema registry {self._url} refuses {where}: {refused}") from None

    def _looked_at(self, name: str, schema: landed_schemas.Schema) -> Registered:
        where, fingerprint = subject(self._topic, schema), landed_schemas.fingerprint(schema)
        found = self._id_and_version(name, schema)
        compatibility = self._compatibility(where)
        problem = ""
        if found is None:
            problem = "not registered"
        elif self._fingerprint_of(found[0]) != fingerprint:
            problem = f"id {found[0]} is another schema"
        elif compatibility != COMPATIBILITY:
            problem = f"compatibility is not {COMPATIBILITY}"
        return Registered(
            event=name,
            subject=where,
            fingerprint=fingerprint.hex(),
            id=None if found is None else found[0],
            version=None if found is None else found[1],
            compatibility=compatibility,
            problem=problem,
        )

    def _id_and_version(self, name: str, schema: landed_schemas.Schema) -> tuple[int, int] | None:
        where = subject(self._topic, schema)
        try:
            found = self._asked(lambda: self._client.lookup_schema(where, _registrable(name)))
        except _Refused as refused:
            if refused.code in _NOT_THERE:
                return None
            raise RegistryUnreachable(f"the schema registry {self._url} does not answer for {where}: {refused}") from None
        if not isinstance(found.schema_id, int) or not 0 <= found.schema_id < 2**32:
            raise RegistryUnreachable(f"the schema registry {self._url} answers for {where} with no id")
        return found.schema_id, found.version

    def _fingerprint_of(self, schema_id: int) -> bytes | None:
        try:
            text = self._asked(lambda: self._client.get_schema(schema_id)).schema_str
        except _Refused:
            return None
        try:
            return landed_schemas.fingerprint(landed_schemas.parse(text))
        except Exception:
            # Whatever stands under that id, it is no schema of ours; the parser names no closed set of errors.
            return None

    def _compatibility(self, where: str) -> str | None:
        try:
            level: str = self._asked(lambda: self._client.get_compatibility(subject_name=where))
        except _Refused:
            return None
        return level

    def _of_each(self, ask: Callable[[str, landed_schemas.Schema], _T]) -> dict[str, _T]:
        """What *ask* finds for each present schema, a few at a time: a writer waits for it at its start."""
        schemas: Mapping[str, landed_schemas.Schema] = landed_schemas.schemas()
        with ThreadPoolExecutor(_TOGETHER, thread_name_prefix="landed-registry") as pool:
            asked = {name: pool.submit(ask, name, schema) for name, schema in schemas.items()}
            try:
                return {name: each.result() for name, each in asked.items()}
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _asked(self, ask: Callable[[], _T]) -> _T:
        """The registry's answer.

        Raises:
            _Refused: the registry said no.
            RegistryUnreachable: it said nothing, or nothing that can be understood.
        """
        from confluent_kafka.schema_registry.error import SchemaRegistryError

        try:
            return ask()
        except SchemaRegistryError as error:
            if 400 <= error.http_status_code < 500 and error.http_status_code not in (401, 403, 408, 429):
                raise _Refused(error.error_code, error.error_message) from None
            reason = f"HTTP status {error.http_status_code}"
        except Exception as error:
            # The client lets through whatever its HTTP library, its JSON reader or TLS raise.
            reason = f"{type(error).__name__}: {error}"
        raise RegistryUnreachable(
            f"the schema registry {self._url} cannot be asked: {reason}. Writers need it when they start; "
            f"unset {URL_SETTING} to write without one"
        )


class _Refused(Exception):
    def __init__(self, code: object, message: object) -> None:
        super().__init__(str(message) or f"error {code}")
        self.code = code


def _registrable(name: str) -> Any:
    from confluent_kafka.schema_registry import Schema

    return Schema(landed_schemas.text(name), "AVRO")


def _client(settings: RegistrySettings) -> Any:
    try:
        from confluent_kafka.schema_registry import SchemaRegistryClient
    except ImportError as error:
        raise RegistryUnfit(
            f"{URL_SETTING} is set and the package {error.name!r} is missing. Install it with: pip install 'landed[registry]'"
        ) from error
    given: dict[str, Any] = {
        "url": settings.url,
        "timeout": TIMEOUT_S,
        "max.retries": _TRIES_AGAIN,
        "retries.wait.ms": _WAIT_MS,
        "retries.max.wait.ms": _WAIT_MS,
    }
    if settings.login is not None:
        given["basic.auth.user.info"] = settings.login
    if settings.ca is not None:
        given["ssl.ca.location"] = settings.ca
    try:
        return SchemaRegistryClient(given)
    except (ValueError, OSError) as error:
        raise RegistryUnfit(f"the schema registry {settings.url} cannot be asked: {error}") from error


@cache
def schema_ids(settings: RegistrySettings, topic: str) -> Mapping[bytes, int]:
    """Ids for the writers of *topic*, by fingerprint. Asked once in the life of a process, since an id never changes: a writer
    that connects again needs no registry. Raises as `SchemaRegistry.ids`."""
    registry = SchemaRegistry(settings, topic)
    try:
        return registry.ids()
    finally:
        registry.close()
