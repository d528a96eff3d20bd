"""Publishing: what drivers have counted becomes what counts, in one order, whoever asks and whatever pauses where."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from pkgutil import resolve_name
from typing import Any

import pytest
from airflow.sdk import ObjectStoragePath
from kafka import KafkaAdminClient

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.errors import (
    ClusterUnreachableError,
    CommitConflictError,
    LedgerConflictError,
    TopicChangedError,
)
from airflow_kafka_offsets.ledger import corrections
from airflow_kafka_offsets.ledger.counted import Counted
from airflow_kafka_offsets.ledger.entries import Published
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.state import Window
from airflow_kafka_offsets.offsets.proof.run_result import RunResult
from airflow_kafka_offsets.pipelines.loads import publish_each, returned, take_over
from dev.kafka import Broker
from tests.integration.airflow.conftest import recreate
from tests.integration.airflow.windows.counted import Count, count, pinned, published, window
from tests.integration.client.cases.workload import connected_client
from tests.integration.ledger.loads import begin
from tests.unit.offsets.proof.results import run_result, tallies

__all__ = ["count", "pinned", "window"]
TABLE: dict[str, Any] = {"sink": "delta", "apart": False, "output": "lake.flights"}
KAFKA_IS_ASKED = "airflow_kafka_offsets.pipelines.loads.changes"
COMMIT_IS_CREATED = "airflow_kafka_offsets.ledger.storage.create_exclusive"
SOURCE_IS_ASKED = "airflow_kafka_offsets.pipelines.loads.refuse_changed_topics"
Meanwhile = Callable[[str, Callable[[], object]], None]


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Meanwhile:
    """Let something happen once, just before a function of the publisher's is called."""

    def before(name: str, happens: Callable[[], object]) -> None:
        original = resolve_name(name)

        def paused(*arguments: Any) -> Any:
            monkeypatch.setattr(name, original)
            happens()
            return original(*arguments)

        monkeypatch.setattr(name, paused)

    return before


def another(ledger: Ledger) -> Ledger:
    """The same ledger, as another process has it."""
    return Ledger(ObjectStoragePath(ledger.uri.rpartition("/")[0]), ledger.pipeline)


class TestOneAttempt:
    def test_a_topic_that_was_made_again_after_the_read_is_not_published(
        self, admin: KafkaAdminClient, client: OffsetsClient, ledger: Ledger, pinned: Window, count: Count
    ) -> None:
        counted = count(pinned)
        (topic,) = ledger.pinned(pinned).manifest.topics
        recreate(admin, topic)
        with pytest.raises(TopicChangedError, match=r"re-created.* has loaded, is not publ"):
            publish(client, counted)
        assert published(ledger, pinned) is None

    def test_while_kafka_does_not_answer_nothing_is_published_and_nothing_lost(
        self, client: OffsetsClient, ledger: Ledger, pinned: Window, count: Count
    ) -> None:
        counted = count(pinned)
        with connected_client("127.0.0.1:1", timeout_s=1) as unreachable, pytest.raises(ClusterUnreachableError):
            publish(unreachable, counted)
        assert published(ledger, pinned) is None
        assert publish(client, counted).attempt == counted.attempt.number


class TestSideBySide:
    def test_many_publishers_of_many_attempts_publish_one(
        self, broker: Broker, ledger: Ledger, pinned: Window, count: Count
    ) -> None:
        counted = [count(pinned) for _ in range(8)]
        ready = threading.Barrier(len(counted))

        def ask(each: Counted) -> Published:
            with connected_client(broker.bootstrap_servers, timeout_s=60) as connected:
                connected.cluster_id()
                ready.wait()
                return publish(connected, replace(each, ledger=another(ledger)))

        with ThreadPoolExecutor(len(counted)) as threads:
            found = set(threads.map(ask, counted))
        assert found == {published(ledger, pinned)}


class TestAPause:
    """A publisher looks at what counts, asks Kafka, and creates its commit, if it is still the next one."""

    @pytest.mark.parametrize("moment", [KAFKA_IS_ASKED, COMMIT_IS_CREATED])
    def test_what_was_published_meanwhile_is_what_counts(
        self,
        broker: Broker,
        client: OffsetsClient,
        ledger: Ledger,
        pinned: Window,
        count: Count,
        meanwhile: Meanwhile,
        moment: str,
    ) -> None:
        ours, theirs = count(pinned), count(pinned)

        def publish_beside() -> None:
            with connected_client(broker.bootstrap_servers) as connected:
                publish(connected, replace(theirs, ledger=another(ledger)))

        meanwhile(moment, publish_beside)
        assert publish(client, ours).attempt == theirs.attempt.number

    @pytest.mark.parametrize("moment", [KAFKA_IS_ASKED, COMMIT_IS_CREATED])
    def test_a_window_that_was_voided_meanwhile_is_not_told_to_be_published(
        self,
        client: OffsetsClient,
        ledger: Ledger,
        pinned: Window,
        count: Count,
        meanwhile: Meanwhile,
        moment: str,
    ) -> None:
        counted = count(pinned)
        meanwhile(moment, lambda: another(ledger).change(lambda state: corrections.void(state, [pinned.name])))
        with pytest.raises(LedgerConflictError, match="has no window"):
            publish(client, counted)

    @pytest.mark.parametrize("moment", [KAFKA_IS_ASKED, COMMIT_IS_CREATED])
    def test_in_a_table_nothing_is_published_whose_rows_an_attempt_may_have_replaced_meanwhile(
        self,
        client: OffsetsClient,
        ledger: Ledger,
        pinned: Window,
        count: Count,
        meanwhile: Meanwhile,
        moment: str,
    ) -> None:
        counted = count(pinned, **TABLE)
        meanwhile(moment, lambda: begin(another(ledger), pinned))
        with pytest.raises(CommitConflictError, match=r"began later .*lake\.flights"):
            publish(client, counted)
        assert published(ledger, pinned) is None


class TestTakingOver:
    """What a client of Spark Connect has counted is kept by whoever is given it first."""

    @pytest.fixture
    def handed(self, ledger: Ledger, pinned: Window) -> RunResult:
        manifest, attempt = ledger.pinned(pinned).manifest, begin(ledger, pinned)
        return run_result(
            manifest, tallies(manifest), attempt=attempt.number, run="00000001", application_id=None, source=None
        )

    @pytest.mark.parametrize("moment", [SOURCE_IS_ASKED, COMMIT_IS_CREATED])
    def test_two_that_take_it_at_one_time_get_the_same(
        self,
        broker: Broker,
        client: OffsetsClient,
        ledger: Ledger,
        pinned: Window,
        handed: RunResult,
        meanwhile: Meanwhile,
        moment: str,
    ) -> None:
        """Two tries of verify, or verify beside the command."""
        others = []

        def take_beside() -> None:
            with connected_client(broker.bootstrap_servers) as connected:
                others.append(take(connected, ledger, pinned, handed))

        meanwhile(moment, take_beside)
        assert [take(client, ledger, pinned, handed)] == others
        assert publish(client, others[0]).attempt == handed.attempt

    def test_one_of_an_attempt_that_the_window_does_not_know_is_refused(
        self, client: OffsetsClient, ledger: Ledger, pinned: Window, handed: RunResult
    ) -> None:
        """Such as a copy of the ledger has begun."""
        with pytest.raises(CommitConflictError):
            take(client, ledger, pinned, replace(handed, attempt=handed.attempt + 40))


def publish(client: OffsetsClient, counted: Counted) -> Published:
    return returned(publish_each(lambda: nullcontext(client), {0: counted})[0])


def take(client: OffsetsClient, ledger: Ledger, window: Window, handed: RunResult) -> Counted:
    return take_over(client, ledger, ledger.window(window.name), handed)
