"""A message of the golden frames, and the ids, instants and words that several of them use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Fields = Mapping[str, Any]

FLIGHTS_ID, WEATHER_ID, NO_ID = "Zmxp20h0RlWq3bWkqQ4xUg", "d2VhdGhlckSoq9bfN2kBMg", "AAAAAAAAAAAAAAAAAAAAAA"
"""Topic ids, as Kafka prints them; the last one means "no id"."""
WORDS = "größer als 7 ✓"
"""A commit's metadata, with letters of one, two and three bytes."""
NO_OPERATIONS = -2147483648
"""Kafka's value for operations that weren't requested."""
NOON_MS = 1795240800000
ANY = 32767
"""No last version."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message in every version that has it.

    :param api: name of the API, such as ``ListOffsets``.
    :param kind: ``request`` or ``response``.
    :param what: what it shows, in a few words; unique among the API's messages of its kind.
    :param fields: the fields of all versions, with the names that Kafka's JSON converters use.
    :param since: first version that can express this.
    :param until: last version that can express this.
    """

    api: str
    kind: str
    what: str
    fields: Fields
    since: int = 0
    until: int = ANY

    @property
    def name(self) -> str:
        """Name of the message, such as ``ListOffsetsRequest``."""
        return f"{self.api}{self.kind.title()}"


def request(api: str, what: str, fields: Fields, since: int = 0, until: int = ANY) -> Message:
    return Message(api, "request", what, fields, since, until)


def response(api: str, what: str, fields: Fields, since: int = 0, until: int = ANY) -> Message:
    return Message(api, "response", what, fields, since, until)
