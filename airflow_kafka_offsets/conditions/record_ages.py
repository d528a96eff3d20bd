"""Ages of records, by their timestamps and this machine's clock: what a timestamp doesn't tell is no age."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from airflow_kafka_offsets.errors import ConfigurationError, shorten
from airflow_kafka_offsets.offsets.answers.records import FirstRecord
from airflow_kafka_offsets.offsets.instants import is_from_future, iso_instant


@dataclass(frozen=True, slots=True)
class RecordAges:
    """How old some first records are, by their timestamps and this machine's clock.

    :param oldest_ms: the highest known age, in milliseconds; None when none is known.
    :param unknown: partitions whose age nobody can tell, and why, in words.
    """

    oldest_ms: int | None = None
    unknown: tuple[str, ...] = ()

    @classmethod
    def of(cls, records: Iterable[FirstRecord], now_ms: int) -> RecordAges:
        """The ages of records, to compare with a limit.

        :param records: without errors. If none was found although the log ends further on, the age is unknown too.
        :raises ConfigurationError: when a timestamp can't be read because a codec isn't installed on this machine.
        """
        ages, unknown = [], []
        for record in records:
            why = _why_ageless(record, now_ms)
            if why:
                unknown.append(f"{record.topic}-{record.partition} ({why})")
            else:
                assert record.timestamp_ms is not None, "or there would be a reason"
                ages.append(max(0, now_ms - record.timestamp_ms))
        return cls(max(ages, default=None), tuple(unknown))

    @classmethod
    def together(cls, parts: Iterable[RecordAges]) -> RecordAges:
        """The ages of several parts combined: unknown when nothing is known about one of them; 0 without any parts."""
        ages = list(parts)
        if RecordAges() in ages:
            return cls()
        oldest = max((age.oldest_ms for age in ages if age.oldest_ms is not None), default=None if ages else 0)
        return cls(oldest, tuple(why for age in ages for why in age.unknown))

    @property
    def known_ms(self) -> int | None:
        """Age of the oldest record; None when nobody can tell."""
        return None if self.unknown else self.oldest_ms

    def note(self, what: str) -> str:
        """For the end of a summary; empty when all ages are known."""
        return f"; the age of {what} is unknown on {shorten(self.unknown)}" if self.unknown else ""


def _why_ageless(record: FirstRecord, now_ms: int) -> str:
    """Why a record's timestamp doesn't give its age, in words; empty when it does."""
    if record.missing_codec:
        raise ConfigurationError(
            f"max_age needs the timestamp of the record at {record.topic}-{record.partition} offset {record.offset}, "
            f"which is compressed with {record.missing_codec}: its library isn't installed on this machine (pip "
            "install 'airflow-kafka-offsets[codecs]')."
        )
    if record.offset is None:
        return "its leader hasn't returned a record yet"
    if record.timestamp_ms is None:
        return "it has no timestamp"
    if is_from_future(record.timestamp_ms, now_ms):
        return f"its timestamp lies in the future: {iso_instant(record.timestamp_ms)}"
    return ""
