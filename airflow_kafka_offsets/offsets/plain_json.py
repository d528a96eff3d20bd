"""Plain JSON of frozen values: a class is the specification of what is stored of it, by its fields' names and types.

A dataclass is an object of its fields, without those that have their default. A named tuple, and a dataclass that is a
:class:`Row`, is a list of its values, because there are many. A mapping to such rows is a list of them, as each begins
with its key.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache
from types import UnionType
from typing import Any, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

from airflow_kafka_offsets.errors import LedgerCorruptError

FORMAT = 1
"""That of all files. A reader refuses others."""

T = TypeVar("T")
_Reader = Callable[[Any], Any]


class Row:
    """Marks a dataclass of which a file has many."""

    __slots__ = ()


def text_of(value: object) -> str:
    """Canonical JSON of a value: sorted names, no spaces."""
    return json.dumps(value, default=_plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def to_bytes(value: object) -> bytes:
    """A dataclass's file."""
    return text_of({"format": FORMAT} | fields_of(value)).encode("utf-8", "surrogatepass")


def to_json(value: object) -> dict[str, Any]:
    """A dataclass as its file has it."""
    stored: dict[str, Any] = json.loads(to_bytes(value))
    return stored


def fields_of(value: Any) -> dict[str, Any]:
    """The fields of a dataclass or named tuple, without those that have their default."""
    found = [(name, field, getattr(value, name)) for name, field in _fields(type(value)).items()]
    return {
        name: [own[key] for key in sorted(own)] if field.is_rows else own
        for name, field, own in found
        if own != field.default
    }


def _plain(value: Any) -> Any:
    """What the standard library can't write."""
    match value:
        case Row():
            return [getattr(value, name) for name in _fields(type(value))]
        case Mapping():
            return dict(value)
        case frozenset():
            return sorted(value)
    return fields_of(value)


def from_bytes(kind: type[T], content: bytes, what: str) -> T:
    """A value from its file.

    :param what: what the file is, in words: ``a manifest``.
    :raises LedgerCorruptError: when it is something else.
    """
    try:
        stored = json.loads(content)
    except ValueError as error:
        raise LedgerCorruptError(f"This is not {what}, as it is not JSON: {error}.") from error
    return from_json(kind, stored, what)


def from_json(kind: type[T], stored: Any, what: str) -> T:
    """The inverse of :func:`to_json`. A class may have a method ``check_read``, which raises a ValueError for a value
    that no file should have. Raises as :func:`from_bytes`.
    """
    try:
        if stored["format"] != FORMAT:
            raise ValueError(f"format {stored['format']!r}; this version reads {FORMAT}")
        made = read(kind, {name: value for name, value in stored.items() if name != "format"})
        if hasattr(made, "check_read"):
            made.check_read()
        return made
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise LedgerCorruptError(f"This is not {what}: {error!r}.") from error


def read(kind: type[T], stored: Mapping[str, Any]) -> T:
    """The inverse of :func:`fields_of`. Raises an AttributeError, LookupError, TypeError or ValueError for what is
    something else.
    """
    fields = _fields(kind)
    return kind(**{name: fields[name].reader(value) for name, value in stored.items()})


class _Field(NamedTuple):
    """A field of a class.

    :param default: what equals nothing, if it has none.
    :param reader: makes its value of JSON.
    :param is_rows: whether it is a mapping to rows.
    """

    default: Any
    reader: _Reader
    is_rows: bool


def _fields_of(kind: Any) -> dict[str, _Field]:
    hints = get_type_hints(kind)
    return {
        name: _Field(default, _reader(hints[name]), _is_a(hints[name], Mapping) and _is_row(get_args(hints[name])[1]))
        for name, default in _defaults(kind)
    }


_fields: Callable[[Any], dict[str, _Field]] = cache(_fields_of)


def _defaults(kind: Any) -> list[tuple[str, Any]]:
    none = dataclasses.MISSING
    if issubclass(kind, tuple):
        return [(name, kind._field_defaults.get(name, none)) for name in kind._fields]
    fields = dataclasses.fields(kind)
    return [(each.name, each.default if each.default_factory is none else each.default_factory()) for each in fields]


def _as_it_is(stored: Any) -> Any:
    return stored


def _reader(hint: Any) -> _Reader:
    """How a value of a type is made of JSON."""
    arguments = get_args(hint)
    if get_origin(hint) in (Union, UnionType):
        made = [each for each in map(_reader, arguments) if each is not _as_it_is]
        return (lambda stored: None if stored is None else made[0](stored)) if made else _as_it_is
    if _is_a(hint, tuple | frozenset) and arguments:
        kind, each = get_origin(hint), _reader(arguments[0])
        return kind if each is _as_it_is else lambda stored: kind(map(each, stored))
    if _is_a(hint, Mapping):
        return _mapping_reader(*arguments)
    if _is_row(hint):
        return _row_reader(hint)
    if dataclasses.is_dataclass(hint):
        return lambda stored: read(hint, stored)  # type: ignore[arg-type]
    return hint if _is_a(hint, Enum) else _as_it_is


def _is_a(hint: Any, kind: Any) -> bool:
    found = get_origin(hint) or hint
    return isinstance(found, type) and issubclass(found, kind)


def _is_row(hint: Any) -> bool:
    return get_origin(hint) is None and _is_a(hint, tuple | Row)


def _mapping_reader(key: Any, value: Any) -> _Reader:
    each = _reader(value)
    if each is _as_it_is:
        return dict
    if not _is_row(value):
        return lambda stored: {name: each(own) for name, own in stored.items()}
    begins = key.of if _is_row(key) else lambda made: made[0]
    return lambda stored: {begins(made): made for made in map(each, stored)}


def _row_reader(kind: Any) -> _Reader:
    make = kind._make if issubclass(kind, tuple) else lambda row: kind(*row)
    readers = [(at, each.reader) for at, each in enumerate(_fields(kind).values()) if each.reader is not _as_it_is]

    def read_row(stored: Any) -> Any:
        row = list(stored)
        for at, reader in readers:
            row[at] = reader(row[at])
        return make(row)

    return read_row if readers else make
