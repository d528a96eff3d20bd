"""Windows between any two snapshots of a pipeline that have a place in time: log ends and instants."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from kafka import KafkaAdminClient

from airflow_kafka_offsets.errors import ConfigurationError
from tests.integration.airflow.conftest import Commit, Resolve, at, fails_with
from tests.integration.airflow.windows.conftest import Snapshot, evidence, ranges, stamped
from tests.integration.conftest import Produce


def test_from_one_moment_to_another(ten: str, snapshot: Snapshot, resolve: Resolve, produce: Produce) -> None:
    """S2, S21: what comes after the snapshots is not in it; a rerun gets the same."""
    start = snapshot(ten)
    produce(ten, 0, stamped(60, 61))
    end = snapshot(ten)
    produce(ten, 0, stamped(62))
    window = resolve(ten, start, end)
    assert (ranges(window), evidence(window)) == ([(0, 10, 12)], [("log_end", "log_end")])
    assert resolve(ten, start, end) == window


def test_from_an_instant_to_now(ten: str, snapshot: Snapshot, resolve: Resolve) -> None:
    assert ranges(resolve(ten, snapshot(ten, at=at(4)), snapshot(ten))) == [(0, 4, 10)]


def test_between_two_instants_it_is_the_window_of_these_instants(
    ten: str, snapshot: Snapshot, resolve: Resolve
) -> None:
    """S2, E3"""
    between = resolve(ten, snapshot(ten, at=at(4)), snapshot(ten, at=at(7)))
    assert resolve(ten, at(4), at(7)) == between


def test_a_partition_that_was_added_between_them_is_in_it(
    ten: str, admin: KafkaAdminClient, produce: Produce, snapshot: Snapshot, resolve: Resolve
) -> None:
    """E23, S17"""
    start = snapshot(ten)
    admin.create_partitions({ten: 2})
    produce(ten, 1, stamped(1))
    window = resolve(ten, start, snapshot(ten))
    assert (ranges(window), evidence(window)[1][0]) == ([(0, 10, 10), (1, 0, 1)], "new_partition")


def test_a_group_and_the_log_start_are_targets_and_no_place_for_a_window(
    ten: str, commit: Commit, snapshot: Snapshot, resolve: Resolve
) -> None:
    """They are in no order with the others."""
    commit(f"group-of-{ten}", ten, 4)
    for start in (snapshot(ten, group=f"group-of-{ten}"), snapshot(ten, at="earliest")):
        assert start["at_ms"] is None
        with pytest.raises(
            AirflowFailException, match=r"start= is .*'at_ms': None.*as of an instant or latest"
        ) as failed:
            resolve(ten, start, snapshot(ten))
        assert fails_with(ConfigurationError, failed)


class TestRefused:
    def test_a_snapshot_of_another_pipeline(self, ten: str, snapshot: Snapshot, resolve: Resolve) -> None:
        with pytest.raises(AirflowFailException, match=r"start= is .*/others'.*for the pipeline at .*/loads") as failed:
            resolve(ten, snapshot(ten, "others", at=at(4)), snapshot(ten))
        assert fails_with(ConfigurationError, failed)

    @pytest.mark.parametrize("other", [None, at(4), {"snapshot": 1}], ids=["nothing", "an instant", "no snapshot"])
    def test_one_snapshot_and_something_else(self, ten: str, snapshot: Snapshot, resolve: Resolve, other: Any) -> None:
        with pytest.raises(
            AirflowFailException, match=r"start= is .* both be what KafkaOffsetSnapshotOperator"
        ) as failed:
            resolve(ten, other, snapshot(ten))
        assert fails_with(ConfigurationError, failed)
