"""The formats of keys and values, by name, and what each takes.

Imports nothing from pyspark, so that Airflow's side can check a load's arguments.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

from airflow_kafka_offsets.compat.python_versions import Self
from airflow_kafka_offsets.errors import ConfigurationError

FormatName = Literal["binary", "string", "json", "avro", "json-schema", "protobuf"]
FORMATS: tuple[FormatName, ...] = get_args(FormatName)
REGISTERED = {"avro": "AVRO", "json-schema": "JSON", "protobuf": "PROTOBUF"}
"""Formats whose schemas are in a registry, and what it calls them."""

_OPTION = re.compile(r"(?:schema|subject|version|message)=")
"""How each of what a format takes begins, among its words."""
DEAD_LETTERS = "dead letters"
"""The output that records go to that can't be decoded, by name. No topic can have it."""


@contextmanager
def argument_named(name: str) -> Iterator[None]:
    """Have what is said about an argument begin with its name: for whatever is done with it."""
    try:
        yield
    except ConfigurationError as error:
        raise ConfigurationError(f"{name}: {error}") from error


@dataclass(slots=True)
class ValueFormat:
    """
    What a topic's keys or values are, and what they are to become. In a Dag, text is templated, as in a
    :class:`~airflow_kafka_offsets.spark.table_load.TableLoad`.

    :param name: ``binary``: the bytes, as they are. ``string``: UTF-8 text. ``json``: a struct, by ``schema``.
        ``avro``, ``json-schema`` and ``protobuf``: a struct, by a registered schema that each record names.
    :param schema: the fields of ``json``, as DDL: ``icao24 STRING, altitude_m INT``.
    :param subject: the registry's subject, in which ``{topic}`` stands for the topic; by default ``{topic}-value``, or
        ``{topic}-key``. Several if a topic's records have schemas of several: the column has the type of the first.
    :param version: the version of the subject whose type the column has; by default the newest, or the one by which the
        window was loaded before.
    :param message: of ``protobuf``: the message's full name, if it isn't the first of its file.
    :raises ConfigurationError: a name is unknown, or an argument doesn't go with it.
    """

    template_fields: ClassVar[tuple[str, ...]] = ("schema", "subject", "message")

    name: FormatName = "binary"
    schema: str | None = None
    subject: str | Sequence[str] | None = None
    version: int | None = None
    message: str | None = None

    def __post_init__(self) -> None:
        if self.name not in FORMATS:
            raise ConfigurationError(f"A format is {', '.join(FORMATS[:-1])} or {FORMATS[-1]}, not {self.name!r}.")
        if (self.name == "json") != (self.schema is not None):
            raise ConfigurationError(
                "The format json needs a schema, such as 'icao24 STRING, altitude_m INT'."
                if self.schema is None
                else f"A schema in DDL is for the format json, not for {self.name}."
            )
        if self.version is not None and (type(self.version) is not int or self.version < 1):
            raise ConfigurationError(f"A version is a whole number, 1 or more, not {self.version!r}.")
        of_registry = {"subject": self.subject or None, "version": self.version}
        given = next((name for name, value in of_registry.items() if value is not None), None)
        if given is not None and self.name not in REGISTERED:
            raise ConfigurationError(
                f"A {given} is for formats with a registry ({', '.join(REGISTERED)}), not {self.name}."
            )
        if self.message is not None and self.name != "protobuf":
            raise ConfigurationError(f"A message is for the format protobuf, not for {self.name}.")

    @property
    def subjects(self) -> tuple[str, ...]:
        """The names of its subjects; none if they are those by default."""
        given = (self.subject,) if isinstance(self.subject, str) else self.subject or ()
        return tuple(filter(None, given))  # a template may have become nothing

    @property
    def registered(self) -> str | None:
        """What the registry calls the format; None if it needs no registry."""
        return REGISTERED.get(self.name)

    def words(self) -> list[str]:
        """The format as words of a command line: its name, then what it takes, as ``version=3``."""
        options = {"schema": self.schema, "version": self.version, "message": self.message}
        given = [f"{name}={value}" for name, value in options.items() if value is not None]
        return [self.name, *given, *(f"subject={each}" for each in self.subjects)]

    @classmethod
    def of_words(cls, words: Sequence[str]) -> Self:
        """The inverse of :meth:`words`. They may also come as one, where an option has a single value, as on AWS Glue.

        :raises ConfigurationError: as for the format itself.
        """
        name, *options = words if len(words) > 1 else re.split(f" (?={_OPTION.pattern})", words[0])
        unknown = [option for option in options if not _OPTION.match(option)]
        if unknown:
            raise ConfigurationError(f"A format takes schema=, subject=, version= or message=, not {unknown[0]!r}.")
        given: dict[str, Any] = {}
        for key, _, value in (option.partition("=") for option in options):
            if key == "subject":
                given.setdefault(key, []).append(value)
            else:
                given[key] = int(value) if key == "version" and value.isdecimal() else value
        return cls(name, **given)  # type: ignore[arg-type]  # it checks


def as_format(form: ValueFormat | FormatName | str) -> ValueFormat:
    """A format, from its name or as it is.

    :raises ConfigurationError: the name is unknown, or the format needs more than its name.
    """
    return form if isinstance(form, ValueFormat) else ValueFormat(form)  # type: ignore[arg-type]  # it checks
