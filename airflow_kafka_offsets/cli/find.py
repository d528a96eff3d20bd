"""``kafka-offsets ledger find``: finds a record by its offset, its key, or an instant."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from airflow_kafka_offsets.cli.connections import stored_ledger
from airflow_kafka_offsets.cli.printing import (
    Column,
    Row,
    command,
    every_column,
    print_remark,
    print_rows,
    range_row,
    row_of,
)
from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.ledger.key_partitions import KeyPartitions
from airflow_kafka_offsets.ledger.record_query import Findings, RecordQuery, find_records
from airflow_kafka_offsets.ledger.whereabouts import Whereabouts
from airflow_kafka_offsets.ledger.windows_at import WindowAt, WindowsAt
from airflow_kafka_offsets.offsets.instants import iso_instant, parse_instant

_PLACE_COLUMNS = (
    Column("partition", "part"),
    Column("offset"),
    Column("found", folds=True),
    Column("window", unless=(None,)),
)
_RANGE_COLUMNS = (
    Column("window"),
    Column("state"),
    Column("partition", "part"),
    Column("start_offset", "from"),
    Column("end_offset", "to"),
    Column("lost", unless=(0,)),
)
_KEY_COLUMNS = (Column("partition"), Column("partition_count", "of"), Column("since"))
_NOWHERE_COLUMNS = (Column("topic", folds=True), Column("at"), Column("found", folds=True))
_OF_A_WINDOW = (
    "state",
    "start",
    "end",
    "start_offset",
    "end_offset",
    "offsets",
    "lost",
    "start_evidence",
    "end_evidence",
)
"""Fields that are null when no window is found."""


@command
def find_record(args: Any) -> int:
    """By offset, print one row for each partition that the record may be in; by instant, one for each window that
    contains it and each partition; by key alone, one for each partition count. Remarks say what remains unknown.
    """
    query = _query(args)
    found = find_records(stored_ledger(args), query)
    asked: Row = {"topic": query.topic}
    if found.key is not None:
        asked["key"] = args.key if args.key_hex is None else args.key_hex
    code = _print(found, query, asked, args)
    for remark in () if found.key is None else found.key.remarks():
        print_remark(remark)
    return code


def _print(found: Findings, query: RecordQuery, asked: Row, args: Any) -> int:
    if found.at is not None:
        asked |= {"at": iso_instant(found.at.at_ms), "partition": query.partition}
        return _print_windows(found.at, asked, args)
    if found.places:
        rows = [
            asked | {"partition": partition, "offset": query.offset} | asdict(place)
            for partition, place in found.places.items()
        ]
        _print_found(rows, _PLACE_COLUMNS, args)
        return 0 if found.windows() else 1
    assert found.key is not None, "a query has an offset, an instant or a key"
    _print_key(found.key, asked, args)
    return 0


def _print_windows(at: WindowsAt, asked: Row, args: Any) -> int:
    if at.nowhere is not None:
        row = asked | asdict(Whereabouts(at.nowhere)) | dict.fromkeys(_OF_A_WINDOW)
        print_rows([row], args, _NOWHERE_COLUMNS, single=True)
        return 1
    _print_found([asked | row for window in at.windows for row in _window_rows(window)], _RANGE_COLUMNS, args)
    for window in at.windows:
        for remark in window.remarks:
            print_remark(f"{window.place.window}: {remark}")
    return 0


def _window_rows(window: WindowAt) -> list[Row]:
    summary = window.summary
    extent = {"state": str(summary.state), "start": iso_instant(summary.start_ms), "end": iso_instant(summary.end_ms)}
    return [asdict(window.place) | extent | range_row(each) for each in window.ranges]


def _print_found(rows: list[Row], columns: tuple[Column, ...], args: Any) -> None:
    """Print the rows; a single row with all its fields."""
    single = len(rows) == 1
    print_rows(rows, args, every_column(rows) if single else columns, single=single)


def _print_key(key: KeyPartitions, asked: Row, args: Any) -> None:
    rows = [
        asked | row_of(each, "partition", "partition_count") | {"since": iso_instant(each.since_ms)}
        for each in key.known
    ]
    print_rows(rows, args, _KEY_COLUMNS)


def _query(args: Any) -> RecordQuery:
    if args.offset is not None and args.offset_of_key is not None:
        raise ConfigurationError(
            f"The offset is given twice: {args.offset}, and --offset {args.offset_of_key}. Leave --offset out: it is "
            "only for use with a key."
        )
    return RecordQuery(
        topic=args.topic,
        partition=args.partition,
        key=_key(args),
        offset=args.offset if args.offset_of_key is None else args.offset_of_key,
        at_ms=None if args.at is None else parse_instant(args.at),
    )


def _key(args: Any) -> bytes | None:
    """The bytes of the key; None when none is given.

    :raises ConfigurationError: when both options are given, or one is invalid.
    """
    if args.key is not None and args.key_hex is not None:
        raise ConfigurationError("Give --key or --key-hex, not both.")
    try:
        if args.key_hex is not None:
            return bytes.fromhex(args.key_hex)
        return None if args.key is None else str(args.key).encode()
    except UnicodeEncodeError:
        raise ConfigurationError("--key isn't UTF-8. Give its bytes with --key-hex.") from None
    except ValueError:
        raise ConfigurationError(
            f"--key-hex {args.key_hex!r} isn't bytes in hex: give two digits per byte, such as 00ff1b."
        ) from None
