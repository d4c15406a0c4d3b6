"""Straight-line readers and writers of Avro bodies, generated once from each schema: the usual case, without a step too much.

A reader goes from bytes to the event, a writer from the event to bytes, with no values in between. What either meets that is
not exactly as usual (a value of another type, text that UTF-8 cannot carry, a cut body, a number of more than 64 bits, a block
with its size) raises, and the codec then asks `fastavro` and `msgspec`, which say what is wrong with it or take it. So these
functions say nothing of their own: what they take, fastavro takes alike, to the byte and to the value. The property tests hold
them to it.

A schema with a type that is not known here, or that does not fit the field of its event, gets a function that leaves everything
to them.

Source: Avro specification, "Binary encoding".
"""

from collections.abc import Callable
from enum import Enum
from typing import Any, Final

import msgspec
from msgspec import inspect

from landed_schemas import Schema

Reader = Callable[[bytes, int], Any]
"""The event in bytes whose body begins at that offset and ends with them. Raises whatever it meets where it does not agree."""
Writer = Callable[[Any, bytes], bytes]
"""The bytes of an event after what is to stand before them. Raises whatever it meets where it does not agree."""

SHARED: Final = frozenset({"contract", "contract_digest", "tool", "effect_type"})
"""Text fields that are alike in many events: read, they are one value in memory."""
_SHARED_MAX: Final = 1_024

_SIZES: Final = 4_096
"""Below it the number of items or bytes is written from a table."""


class _Unknown(Exception):
    """A type for which nothing is generated."""


class Unusual(Exception):
    """Bytes or a value that the generated code leaves to the library."""


# ---- what the generated code calls --------------------------------------------------------------------------------------


def read_long(data: bytes, at: int) -> tuple[int, int]:
    """The number at *at* and the offset after it."""
    low = data[at]
    if low < 0x80:
        return (low >> 1) ^ -(low & 1), at + 1
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    if number >= 2**64:
        raise Unusual
    return (number >> 1) ^ -(number & 1), at


def read_size(data: bytes, at: int) -> tuple[int, int]:
    """Where the bytes begin whose number stands at *at*, and where they end."""
    low, high = data[at], data[at + 1]
    if high < 0x80 <= low and not low & 1:  # two bytes: nearly every size that does not fit into one
        at += 2
        return at, at + ((low & 0x7F | high << 7) >> 1)
    size, at = read_long(data, at)
    if size < 0:
        raise Unusual
    return at, at + size


def write_long(number: int) -> bytes:
    if not -(2**63) <= number < 2**63:
        raise Unusual
    left = (number << 1) ^ (number >> 63)
    out = bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    out.append(left)
    return bytes(out)


def write_size(size: int) -> bytes:
    return _SIZE[size] if size < _SIZES else write_long(size)


_SIZE: Final = tuple(write_long(size) for size in range(_SIZES))


def _leave_to_library(_one: object, _other: object) -> Any:
    raise Unusual


class _Texts(dict[bytes, str]):
    """Texts by their bytes; starts anew when there are too many of them."""

    def __missing__(self, data: bytes) -> str:
        if len(self) >= _SHARED_MAX:
            self.clear()
        text = self[data] = data.decode()
        return text


# ---- generating ---------------------------------------------------------------------------------------------------------


def reader_of(schema: Schema, event: type[msgspec.Struct]) -> Reader:
    """Reads what was written under *schema* as *event*; what the event does not know is left out, as its default stands in."""
    source = _Source()
    try:
        value = _read_record(source, schema, event)
    except _Unknown:
        return _leave_to_library
    source.add("if at != len(data): raise Unusual")
    source.add(f"return {value}")
    made: Reader = source.function("read", "data, at")
    return made


def writer_of(schema: Schema, event: type[msgspec.Struct]) -> Writer:
    """Writes *event* under *schema*."""
    source = _Source()
    source.add("out = [head]")
    source.add("add = out.append")
    try:
        _write_record(source, schema, inspect.type_info(event), "event")
    except _Unknown:
        return _leave_to_library
    source.add("return b''.join(out)")
    made: Writer = source.function("write", "event, head")
    return made


class _Source:
    """Lines of a function in the making, and the values that they name."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._depth = 1
        self._count = 0
        self._known: dict[str, object] = {
            "Unusual": Unusual,
            "read_long": read_long,
            "read_size": read_size,
            "size_of": write_size,
            "SIZE": _SIZE,
            "long_of": write_long,
        }

    def add(self, line: str) -> None:
        self._lines.append("    " * self._depth + line)

    def indent(self, by: int = 1) -> None:
        self._depth += by

    def name(self, prefix: str = "v") -> str:
        self._count += 1
        return f"{prefix}{self._count}"

    def value(self, known: object) -> str:
        name = self.name("k")
        self._known[name] = known
        return name

    def function(self, name: str, parameters: str) -> Any:
        text = "\n".join([f"def {name}({parameters}):", *self._lines])
        space = dict(self._known)
        # Nothing from outside goes in but names of fields, which are identifiers.
        exec(compile(text, f"<landed.wire.straight: {name}>", "exec"), space)
        return space[name]


def _optional(schema: Any, declared: inspect.Type) -> tuple[Any, inspect.Type]:
    """The schema and the type beside null."""
    if len(schema) != 2 or schema[0] != "null" or not isinstance(declared, inspect.UnionType) or not declared.includes_none:
        raise _Unknown
    others = [one for one in declared.types if not isinstance(one, inspect.NoneType)]
    if len(others) != 1:
        raise _Unknown
    return schema[1], others[0]


def _kind(schema: Any) -> Any:
    return schema["type"] if isinstance(schema, dict) else schema


def _is_plain(declared: inspect.Type, kind: type[inspect.Type]) -> bool:
    """Whether *declared* is a *kind* and nothing more: a bound on its values is left to the library."""
    return type(declared) is kind and all(
        getattr(declared, name, None) is None
        for name in ("gt", "ge", "lt", "le", "multiple_of", "min_length", "max_length", "pattern")
    )


def _struct_of(declared: inspect.Type) -> inspect.StructType:
    if not isinstance(declared, inspect.StructType) or declared.array_like or declared.forbid_unknown_fields:
        raise _Unknown
    if any(field.name != field.encode_name or not field.name.isidentifier() for field in declared.fields):
        raise _Unknown
    return declared


def _symbols(schema: Any, declared: inspect.Type) -> list[Enum]:
    """Members of an enum in the order of its symbols."""
    if not isinstance(declared, inspect.EnumType):
        raise _Unknown
    members = {member.value: member for member in declared.cls}
    if not set(schema["symbols"]) <= members.keys():
        raise _Unknown
    return [members[symbol] for symbol in schema["symbols"]]


def _items(schema: Any, declared: inspect.Type) -> tuple[Any, inspect.Type]:
    """Schema and type of what an array or a map holds."""
    if _kind(schema) == "array" and _is_plain(declared, inspect.ListType):
        assert isinstance(declared, inspect.ListType)
        return schema["items"], declared.item_type
    if _kind(schema) == "map" and _is_plain(declared, inspect.DictType):
        assert isinstance(declared, inspect.DictType)
        if _is_plain(declared.key_type, inspect.StrType):
            return schema["values"], declared.value_type
    raise _Unknown


# ---- reading ------------------------------------------------------------------------------------------------------------


def _read_record(source: _Source, schema: Any, event: type) -> str:
    """Adds what reads a record; gives the expression that makes it."""
    declared = _struct_of(inspect.type_info(event))
    fields = {field.name: field for field in declared.fields}
    parts = []
    for written in schema["fields"]:
        name = written["name"]
        field = fields.pop(name, None)
        value = _read(source, written["type"], None if field is None else field.type, shared=name in SHARED)
        if field is not None:
            parts.append(f"{name}={value}")
    if any(field.required for field in fields.values()):
        raise _Unknown
    return f"{source.value(event)}({', '.join(parts)})"


def _read(source: _Source, schema: Any, declared: inspect.Type | None, *, shared: bool = False) -> str:
    """Adds what reads a value; gives its name. Without a declared type it is read and left out."""
    if declared is None:
        declared = _as_written(schema)
    found = source.name()
    if isinstance(schema, list):
        inner, type_ = _optional(schema, declared)
        source.add("n = data[at]")
        source.add("at += 1")
        source.add("if n == 0:")
        source.add(f"    {found} = None")
        source.add("elif n == 2:")
        source.indent()
        source.add(f"{found} = {_read(source, inner, type_, shared=shared)}")
        source.indent(-1)
        source.add("else: raise Unusual")
        return found
    match _kind(schema):
        case "string" if _is_plain(declared, inspect.StrType):
            _read_text(source, found, shared=shared)
        case "long" | "int" if _is_plain(declared, inspect.IntType):
            source.add("n = data[at]")
            source.add(f"if n & 128: {found}, at = read_long(data, at)")
            source.add("else:")
            source.add(f"    {found} = (n >> 1) ^ -(n & 1)")
            source.add("    at += 1")
        case "boolean" if type(declared) is inspect.BoolType:
            source.add("n = data[at]")
            source.add("if n > 1: raise Unusual")
            source.add(f"{found} = n == 1")
            source.add("at += 1")
        case "enum":
            # An odd byte is a negative number, which must not count from the end.
            source.add("n = data[at]")
            source.add("if n & 129: raise Unusual")
            source.add(f"{found} = {source.value(_symbols(schema, declared))}[n >> 1]")
            source.add("at += 1")
        case "array" | "map":
            _read_items(source, schema, declared, found)
        case "record":
            source.add(f"{found} = {_read_record(source, schema, _struct_of(declared).cls)}")
        case _:
            raise _Unknown
    return found


def _read_text(source: _Source, found: str, *, shared: bool = False) -> None:
    # One byte of size, not negative: nearly always. A cut body shows at its end: a slice beyond it leaves `at` there.
    source.add("n = data[at]")
    source.add("if n & 129: at, end = read_size(data, at)")
    source.add("else:")
    source.add("    at += 1")
    source.add("    end = at + (n >> 1)")
    source.add(f"{found} = {source.value(_Texts())}[data[at:end]]" if shared else f"{found} = data[at:end].decode()")
    source.add("at = end")


def _read_items(source: _Source, schema: Any, declared: inspect.Type, found: str) -> None:
    inner, type_ = _items(schema, declared)
    count, is_map = source.name("c"), _kind(schema) == "map"
    source.add(f"{found} = {'{}' if is_map else '[]'}")
    source.add("while data[at]:")
    source.indent()
    source.add(f"{count}, at = read_long(data, at)")
    source.add(f"if {count} <= 0: raise Unusual")
    source.add(f"for _ in range({count}):")
    source.indent()
    if is_map:
        key = source.name()
        _read_text(source, key)
        source.add(f"{found}[{key}] = {_read(source, inner, type_)}")
    else:
        source.add(f"{found}.append({_read(source, inner, type_)})")
    source.indent(-2)
    source.add("at += 1")


def _as_written(schema: Any) -> inspect.Type:
    """The type that fits a schema whose values are left out."""
    if isinstance(schema, list):
        return inspect.UnionType((*(_as_written(one) for one in schema if one != "null"), inspect.NoneType()))
    match _kind(schema):
        case "string":
            return inspect.StrType()
        case "long" | "int":
            return inspect.IntType()
        case "boolean":
            return inspect.BoolType()
        case "array":
            return inspect.ListType(_as_written(schema["items"]))
        case "map":
            return inspect.DictType(inspect.StrType(), _as_written(schema["values"]))
        case _:
            raise _Unknown


# ---- writing ------------------------------------------------------------------------------------------------------------


def _write_record(source: _Source, schema: Any, declared: inspect.Type, value: str) -> None:
    declared = _struct_of(declared)
    source.add(f"if type({value}) is not {source.value(declared.cls)}: raise Unusual")
    fields = {field.name: field for field in declared.fields}
    if {written["name"] for written in schema["fields"]} != fields.keys():
        raise _Unknown
    for written in schema["fields"]:
        name = source.name()
        source.add(f"{name} = {value}.{written['name']}")
        _write(source, written["type"], fields[written["name"]].type, name)


def _write(source: _Source, schema: Any, declared: inspect.Type, value: str) -> None:
    if isinstance(schema, list):
        inner, type_ = _optional(schema, declared)
        source.add(f"if {value} is None: add(b'\\0')")
        source.add("else:")
        source.indent()
        source.add("add(b'\\2')")
        _write(source, inner, type_, value)
        source.indent(-1)
        return
    match _kind(schema):
        case "string" if _is_plain(declared, inspect.StrType):
            _write_text(source, value)
        case "long" | "int" if _is_plain(declared, inspect.IntType):
            source.add(f"if type({value}) is not int: raise Unusual")
            source.add(f"add(SIZE[{value}] if 0 <= {value} < {_SIZES} else long_of({value}))")
        case "boolean" if type(declared) is inspect.BoolType:
            source.add(f"if {value} is True: add(b'\\1')")
            source.add(f"elif {value} is False: add(b'\\0')")
            source.add("else: raise Unusual")
        case "enum":
            members = {member: write_size(number) for number, member in enumerate(_symbols(schema, declared))}
            # A plain text equals the member of an enum of texts, and is not of the declared type as the library sees it.
            source.add(f"if type({value}) is not {source.value(type(next(iter(members))))}: raise Unusual")
            source.add(f"add({source.value(members)}[{value}])")
        case "array" | "map":
            _write_items(source, schema, declared, value)
        case "record":
            _write_record(source, schema, declared, value)
        case _:
            raise _Unknown


def _write_text(source: _Source, value: str) -> None:
    source.add(f"if type({value}) is not str: raise Unusual")
    source.add(f"b = {value}.encode()")
    source.add("n = len(b)")
    source.add(f"add(SIZE[n] if n < {_SIZES} else long_of(n))")
    source.add("add(b)")


def _write_items(source: _Source, schema: Any, declared: inspect.Type, value: str) -> None:
    inner, type_ = _items(schema, declared)
    is_map, item = _kind(schema) == "map", source.name()
    source.add(f"if type({value}) is not {'dict' if is_map else 'list'}: raise Unusual")
    source.add(f"if {value}:")
    source.indent()
    source.add(f"add(size_of(len({value})))")
    # The bytes are canonical: maps in the order of their keys.
    source.add(f"for {item} in {f'sorted({value})' if is_map else value}:")
    source.indent()
    if is_map:
        _write_text(source, item)
        each = source.name()
        source.add(f"{each} = {value}[{item}]")
        _write(source, inner, type_, each)
    else:
        _write(source, inner, type_, item)
    source.indent(-2)
    source.add("add(b'\\0')")
