"""Publishing: what drivers have counted becomes what counts, in one order, whoever asks and whatever pauses where."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pkgutil import resolve_name
from typing import Any

import pytest
from kafka import KafkaAdminClient

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.errors import (
    ClusterUnreachableError,
    CountedTwiceError,
    LedgerConflictError,
    TopicChangedError,
    UnprovenError,
)
from airflow_kafka_offsets.ledger.forgetting import forget_windows
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.publications import Publications
from airflow_kafka_offsets.ledger.verification import verify
from airflow_kafka_offsets.ledger.window_folder import PinnedManifest
from airflow_kafka_offsets.offsets.proof.publication import Publication
from airflow_kafka_offsets.offsets.proof.run_result import RunResult, Tally
from airflow_kafka_offsets.pipelines.publisher import CountedAttempt, counted_attempt, publish, take_over
from dev.kafka import Broker
from tests.integration.airflow.conftest import (
    recreate,
)
from tests.integration.airflow.windows.counted import (
    Count,
    count,
    left_of,
    pinned,
    published,
    revised,
    window,
)
from tests.integration.client.cases.workload import connected_client
from tests.unit.offsets.proof.results import run_result, tallies, tally_of

__all__ = ["count", "pinned", "window"]
TABLE: dict[str, Any] = {"sink": "delta", "apart": False, "output": "lake.flights"}
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


class TestOneAttempt:
    def test_it_is_published_once_whoever_asks_how_often(
        self, client: OffsetsClient, ledger: Ledger, pinned: PinnedManifest, count: Count
    ) -> None:
        counted = count(pinned)
        first = publish(client, ledger, counted)
        assert publish(client, ledger, counted) == first
        assert published(ledger, pinned) == [(1, 1, "a-1", None)]
        assert (first.rows, first.output, first.result_sha256) == (5, "file:/out", counted.sha256)

    def test_what_is_not_proved_is_not_published(
        self, client: OffsetsClient, ledger: Ledger, pinned: PinnedManifest
    ) -> None:
        (only,) = pinned.manifest.ranges
        short = [tally_of(only.topic, 0, range(only.start_offset, only.end_offset - 1))]
        ledger.window_folders.of(pinned).record_result(run_result(pinned.manifest, short, read=Tally(5)))
        counted = counted_attempt(ledger, pinned, "a-1")
        assert counted is not None
        with pytest.raises(UnprovenError, match=r"is not published: .*read 5 rows, wrote 4") as refused:
            publish(client, ledger, counted)
        assert not isinstance(refused.value, CountedTwiceError)
        assert published(ledger, pinned) == []

    def test_a_topic_that_was_made_again_after_the_read_is_not_published(
        self, admin: KafkaAdminClient, client: OffsetsClient, ledger: Ledger, pinned: PinnedManifest, count: Count
    ) -> None:
        counted = count(pinned)
        (topic,) = pinned.manifest.topics
        recreate(admin, topic)
        with pytest.raises(TopicChangedError, match=r"re-created.* which attempt a-1 has loaded, is not publ"):
            publish(client, ledger, counted)
        assert published(ledger, pinned) == []

    def test_while_kafka_does_not_answer_nothing_is_published_and_nothing_lost(
        self, client: OffsetsClient, ledger: Ledger, pinned: PinnedManifest, count: Count
    ) -> None:
        counted = count(pinned)
        with connected_client("127.0.0.1:1", timeout_s=1) as unreachable, pytest.raises(ClusterUnreachableError):
            publish(unreachable, ledger, counted)
        assert published(ledger, pinned) == []
        assert publish(client, ledger, counted).number == 1

    def test_a_forgotten_revision_is_not_published(
        self, client: OffsetsClient, ledger: Ledger, pinned: PinnedManifest, count: Count
    ) -> None:
        counted = count(pinned)
        forget_windows(ledger, [pinned.manifest.window], "test")
        with pytest.raises(LedgerConflictError, match="has been forgotten since it was resolved"):
            publish(client, ledger, counted)
        assert published(ledger, pinned) == []


class TestTwoAttempts:
    def test_the_first_one_counts(
        self, client: OffsetsClient, ledger: Ledger, pinned: PinnedManifest, count: Count
    ) -> None:
        first, second = count(pinned, "a-1"), count(pinned, "a-2")
        assert publish(client, ledger, second).attempt == "a-2"
        assert publish(client, ledger, first).attempt == "a-2"

    def test_of_two_that_differ_the_second_one_says_so(
        self, client: OffsetsClient, ledger: Ledger, pinned: PinnedManifest, count: Count
    ) -> None:
        publish(client, ledger, count(pinned, "a-1"))
        (rows,) = tallies(pinned.manifest)
        other = count(pinned, "a-2", read=Tally(5, checksum=7), output="file:/other")
        result = replace(other.result, written=(replace(rows, checksum=7),))
        with pytest.raises(UnprovenError, match=r"a-1 \(published, 5 rows\) and a-2 .* differ"):
            publish(client, ledger, replace(other, result=result))


class TestRevisions:
    def test_a_newer_one_takes_the_place_of_an_older_one_and_never_the_other_way(
        self, client: OffsetsClient, ledger: Ledger, pinned: PinnedManifest, count: Count
    ) -> None:
        newer = revised(ledger, pinned)
        old, new = count(pinned, "a-1"), count(newer, "a-2")
        assert [publish(client, ledger, each).attempt for each in (old, new, old)] == ["a-1", "a-2", "a-2"]
        assert published(ledger, pinned) == [(1, 1, "a-1", None), (2, 2, "a-2", 1)]
        assert ledger.window_folders.publication(pinned.manifest.window) == published_as(ledger, pinned, 2)

    def test_the_newer_one_first_leaves_the_older_one_unpublished(
        self, client: OffsetsClient, ledger: Ledger, pinned: PinnedManifest, count: Count
    ) -> None:
        newer = revised(ledger, pinned)
        old, new = count(pinned, "a-1"), count(newer, "a-2")
        assert [publish(client, ledger, each).attempt for each in (new, old)] == ["a-2", "a-2"]
        assert published(ledger, pinned) == [(1, 2, "a-2", None)]

    def test_what_a_loss_left_stands_back_behind_the_whole(
        self, client: OffsetsClient, ledger: Ledger, pinned: PinnedManifest, count: Count
    ) -> None:
        whole, left = count(pinned, "a-1"), count(left_of(ledger, pinned), "a-2")
        assert [publish(client, ledger, each).attempt for each in (whole, left)] == ["a-1", "a-1"]

    def test_nor_does_the_whole_come_after_what_a_loss_left(
        self, client: OffsetsClient, ledger: Ledger, pinned: PinnedManifest, count: Count
    ) -> None:
        """Whoever let a load take the rest has what was left; the ledger says how much that lacks."""
        whole, left = count(pinned, "a-1"), count(left_of(ledger, pinned), "a-2")
        assert [publish(client, ledger, each).attempt for each in (left, whole)] == ["a-2", "a-2"]

    def test_in_a_table_the_whole_is_not_published_once_its_rows_may_be_replaced(
        self, client: OffsetsClient, ledger: Ledger, pinned: PinnedManifest, count: Count
    ) -> None:
        """The ledger said 205 rows, and the table held 200. A client of Spark Connect doesn't even say that it has
        begun."""
        whole = count(pinned, "a-1", **TABLE)
        left = left_of(ledger, pinned)
        with pytest.raises(LedgerConflictError, match=r"Revision 2 .* has been resolved since, and in lake\.flights"):
            publish(client, ledger, whole)
        assert publish(client, ledger, count(left, "a-2", **TABLE)).rows == 4

    def test_in_a_table_the_last_one_written_is_the_last_one_published(
        self, client: OffsetsClient, ledger: Ledger, pinned: PinnedManifest, count: Count
    ) -> None:
        publish(client, ledger, count(pinned, "a-1", **TABLE))
        left = count(left_of(ledger, pinned), "a-2", **TABLE)
        assert publish(client, ledger, left).replaces == 1


class TestSideBySide:
    def test_many_publishers_of_many_revisions_end_in_one_order(
        self, broker: Broker, ledger: Ledger, pinned: PinnedManifest, count: Count
    ) -> None:
        revisions = [pinned]
        for _ in range(3):
            revisions.append(revised(ledger, revisions[-1]))
        counted = [count(each, f"a-{each.manifest.revision}-{n}") for each in revisions for n in range(2)]
        ready = threading.Barrier(len(counted))

        def ask(each: CountedAttempt) -> Publication:
            with connected_client(broker.bootstrap_servers, timeout_s=60) as connected:
                connected.cluster_id()
                ready.wait()
                return publish(connected, ledger, each)

        with ThreadPoolExecutor(len(counted)) as threads:
            list(threads.map(ask, counted))
        found = published(ledger, pinned)
        assert [number for number, *_ in found] == list(range(1, len(found) + 1))
        assert [revision for _, revision, *_ in found] == sorted({revision for _, revision, *_ in found})
        assert found[-1][1] == 4
        assert [replaces for *_, replaces in found] == [None, *range(1, len(found))]


KAFKA_IS_ASKED = "airflow_kafka_offsets.pipelines.publisher.refuse_changed"
FILE_IS_CREATED = "airflow_kafka_offsets.ledger.publications.Publications.create"


SOURCE_IS_ASKED = "airflow_kafka_offsets.pipelines.publisher.source_now"
ATTEMPT_IS_NOTED = "airflow_kafka_offsets.ledger.window_folder.WindowFolder.record_attempt"
RESULT_IS_KEPT = "airflow_kafka_offsets.ledger.window_folder.WindowFolder.record_result"


class TestAPause:
    """A publisher looks at what counts, asks Kafka, looks again, creates its file, and looks what counts then."""

    @pytest.fixture
    def publish_beside(self, broker: Broker, ledger: Ledger) -> Callable[[CountedAttempt], Publication]:
        def ask(counted: CountedAttempt) -> Publication:
            with connected_client(broker.bootstrap_servers) as another:
                return publish(another, ledger, counted)

        return ask

    @pytest.mark.parametrize("moment", [KAFKA_IS_ASKED, FILE_IS_CREATED])
    def test_a_newer_revision_that_was_published_meanwhile_is_what_counts(
        self,
        client: OffsetsClient,
        ledger: Ledger,
        pinned: PinnedManifest,
        count: Count,
        meanwhile: Meanwhile,
        publish_beside: Callable[[CountedAttempt], Publication],
        moment: str,
    ) -> None:
        old, new = count(pinned, "a-1"), count(revised(ledger, pinned), "a-2")
        meanwhile(moment, lambda: publish_beside(new))
        assert publish(client, ledger, old).attempt == "a-2"
        assert published(ledger, pinned) == [(1, 2, "a-2", None)]
        assert [each.found for each in verify(ledger) if not each.holds] == []

    @pytest.mark.parametrize("moment", [KAFKA_IS_ASKED, FILE_IS_CREATED])
    def test_a_window_that_was_forgotten_meanwhile_is_not_told_to_be_published(
        self,
        client: OffsetsClient,
        ledger: Ledger,
        pinned: PinnedManifest,
        count: Count,
        meanwhile: Meanwhile,
        moment: str,
    ) -> None:
        counted, window = count(pinned), pinned.manifest.window
        meanwhile(moment, lambda: forget_windows(ledger, [window], "test"))
        with pytest.raises(LedgerConflictError, match="has been forgotten since it was resolved"):
            publish(client, ledger, counted)
        assert ledger.window_folders.publication(window) is None

    def test_what_was_published_just_before_it_was_replaced_is_not_told_to_count(
        self,
        client: OffsetsClient,
        ledger: Ledger,
        pinned: PinnedManifest,
        count: Count,
        monkeypatch: pytest.MonkeyPatch,
        publish_beside: Callable[[CountedAttempt], Publication],
    ) -> None:
        old, new = count(pinned, "a-1"), count(revised(ledger, pinned), "a-2")
        create = Publications.create

        def overtaken(self: Publications, ours: Publication) -> bool:
            created = create(self, ours)
            if ours.attempt == "a-1":
                publish_beside(new)
            return created

        monkeypatch.setattr(Publications, "create", overtaken)
        assert publish(client, ledger, old).attempt == "a-2"
        assert published(ledger, pinned) == [(1, 1, "a-1", None), (2, 2, "a-2", 1)]

    def test_in_a_table_nothing_is_published_whose_rows_a_newer_revision_may_have_replaced_meanwhile(
        self, client: OffsetsClient, ledger: Ledger, pinned: PinnedManifest, count: Count, meanwhile: Meanwhile
    ) -> None:
        counted = count(pinned, **TABLE)
        meanwhile(KAFKA_IS_ASKED, lambda: count(revised(ledger, pinned), "a-2", **TABLE))
        with pytest.raises(LedgerConflictError, match=r"Revision 2 .*lake\.flights"):
            publish(client, ledger, counted)
        assert published(ledger, pinned) == []


class TestTakingOver:
    """What a client of Spark Connect has counted is kept by whoever is given it first."""

    @pytest.fixture
    def handed(self, pinned: PinnedManifest) -> RunResult:
        return run_result(pinned.manifest, tallies(pinned.manifest), application_id=None, source=None)

    @pytest.mark.parametrize("moment", [SOURCE_IS_ASKED, ATTEMPT_IS_NOTED, RESULT_IS_KEPT])
    def test_two_that_take_it_at_one_time_get_the_same(
        self,
        broker: Broker,
        client: OffsetsClient,
        ledger: Ledger,
        pinned: PinnedManifest,
        handed: RunResult,
        meanwhile: Meanwhile,
        moment: str,
    ) -> None:
        """Two tries of verify, or verify beside the command."""
        others = []

        def take_beside() -> None:
            with connected_client(broker.bootstrap_servers) as another:
                others.append(take_over(another, ledger, pinned, handed))

        meanwhile(moment, take_beside)
        assert [take_over(client, ledger, pinned, handed)] == others
        assert publish(client, ledger, others[0]).attempt == handed.attempt

    def test_another_result_of_the_same_attempt_is_refused(
        self, client: OffsetsClient, ledger: Ledger, pinned: PinnedManifest, handed: RunResult
    ) -> None:
        take_over(client, ledger, pinned, handed)
        with pytest.raises(LedgerConflictError, match="already has a different result in the ledger"):
            take_over(client, ledger, pinned, replace(handed, seconds=1.5))


def published_as(ledger: Ledger, pinned: PinnedManifest, number: int) -> Publication:
    return ledger.window_folders.of(pinned).publications.all()[number - 1]
