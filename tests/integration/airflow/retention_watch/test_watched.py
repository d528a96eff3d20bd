"""What the retention watch looks at: all that is not loaded, and what has gone from it."""

from __future__ import annotations

from contextlib import closing
from datetime import timedelta
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from kafka import KafkaAdminClient, KafkaProducer, TopicPartition

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.errors import LogTruncatedError, TopicChangedError
from airflow_kafka_offsets.kafka_pipeline import KafkaPipeline
from airflow_kafka_offsets.ledger import load_decisions
from airflow_kafka_offsets.ledger.holes import holes_of
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.verification import verify
from airflow_kafka_offsets.offsets.instants import iso_instant, now_ms, parse_instant
from airflow_kafka_offsets.operators.resolve import KafkaOffsetSnapshotOperator
from airflow_kafka_offsets.page.overview import overview
from dev.kafka import Broker
from tests.integration.airflow.conftest import Context, Publish, Resolve, Run, fails_with, recreate
from tests.integration.airflow.retention_watch.conftest import DAY, HOUR_MS, MakeTopic, Write
from tests.integration.airflow.retention_watch.logs import Watch, store
from tests.integration.airflow.windows.conftest import Increment
from tests.integration.kafka_clients import connect
from tests.patience import PATIENCE_S


class TestBacklog:
    def test_without_windows_it_starts_at_the_newest_snapshot(
        self, topic: MakeTopic, write: Write, watch: Watch, context: Context
    ) -> None:
        name, at_ms = topic(DAY), now_ms()
        write(name, [at_ms] * 3)
        KafkaOffsetSnapshotOperator(task_id="s", pipeline=KafkaPipeline("loads", name)).execute(context)
        write(name, [at_ms + 1] * 2)
        (backlog,) = watch()
        assert (backlog["offsets"], backlog["loses_at"]) == (2, iso_instant(at_ms + 1 + 24 * HOUR_MS))

    def test_records_of_an_open_transaction_belong_to_it(
        self, topic: MakeTopic, watch: Watch, context: Context, deleting: Broker
    ) -> None:
        """E13: the last stable offset stands still, and retention doesn't wait for it."""
        name, at_ms = topic(DAY), now_ms()
        KafkaOffsetSnapshotOperator(task_id="s", pipeline=KafkaPipeline("loads", name)).execute(context)
        options = {"bootstrap_servers": deleting.bootstrap_servers, "transactional_id": name}
        with closing(KafkaProducer(**options)) as producer:
            producer.init_transactions()
            producer.begin_transaction()
            producer.send(name, partition=0, value=b"x", timestamp_ms=at_ms).get(PATIENCE_S)
            (backlog,) = watch()
            producer.abort_transaction()
        assert (backlog["offsets"], backlog["loses_at"]) == (1, iso_instant(at_ms + 24 * HOUR_MS))

    def test_of_a_topic_that_has_begun_anew_it_has_all(
        self,
        topic: MakeTopic,
        write: Write,
        increment: Increment,
        watch: Watch,
        admin: KafkaAdminClient,
        run: Run,
    ) -> None:
        """S16: by a restart; what was left of the old one nobody can load."""
        name, at_ms = topic(DAY), now_ms()
        write(name, [at_ms] * 3)
        increment(name, "run-1")
        recreate(admin, name)
        write(name, [at_ms + 1] * 2)
        assert run("ledger", "restart", "loads")[0] == 0
        assert [(each["window"], each["offsets"]) for each in watch()] == [("backlog", 2)]

    def test_of_a_window_of_two_topics_there_is_what_the_one_that_stays_has(
        self, topic: MakeTopic, write: Write, increment: Any, watch: Watch, admin: KafkaAdminClient, run: Run
    ) -> None:
        """S16: the other one's log is a shorter one now, which is no truncation."""
        names, at_ms = sorted([topic(DAY), topic(DAY)]), now_ms()
        for name in names:
            write(name, [at_ms] * 3)
        window = increment(names, "run-1")["window"]
        recreate(admin, names[0])
        assert run("ledger", "restart", "loads")[0] == 0
        assert [(each["window"], each["topic"], each["offsets"]) for each in watch()] == [(window, names[1], 3)]

    def test_partitions_that_were_added_belong_to_it_from_their_start(
        self, topic: MakeTopic, write: Write, resolve: Resolve, watch: Watch, admin: KafkaAdminClient, deleting: Broker
    ) -> None:
        """E23"""
        name, at_ms = topic(DAY), now_ms()
        resolve(name, iso_instant(at_ms - 10), iso_instant(at_ms))
        admin.create_partitions({name: 2})
        with closing(connect(KafkaProducer, bootstrap_servers=deleting.bootstrap_servers)) as producer:
            producer.send(name, partition=1, value=b"x", timestamp_ms=at_ms)
        (backlog,) = watch()
        assert (backlog["partition"], backlog["offsets"]) == (1, 1)


class TestABackfillBeforeWhatIsPublished:
    """Watch, page and verification go by one rule: from the first window that is known."""

    def test_page_watch_and_verification_say_from_when_on_records_are_not_loaded_and_what_no_window_has(
        self, topic: MakeTopic, write: Write, resolve: Resolve, publish: Publish, watch: Watch, ledger: Ledger
    ) -> None:
        """A record for each hour. Hours 0 and 3 are pinned, 8 is published, and no window has 1, 2 and 4 to 7."""
        name, first_ms = topic(DAY), now_ms() - 12 * HOUR_MS
        hours = [first_ms + hour * HOUR_MS for hour in range(11)]
        write(name, hours)
        windows = {hour: resolve(name, iso_instant(hours[hour]), iso_instant(hours[hour + 1])) for hour in (8, 0, 3)}
        publish(windows[8])
        self.agree(ledger, watch(), hours[0], {hours[1]: 2, hours[4]: 4}, [windows[0], windows[3]])
        publish(windows[0])
        self.agree(ledger, watch(), hours[1], {hours[1]: 2, hours[4]: 4}, [windows[3]])
        ledger.change(lambda state: load_decisions.reload(state, [windows[0]["window"]]))
        self.agree(ledger, watch(), hours[0], {hours[1]: 2, hours[4]: 4}, [windows[0], windows[3]])

    @staticmethod
    def agree(
        ledger: Ledger, told: list[dict[str, Any]], since_ms: int, holes: dict[int, int], late: list[dict[str, Any]]
    ) -> None:
        """All three say it.

        :param told: what the watch says.
        :param holes: for each hole's start, how many offsets it has.
        """
        ledger.read()
        shown, claims = overview(ledger), verify(ledger)
        losses = [parse_instant(each["loses_at"]) for each in told]
        assert (shown["unloaded_from_ms"], shown["unloaded_from_ms"] + shown["retention_ms"]) == (since_ms, min(losses))
        words = [hole["words"] for hole in shown["holes"]]
        assert words == [claim.found for claim in claims if claim.claim == "hole" and not claim.holds]
        assert sum(each.unpinned for each in holes_of(ledger)) == sum(holes.values())
        missing = {each["window"]: each["offsets"] for each in told if each["window"].startswith("hole")}
        assert missing == {f"hole from {iso_instant(start_ms)}": count for start_ms, count in holes.items()}
        names = [each["window"] for each in late]
        assert [each["window"] for each in told if each["window"][0].isdigit()] == names
        assert all(name in "".join(claim.found for claim in claims if not claim.window) for name in names)

    def test_a_hole_of_which_nothing_is_left_is_no_longer_watched(
        self,
        topic: MakeTopic,
        write: Write,
        resolve: Resolve,
        publish: Publish,
        watch: Watch,
        admin: KafkaAdminClient,
    ) -> None:
        name, first_ms = topic(DAY), now_ms() - 12 * HOUR_MS
        hours = [first_ms + hour * HOUR_MS for hour in range(5)]
        write(name, hours)
        for hour in (0, 3):
            publish(resolve(name, iso_instant(hours[hour]), iso_instant(hours[hour + 1])))
        for deleted, lost in ((2, [1]), (3, [])):
            admin.delete_records({TopicPartition(name, 0): deleted})
            assert [each["lost"] for each in watch() if each["window"] != "backlog"] == lost


class TestLost:
    """E9, E10"""

    def test_what_is_gone_is_counted_and_fails_the_task_if_it_was_asked_to(
        self, topic: MakeTopic, write: Write, resolve: Resolve, watch: Watch, admin: KafkaAdminClient
    ) -> None:
        name, at_ms = topic(DAY), now_ms()
        write(name, [at_ms - 10 + n for n in range(10)])
        resolve(name, iso_instant(at_ms - 10), iso_instant(at_ms))
        admin.delete_records({TopicPartition(name, 0): 3})
        (window,) = watch()
        assert (window["lost"], window["offsets"]) == (3, 10)
        assert window["loses_at"] == iso_instant(at_ms - 7 + 24 * HOUR_MS)
        with pytest.raises(AirflowFailException, match=rf"have lost records.*{name}-0 \(3 of 10 offsets gone; next"):
            watch(fail_within=timedelta(minutes=5))

    def test_what_goes_within_the_time_fails_the_task_and_what_goes_later_does_not(
        self, topic: MakeTopic, write: Write, resolve: Resolve, watch: Watch
    ) -> None:
        name, at_ms = topic(DAY), now_ms()
        write(name, [at_ms - 10 + n for n in range(10)])
        resolve(name, iso_instant(at_ms - 10), iso_instant(at_ms))
        assert len(watch(fail_within=timedelta(hours=23))) == 1
        with pytest.raises(AirflowFailException, match=r"within 24 hours: .*not before .* Load them now"):
            watch(fail_within=timedelta(hours=24))

    def test_a_topic_that_was_recreated_has_lost_all_of_it(
        self, topic: MakeTopic, write: Write, resolve: Resolve, watch: Watch, admin: KafkaAdminClient
    ) -> None:
        """E24, S16"""
        name, at_ms = topic(DAY), now_ms()
        write(name, [at_ms - 10 + n for n in range(10)])
        resolve(name, iso_instant(at_ms - 10), iso_instant(at_ms))
        recreate(admin, name)
        with pytest.raises(AirflowFailException, match="was re-created") as failed:
            watch()
        assert fails_with(TopicChangedError, failed)


class TestTruncated:
    """S15: a log that ends before what is pinned has lost its end, and that is no backlog of nothing."""

    def test_below_the_end_of_what_is_stored_fails_the_task(
        self, topic: MakeTopic, write: Write, watch: Watch, client: OffsetsClient, ledger: Ledger
    ) -> None:
        name = topic(DAY)
        write(name, [now_ms()] * 2)
        store(client, ledger, name, 3)
        with pytest.raises(
            AirflowFailException, match=rf"{name}-0 now ends at 2, before offset 3 of the snapshot"
        ) as failed:
            watch()
        assert fails_with(LogTruncatedError, failed)
