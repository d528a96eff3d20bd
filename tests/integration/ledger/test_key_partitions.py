"""The partitions of a key: what the ledger knows of them, and what it says that it doesn't know."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.ledger.key_partitions import KeyPartition, partitions_of_key
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.offsets.keys import partition_of_key
from airflow_kafka_offsets.offsets.windows.snapshots import AsOf, AsOfKind
from tests.integration.ledger.added_topics import ADDED, add_topic, at_hour
from tests.integration.ledger.loads import counted, new_ledger, pin
from tests.unit.offsets.builders import HOUR_MS, T0

KEY = b"customer-4711"


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return new_ledger(tmp_path)


def test_a_key_is_where_murmur2_puts_it(ledger: Ledger) -> None:
    pin(ledger, counted(0, 6), counted(1, 6))
    found = partitions_of_key(ledger, "t", KEY)
    assert found.known == (KeyPartition(partition_of_key(KEY, 6), 6, T0),)
    partitioner, count = found.remarks()
    assert "murmur2" in partitioner
    assert "CRC32" in partitioner
    assert "All snapshots have 6 partitions." in count


def test_every_partition_count_that_snapshots_know_of_counts(ledger: Ledger) -> None:
    counts = [1, 1, 1, 4, 4, 7, 7, 7, 7]
    for hour, count in enumerate(counts):
        ledger.snapshots.append([counted(hour, count)])
    found = partitions_of_key(ledger, "t", KEY)
    assert found.known == tuple(
        KeyPartition(partition_of_key(KEY, count), count, T0 + hour * HOUR_MS)
        for count, hour in ((7, 5), (4, 3), (1, 0))
    )
    assert (
        "1 partition from 2026-11-21T06:00:00.000Z on, which puts the key in partition 0, then 4 partitions"
        in found.remarks()[1]
    )


def test_the_newest_snapshot_counts_though_it_is_none_of_the_chain(ledger: Ledger) -> None:
    ledger.snapshots.append([counted(0, 2)])
    commits = replace(counted(1, 5), as_of=AsOf(AsOfKind.GROUP, group="g"))
    ledger.snapshots.append([commits])
    assert [each.partition_count for each in partitions_of_key(ledger, "t", KEY).known] == [5, 2]


def test_a_topic_that_was_added_is_known_though_an_hour_before_was_resolved_last(ledger: Ledger) -> None:
    """A backfill: of what the hour after it doesn't have, a snapshot has nothing."""
    add_topic(ledger)
    backfilled = ledger.snapshots.append([at_hour(-1, 400)])[0]
    assert ADDED not in backfilled.topics
    since = T0 + 3 * HOUR_MS
    assert partitions_of_key(ledger, ADDED, KEY).known == (KeyPartition(partition_of_key(KEY, 2), 2, since),)


def test_between_two_snapshots_that_know_of_one_count_none_is_read(ledger: Ledger, tmp_path: Path) -> None:
    """So that a year of them takes a dozen reads."""
    for hour in range(20):
        ledger.snapshots.append([counted(hour, 3)])
    for file in sorted((tmp_path / "loads" / "snapshots").rglob("*.json.gz"))[1:-1]:
        file.write_bytes(gzip.compress(b"damaged"))
    assert [each.partition_count for each in partitions_of_key(ledger, "t", KEY).known] == [3]


def test_without_a_snapshot_nothing_is_known(ledger: Ledger) -> None:
    with pytest.raises(ConfigurationError, match=r"has no snapshot yet.*Give the partition instead of the key\."):
        partitions_of_key(ledger, "t", KEY)


def test_a_topic_that_no_snapshot_has_is_refused(ledger: Ledger) -> None:
    pin(ledger, counted(0, 6), counted(1, 6))
    with pytest.raises(ConfigurationError, match="has no topic 'other'; it has t"):
        partitions_of_key(ledger, "other", KEY)
