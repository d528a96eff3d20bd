"""``kafka-offsets ledger find``: where a record is, by its offset, its key or its time."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from airflow_kafka_offsets.cli.connections import stored_ledger
from airflow_kafka_offsets.cli.printing import Column, Row, command, every_column, print_remark, print_rows, row_of
from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.ledger.key_partitions import KeyPartitions, partitions_of_key
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.question import Question
from airflow_kafka_offsets.ledger.whereabouts import Whereabouts, find_known
from airflow_kafka_offsets.ledger.windows_at import WindowAt, find_at
from airflow_kafka_offsets.offsets.instants import iso_instant, parse_instant

_PLACES = (
    Column("partition", "part"),
    Column("offset"),
    Column("found", folds=True),
    Column("window", unless=(None,)),
)
_RANGES = (
    Column("window"),
    Column("state"),
    Column("partition", "part"),
    Column("start_offset", "from"),
    Column("end_offset", "to"),
    Column("lost", unless=(0,)),
)
_NOWHERE = (Column("topic", folds=True), Column("at"), Column("found", folds=True))
_KEY = (Column("partition"), Column("partition_count", "of"), Column("since"))
_EXTENT = ("state", "start", "end")
_RANGE = ("start_offset", "end_offset", "offsets", "lost", "start_evidence", "end_evidence")


@command
def find_record(args: Any) -> int:
    """A row a partition that a record of that offset, or with that key, may be in; or a row a window that has the time,
    and partition. What the answer leaves open is said beside it."""
    question, ledger = _question(args), stored_ledger(args)
    key = None if question.key is None else partitions_of_key(ledger, question.topic, question.key)
    asked: Row = {"topic": question.topic} | (
        {} if key is None else {"key": args.key if args.key_hex is None else args.key_hex}
    )
    code = _find(ledger, question, key, asked, args)
    for remark in () if key is None else key.remarks():
        print_remark(remark)
    return code


def _find(ledger: Ledger, question: Question, key: KeyPartitions | None, asked: Row, args: Any) -> int:
    if question.at_ms is not None:
        return _print_windows(ledger, question, key, asked, args)
    if question.offset is not None:
        partitions = [question.partition] if key is None else key.partitions()
        return _print_places(ledger, question.offset, [each for each in partitions if each is not None], asked, args)
    assert key is not None, "a question is of an offset, a time or a key"
    rows = [
        asked | row_of(each, "partition", "partition_count") | {"since": iso_instant(each.since_ms)}
        for each in key.known
    ]
    print_rows(rows, args, _KEY)
    return 0


def _print_places(ledger: Ledger, offset: int, partitions: list[int], asked: Row, args: Any) -> int:
    places = [find_known(ledger, asked["topic"], partition, offset) for partition in partitions]
    rows = [
        asked | {"partition": partition, "offset": offset} | asdict(place)
        for partition, place in zip(partitions, places, strict=True)
    ]
    single = len(rows) == 1
    print_rows(rows, args, every_column(rows) if single else _PLACES, single=single)
    return 0 if any(place.window is not None for place in places) else 1


def _print_windows(ledger: Ledger, question: Question, key: KeyPartitions | None, asked: Row, args: Any) -> int:
    assert question.at_ms is not None
    found = find_at(ledger, question, key)
    asked = asked | {"at": iso_instant(question.at_ms)}
    if found.nowhere is not None:
        unknown = dict.fromkeys((*_EXTENT, *_RANGE))
        row = asked | {"partition": question.partition} | asdict(Whereabouts(found.nowhere)) | unknown
        print_rows([row], args, _NOWHERE, single=True)
        return 1
    rows = [row for window in found.windows for row in _rows(window, asked)]
    single = len(rows) == 1
    print_rows(rows, args, every_column(rows) if single else _RANGES, single=single)
    for window in found.windows:
        for remark in window.remarks:
            print_remark(f"{window.place.window}: {remark}")
    return 0


def _rows(window: WindowAt, asked: Row) -> list[Row]:
    summary = window.summary
    extent = {"state": str(summary.state), "start": iso_instant(summary.start_ms), "end": iso_instant(summary.end_ms)}
    return [
        asked
        | row_of(pinned, "partition")
        | asdict(window.place)
        | extent
        | row_of(pinned, "start_offset", "end_offset")
        | {"offsets": pinned.span, "lost": pinned.lost_offsets}
        | row_of(pinned, "start_evidence", "end_evidence")
        for pinned in window.ranges
    ]


def _question(args: Any) -> Question:
    if args.offset is not None and args.offset_of_key is not None:
        raise ConfigurationError(f"The offset is given twice: {args.offset}, and --offset {args.offset_of_key}.")
    return Question(
        topic=args.topic,
        partition=args.partition,
        key=_key(args),
        offset=args.offset if args.offset_of_key is None else args.offset_of_key,
        at_ms=None if args.at is None else parse_instant(args.at),
    )


def _key(args: Any) -> bytes | None:
    """The bytes of the key; None where none is given.

    :raises ConfigurationError: when there are two of them, or one isn't what it should be.
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
            f"--key-hex {args.key_hex!r} isn't bytes in hex: give two digits a byte, such as 00ff1b."
        ) from None
