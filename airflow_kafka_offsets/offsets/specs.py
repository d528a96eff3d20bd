"""What a ListOffsets request can ask for, and which records it may see. Rests on ListOffsets (key 2)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from airflow_kafka_offsets.compat.python_versions import Self, StrEnum
from airflow_kafka_offsets.errors import ConfigurationError, InstantError
from airflow_kafka_offsets.offsets.instants import instant_ms, iso_instant, parse_instant


class IsolationLevel(StrEnum):
    """Which records count as visible (KIP-98). ``read_committed`` ends at the last stable offset."""

    READ_COMMITTED = "read_committed"
    READ_UNCOMMITTED = "read_uncommitted"

    @classmethod
    def of(cls, name: str | IsolationLevel) -> IsolationLevel:
        """The level of that name.

        :raises ConfigurationError: for any other text.
        """
        try:
            return cls(name)
        except ValueError:
            known = " or ".join(cls)
            raise ConfigurationError(f"isolation_level must be {known}, not {name!r}.") from None


class SpecKind(StrEnum):
    """The kinds of offset that a leader can be asked for."""

    LATEST = "latest"
    """One past the last visible record: high watermark, or last stable offset under read_committed."""
    EARLIEST = "earliest"
    """Log start offset, tiered storage included."""
    MAX_TIMESTAMP = "max-timestamp"
    """The record with the largest timestamp (KIP-734, Kafka 3.0)."""
    EARLIEST_LOCAL = "earliest-local"
    """First offset on the leader's own disk (KIP-405, Kafka 3.4)."""
    LATEST_TIERED = "latest-tiered"
    """Last offset in remote storage (KIP-1005, Kafka 3.9)."""
    TIMESTAMP = "timestamp"
    """First offset in log order whose record has this timestamp or a later one."""


@dataclass(frozen=True, slots=True)
class OffsetSpec:
    """One thing to ask of a partition's leader.

    :param kind: what is asked.
    :param timestamp_ms: Unix milliseconds, 0 or more; set only for ``SpecKind.TIMESTAMP``.
    """

    kind: SpecKind
    timestamp_ms: int | None = None

    LATEST: ClassVar[OffsetSpec]
    EARLIEST: ClassVar[OffsetSpec]
    MAX_TIMESTAMP: ClassVar[OffsetSpec]
    EARLIEST_LOCAL: ClassVar[OffsetSpec]
    LATEST_TIERED: ClassVar[OffsetSpec]

    def __post_init__(self) -> None:
        if (self.kind is SpecKind.TIMESTAMP) != (self.timestamp_ms is not None):
            raise ConfigurationError("An OffsetSpec has a timestamp_ms exactly when its kind is TIMESTAMP.")
        if self.timestamp_ms is not None:
            _refuse_special(self.timestamp_ms)

    @classmethod
    def at(cls, moment: datetime | int) -> Self:
        """First record at or after an instant: an aware datetime, or plausible Unix milliseconds.

        Records may have timestamps before 1970, but Kafka can't be asked for them: to ListOffsets, negative numbers are
        the other specs.

        :raises InstantError: for a naive datetime, one before 1970, or a number that isn't a plausible instant:
            negative, or in seconds, microseconds or nanoseconds.
        """
        if isinstance(moment, int):
            _refuse_special(moment)
        return cls(SpecKind.TIMESTAMP, instant_ms(moment))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``latest``, ``earliest``, ``max-timestamp``, … or an ISO-8601 instant with a zone.

        :raises InstantError: when it is neither.
        """
        if text != SpecKind.TIMESTAMP and text in set(SpecKind):
            return cls(SpecKind(text))
        try:
            return cls(SpecKind.TIMESTAMP, parse_instant(text))
        except InstantError as error:
            known = ", ".join(kind for kind in SpecKind if kind is not SpecKind.TIMESTAMP)
            raise InstantError(f"{text!r} is none of {known}, and not an instant: {error}") from None

    def __str__(self) -> str:
        return self.kind if self.timestamp_ms is None else iso_instant(self.timestamp_ms)


def _refuse_special(timestamp_ms: int) -> None:
    """Refuse what ListOffsets doesn't accept as an instant.

    :raises InstantError: for a negative number, one that doesn't fit in 64 bits, or a value that isn't a number.
    """
    if isinstance(timestamp_ms, bool) or not isinstance(timestamp_ms, int):
        raise InstantError(f"An instant must be given in Unix milliseconds here, not {timestamp_ms!r}.")
    if not 0 <= timestamp_ms < 2**63:
        raise InstantError(
            f"{timestamp_ms} is not an instant in Unix milliseconds: to ListOffsets, negative numbers have "
            "other meanings. Use OffsetSpec.LATEST, OffsetSpec.EARLIEST and so on for those; the oldest "
            "instant is 1970-01-01T00:00:00Z."
        )


OffsetSpec.LATEST = OffsetSpec(SpecKind.LATEST)
OffsetSpec.EARLIEST = OffsetSpec(SpecKind.EARLIEST)
OffsetSpec.MAX_TIMESTAMP = OffsetSpec(SpecKind.MAX_TIMESTAMP)
OffsetSpec.EARLIEST_LOCAL = OffsetSpec(SpecKind.EARLIEST_LOCAL)
OffsetSpec.LATEST_TIERED = OffsetSpec(SpecKind.LATEST_TIERED)
