"""Logs that group lag is counted on, on a real broker: with transactions, emptied, or shorter than a commit says."""

from __future__ import annotations

from datetime import timedelta

import pytest
from kafka import KafkaAdminClient, TopicPartition as KafkaPartition

from airflow_kafka_offsets.errors import ConditionFailedError
from dev.kafka import Broker
from tests.integration.airflow.conftest import Commit
from tests.integration.airflow.waits.conftest import Look, MakeGroup
from tests.integration.client.cases.workload import send, transactional_producer
from tests.integration.conftest import Produce
from tests.patience import wait_until


class TestAheadOfLog:
    def test_fails_and_passes_only_when_it_is_no_longer(
        self, ten: str, group: MakeGroup, commit: Commit, look: Look
    ) -> None:
        """E17: whatever limits there are, the total isn't known."""
        name = group(ten, {0: 11})
        for limits in ({}, {"max_lag": 10**9}):
            with pytest.raises(ConditionFailedError, match=rf"on {ten}-0 is past the log's end"):
                look(name, **limits)
        commit(name, ten, 10)
        assert look(name).done


class TestTransactions:
    """What stands in the log and no reader gets."""

    def test_a_commit_before_a_tail_of_markers_has_caught_up(
        self, broker: Broker, ten: str, group: MakeGroup, produce: Produce, look: Look
    ) -> None:
        """E12: at either isolation level."""
        with transactional_producer(broker) as producer:
            last = send(producer, ten)[-1]
            producer.commit_transaction()
        behind = group(ten, {0: last})
        wait_until(lambda: not look(behind).done, "the record before the marker is decided, and unread")
        name = group(ten, {0: last + 1})
        for level in ("read_committed", "read_uncommitted"):
            found = look(name, isolation_level=level)
            assert (found.done, found.result["groups"]) == (True, {name: 0}), level
        produce(ten, 0, [(None, None, b"x")])
        assert not look(name).done, "there is a record behind the marker now"

    def test_aborted_records_are_nothing_to_one_level_and_unread_to_the_other(
        self, broker: Broker, ten: str, group: MakeGroup, look: Look
    ) -> None:
        """E12, E13"""
        with transactional_producer(broker) as producer:
            send(producer, ten, timestamps=(None, None))
            producer.abort_transaction()
        name = group(ten, {0: 10})
        assert look(name).done
        assert look(name, isolation_level="read_uncommitted").result["groups"] == {name: 3}

    def test_only_the_partitions_without_records_count_as_nothing(
        self, broker: Broker, spread: str, group: MakeGroup, look: Look
    ) -> None:
        """E12: the largest lag is all aborted, the smaller one is real."""
        with transactional_producer(broker) as producer:
            send(producer, spread, timestamps=(None,) * 4)
            producer.abort_transaction()
        name = group(spread, {0: 5, 1: 3, 2: 5, 3: 5})
        found = look(name)
        assert (found.done, found.result["groups"]) == (False, {name: 2})
        assert found.summary == f"{name} is 2 behind ({spread}-1 2)"
        assert look(name, max_lag=2).done

    def test_an_open_transaction_counts_for_those_who_read_everything(
        self, broker: Broker, ten: str, group: MakeGroup, look: Look
    ) -> None:
        """E13: and for all once it is committed."""
        name = group(ten, {0: 10})
        with transactional_producer(broker) as producer:
            send(producer, ten, timestamps=(None, None))
            assert look(name).done
            assert look(name, isolation_level="read_uncommitted").result["groups"] == {name: 2}
            producer.commit_transaction()
            wait_until(lambda: not look(name).done, "the records are visible")
        wait_until(lambda: look(name).result["groups"] == {name: 3}, "two records and a marker are unread")


class TestDeletedRecords:
    """E9"""

    def test_that_were_never_read_are_no_reason_to_pass_even_if_nothing_is_left_to_read(
        self, admin: KafkaAdminClient, ten: str, group: MakeGroup, look: Look
    ) -> None:
        name = group(ten, {0: 3})
        admin.delete_records({KafkaPartition(ten, 0): 5})
        assert look(name).summary.startswith(
            f"{name} is 7 behind ({ten}-0 7); 2 offsets were deleted before it read them"
        )
        admin.delete_records({KafkaPartition(ten, 0): 10})
        found = look(name)
        assert (found.done, found.result["groups"]) == (False, {name: 7})
        assert found.summary.startswith(f"{name} is 7 behind ({ten}-0 7); 7 offsets were deleted before it read them")

    def test_have_no_age_that_could_be_told(
        self, admin: KafkaAdminClient, ten: str, group: MakeGroup, look: Look
    ) -> None:
        name = group(ten, {0: 3})
        admin.delete_records({KafkaPartition(ten, 0): 10})
        found = look(name, max_age=timedelta(hours=1))
        assert not found.done
        assert "7 offsets were deleted before it read them" in found.summary

    def test_are_not_made_good_by_a_young_record_behind_them(
        self, admin: KafkaAdminClient, ten: str, group: MakeGroup, produce: Produce, look: Look
    ) -> None:
        """They were older than it."""
        name = group(ten, {0: 3})
        produce(ten, 0, [(None, None, b"x")])
        admin.delete_records({KafkaPartition(ten, 0): 10})
        assert not look(name, max_age=timedelta(hours=1)).done
