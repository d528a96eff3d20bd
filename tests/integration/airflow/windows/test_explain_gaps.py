"""Verify explains the offsets without a record from the log itself, or says that it can't."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from kafka import KafkaAdminClient, TopicPartition as KafkaPartition

from airflow_kafka_offsets.errors import TopicChangedError, UnprovenError
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.operators.verify_window import KafkaVerifyWindowOperator
from airflow_kafka_offsets.references.window_ref import WindowRef
from dev.kafka import Broker
from tests.integration.airflow.conftest import FOR_EVER, T0_MS, Context, fails_with, recreate
from tests.integration.airflow.loads import publish_rows
from tests.integration.airflow.windows.conftest import Increment, stamped
from tests.integration.client.cases.test_transactions import wait_until_decided
from tests.integration.client.cases.workload import connected_client, new_topic, send, transactional_producer
from tests.integration.conftest import Produce

COMMITTED = [0, 1, 2, 3, 4, 9]
"""Offsets of the records in the log of :func:`decided`, of which nobody aborted any."""


@pytest.fixture(scope="module")
def decided(broker: Broker, produce: Produce) -> str:
    """Three records, two committed ones with their marker, two aborted ones with theirs, and a last one.

    The last tests delete some of it, and all of it.
    """
    name = new_topic(broker, config=FOR_EVER)
    produce(name, 0, stamped(0, 1, 2))
    for commits in (True, False):
        with transactional_producer(broker) as producer:
            send(producer, name, timestamps=(T0_MS + 3000, T0_MS + 4000))
            producer.commit_transaction() if commits else producer.abort_transaction()
        with connected_client(broker.bootstrap_servers) as client:
            wait_until_decided(client, TopicPartition(name, 0))
    produce(name, 0, stamped(5))
    return name


class Loaded:
    """A window over all of the log, loaded with some rows."""

    def __init__(self, window: dict[str, Any], context: Context) -> None:
        self.window = window
        self.context = context

    def verify(self, **arguments: Any) -> dict[str, Any]:
        operator = KafkaVerifyWindowOperator(task_id="v", window=self.window, **arguments)
        return operator.execute(self.context)

    @property
    def recorded(self) -> Any:
        """The verdict in the ledger."""
        ref = WindowRef.from_json(self.window)
        _, publication = ref.published_in(ref.ledger())
        return publication.verdict


class Load(Protocol):
    def __call__(self, topic: str, rows: Sequence[int], **arguments: Any) -> Loaded:
        """A window over all of a topic's log, of which these offsets were loaded."""


@pytest.fixture
def load(increment: Increment, context: Context) -> Load:
    def run(topic: str, rows: Sequence[int], **arguments: Any) -> Loaded:
        window = increment(topic, "run-1", **arguments)
        publish_rows(window, topic, rows)
        return Loaded(window, context)

    return run


class TestExplained:
    def test_gaps_are_markers_and_aborted_records(self, decided: str, load: Load) -> None:
        """E12, S10: in the report, in the ledger, and in words."""
        loaded = load(decided, COMMITTED)
        report = loaded.verify(explain_gaps=True)
        causes = {"markers": 2, "aborted": 2, "compacted": 0, "removed_since": 0}
        assert (report["gaps"], report["explained"]) == (4, causes)
        assert "4 offsets without a record (2 markers, 2 aborted records, 0 compacted away)" in report["verdict"]
        assert loaded.recorded["explained"] == causes
        assert loaded.recorded["verdict"] == report["verdict"]

    def test_markers_alone_are_gaps_to_a_reader_of_uncommitted_records(self, decided: str, load: Load) -> None:
        """E15, S11."""
        rows = [0, 1, 2, 3, 4, 6, 7, 9]
        loaded = load(decided, rows, isolation_level="read_uncommitted")
        assert loaded.verify(explain_gaps=True)["explained"] == {
            "markers": 2,
            "aborted": 0,
            "compacted": 0,
            "removed_since": 0,
        }

    def test_a_window_without_gaps_has_nothing_to_explain(self, ten: str, load: Load) -> None:
        loaded = load(ten, range(10))
        report = loaded.verify(explain_gaps=True)
        assert (report["gaps"], set(report["explained"].values())) == (0, {0})

    def test_what_was_recorded_first_stays(self, decided: str, load: Load) -> None:
        """A run that is cleared may find a log that was compacted meanwhile."""
        loaded = load(decided, COMMITTED)
        assert loaded.verify()["explained"] is None
        recorded = loaded.recorded
        assert loaded.verify(explain_gaps=True)["explained"]["markers"] == 2
        assert loaded.recorded == recorded


class TestUnexplained:
    @pytest.mark.parametrize(
        ("rows", "said"),
        [
            pytest.param(COMMITTED[:-1], "has 6 records in the log, but 5 were written", id="a row is missing"),
            pytest.param([*COMMITTED, 6], "has 6 records in the log, but 7 were written", id="an aborted one is there"),
            pytest.param([0, 1, 2, 3, 4, 6], "at other offsets", id="an aborted one stands for a committed one"),
        ],
    )
    def test_rows_that_are_not_the_records_of_the_log_are_not_proved(
        self, decided: str, load: Load, rows: list[int], said: str
    ) -> None:
        """What the counts of the run alone don't tell, as gaps are allowed."""
        loaded = load(decided, rows)
        with pytest.raises(AirflowFailException, match=f"{decided}-0 .*{said}") as failed:
            loaded.verify(explain_gaps=True)
        assert fails_with(UnprovenError, failed)
        loaded.verify()

    def test_gaps_before_the_log_start_cannot_be_explained_any_more(
        self, decided: str, load: Load, admin: KafkaAdminClient
    ) -> None:
        """E9: no guess."""
        loaded = load(decided, COMMITTED)
        admin.delete_records({KafkaPartition(decided, 0): 4})
        said = f"4 gaps of {decided}-0 can no longer be explained: the log starts at 4, past offset 0"
        with pytest.raises(AirflowFailException, match=said):
            loaded.verify(explain_gaps=True)

    def test_a_recreated_topic_explains_nothing(self, decided: str, load: Load, admin: KafkaAdminClient) -> None:
        """S16"""
        loaded = load(decided, [4, 9])
        recreate(admin, decided)
        with pytest.raises(AirflowFailException, match="re-created") as failed:
            loaded.verify(explain_gaps=True)
        assert fails_with(TopicChangedError, failed)
