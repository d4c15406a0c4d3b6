"""Whether a schema may take the place of a released one: each must read what was written under the other.

The contract is read in both directions at once: today's code reads the records of every release, and every release
reads the records of today. So a field is added with a default or not at all, none is removed that has no default, and
a type never changes. Stricter than Avro on purpose (no promotion of long to double, no aliases, no wider unions):
each of these is a way to read something other than what was written.

Enums have no default, on purpose. With one, an older reader would take a word that it does not know for another word
(a refusal for another refusal, a state for another state) without a trace. Without one it cannot decode that record,
and the operation is frozen until the reader is upgraded. So a symbol may be added at the end: the older reader stops
where it must. A symbol that was removed or moved is a problem, since records of the past carry it.
"""

from typing import Any

Node = Any
"""A parsed schema, or any part of one."""


def problems(*, old: Node, new: Node) -> list[str]:
    """Why *new* may not follow *old*, one line each with the path of the field; empty when it may."""
    return _problems(old, new, "", _names(old, {}), _names(new, {}))


def _names(node: Node, into: dict[str, Node]) -> dict[str, Node]:
    """Named types of a schema by their full name; parsing has put full names everywhere."""
    match node:
        case list():
            for each in node:
                _names(each, into)
        case {"type": "record", "name": name, "fields": fields}:
            into[name] = node
            for field in fields:
                _names(field["type"], into)
        case {"type": "enum", "name": name}:
            into[name] = node
        case {"type": "array", "items": inner} | {"type": "map", "values": inner}:
            _names(inner, into)
    return into


def _problems(old: Node, new: Node, path: str, old_names: dict[str, Node], new_names: dict[str, Node]) -> list[str]:
    old = old_names.get(old, old) if isinstance(old, str) else old
    new = new_names.get(new, new) if isinstance(new, str) else new
    where = path or "the record"
    was, now = _title(old), _title(new)
    if was != now:
        return [f"{where}: {was} became {now}"]
    found: list[str] = []
    match new:
        case list():
            for old_branch, new_branch in zip(old, new, strict=True):
                found += _problems(old_branch, new_branch, path, old_names, new_names)
        case {"type": "record"}:
            found += _record_problems(old, new, path, old_names, new_names)
        case {"type": "enum"}:
            if new["symbols"][: len(old["symbols"])] != old["symbols"]:
                found.append(f"{where}: symbols were removed or moved")
            if "default" in new:
                found.append(f"{where}: an enum has a default, so an unknown symbol would be read as another")
        case {"type": "array" | "map" as kind}:
            inner = "items" if kind == "array" else "values"
            found += _problems(old[inner], new[inner], f"{path}[]", old_names, new_names)
    return found


def _record_problems(old: Node, new: Node, path: str, old_names: dict[str, Node], new_names: dict[str, Node]) -> list[str]:
    found: list[str] = []
    before = {field["name"]: field for field in old["fields"]}
    after = {field["name"]: field for field in new["fields"]}
    for name in {**before, **after}:
        inner = f"{path}.{name}" if path else name
        if name in before and name in after:
            found += _problems(before[name]["type"], after[name]["type"], inner, old_names, new_names)
        elif name in after and "default" not in after[name]:
            found.append(f"{inner}: was added without a default")
        elif name in before and "default" not in before[name]:
            found.append(f"{inner}: was removed and had no default")
    return found


def _title(node: Node) -> str:
    """Kind and name of a node, of each branch of a union: what may never change."""
    if isinstance(node, list):
        return " | ".join(_title(each) for each in node)
    if isinstance(node, dict):
        return " ".join(filter(None, (node["type"], node.get("name"))))
    return str(node)
