"""Partitions whose leader is gone, and logs that end earlier with the next one. On a cluster of three brokers."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.errors import LogTruncatedError
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.offsets.answers.groups import CommittedOffset, CommittedOffsets
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.operators.commits import KafkaCommitOffsetsOperator
from airflow_kafka_offsets.pipelines.loads import returned
from airflow_kafka_offsets.pipelines.log_changes import changes, lost_of_each, refuse_rewritten
from dev.cluster import KafkaCluster
from tests.integration.airflow.conftest import Context, Publish, Resolve, Run, at, fails_with
from tests.integration.airflow.windows.cluster.conftest import Cut
from tests.integration.airflow.windows.conftest import Snapshot, evidence, manifest_of, ranges
from tests.integration.ledger.loads import windows_of
from tests.unit.pipelines.reports import complete, recorded


class TestUncleanElection:
    def test_is_found_before_a_load_before_anything_is_recorded_and_before_the_next_window(
        self, cut: Cut, client: OffsetsClient, resolve: Resolve, ledger: Ledger, run: Run
    ) -> None:
        """S15, E27, E28: the new leader's log ends before the window does; what it takes next has the same offsets. A
        restart goes on from where the log was cut."""
        topic = cut.topic
        window = resolve(topic, at(0), at(10))
        assert ranges(window) == [(0, 0, 7)]
        cut.elect()
        with pytest.raises(LogTruncatedError, match=f"{topic}-0 now ends at 3, before offset 7"):
            returned(lost_of_each(client, {0: manifest_of(window)})[0])
        cut.grow(12)
        with pytest.raises(AirflowFailException, match=rf"{topic}-0 was truncated at 3, below 7") as failed:
            resolve(topic, at(10), at(20))
        assert fails_with(LogTruncatedError, failed)
        assert len(windows_of(ledger)) == 1

        cut.grow(13, 14, 15, 16, 17)  # as long as it was, and longer
        with pytest.raises(AirflowFailException, match=rf"{topic}-0 was truncated at 3, below 7") as failed:
            resolve(topic, at(10), at(20))
        assert fails_with(LogTruncatedError, failed)
        with pytest.raises(LogTruncatedError, match=f"{topic}-0 was truncated at 3, below 7"):
            returned(changes(client, {0: manifest_of(window)})[0])
        audited = recorded(ledger, complete(manifest_of(window)), client_factory=lambda: nullcontext(client))
        assert isinstance(audited, LogTruncatedError)
        assert run("ledger", "restart", "loads")[0] == 0
        assert ranges(resolve(topic, at(10), at(20))) == [(0, 3, 9)]

    @pytest.mark.nightly("brokers that die; the test above finds an unclean election")
    def test_is_found_of_a_window_whose_end_was_clamped_though_the_log_has_grown_again(
        self, cut: Cut, client: OffsetsClient, resolve: Resolve, ledger: Ledger
    ) -> None:
        """S15, S2: a backfilled window ends where a later window starts, and under the same leader epoch."""
        resolve(cut.topic, at(10), at(20))
        cut.grow(5)  # late
        window = resolve(cut.topic, at(0), at(8))
        assert (ranges(window), evidence(window)) == ([(0, 0, 7)], [("matched", "clamped")])
        cut.elect()
        cut.grow(12, 13, 14, 15, 16, 17)
        with pytest.raises(LogTruncatedError, match=f"{cut.topic}-0 was truncated at 3, below 7"):
            returned(changes(client, {0: manifest_of(window)})[0])

    @pytest.mark.nightly("brokers that die; the first test finds an unclean election")
    def test_is_found_when_a_window_starts_before_it_however_new_the_start_is(
        self, cut: Cut, resolve: Resolve, ledger: Ledger
    ) -> None:
        """S15: its end is of the log as it is now; what replaced offsets 3 to 6 would be in no window."""
        resolve(cut.topic, at(0), at(10))
        cut.elect()
        cut.grow(12, 13, 14, 15, 16, 17)
        with pytest.raises(AirflowFailException, match=rf"{cut.topic}-0 was truncated at 3, below 7") as failed:
            resolve(cut.topic, at(10), at(20))
        assert fails_with(LogTruncatedError, failed)
        assert len(windows_of(ledger)) == 1


@pytest.mark.nightly("brokers that die; TestUncleanElection finds an unclean election")
class TestSnapshotOfCommits:
    """S15, KIP-320: what the group had read are other records than stand there now."""

    @pytest.fixture
    def committed(self, cut: Cut, client: OffsetsClient) -> str:
        """A group that has committed the end of the log, 7, with its epoch."""
        group = f"g-{cut.topic}"
        (extent,) = client.log_extents([TopicPartition(cut.topic, 0)]).raise_for_errors()
        commit = CommittedOffset(cut.topic, 0, 7, extent.leader_epoch)
        client.commit_offsets(group, CommittedOffsets([commit])).raise_for_errors()
        return group

    def test_has_the_epoch_of_the_commit_which_tells_a_cut_that_came_later(
        self, cut: Cut, committed: str, client: OffsetsClient, snapshot: Snapshot, ledger: Ledger
    ) -> None:
        """So no window is pinned on it, and no group reaches it as a target."""
        taken = snapshot(cut.topic, group=committed)
        cut.elect()
        cut.grow(11, 12, 13, 14, 15, 16)
        with pytest.raises(LogTruncatedError, match=rf"{cut.topic}-0 was truncated at 3, below 7"):
            refuse_rewritten(client, ledger.contents.snapshot(taken["snapshot"]))

    def test_is_refused_after_a_cut(self, cut: Cut, committed: str, snapshot: Snapshot) -> None:
        cut.elect()
        cut.grow(11, 12, 13, 14, 15, 16)
        with pytest.raises(AirflowFailException, match=rf"{cut.topic}-0 was truncated at 3, below 7") as failed:
            snapshot(cut.topic, group=committed)
        assert fails_with(LogTruncatedError, failed)


def first_offset(cluster: KafkaCluster, group: str, topic: str) -> str:
    """What Kafka's own consumer prints of the first record that it reads for a group; nothing where the commit doesn't
    fit the log, as it may not help itself there (LogTruncationException)."""
    return cluster.run_tool(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *("--group", group, "--topic", topic, "--max-messages", "1", "--timeout-ms", "60000"),
        *("--command-property", "auto.offset.reset=none", "--formatter-property", "print.offset=true"),
    )


@pytest.mark.nightly("brokers that die; test_cut_logs.py has commits of a log that was cut")
class TestCommit:
    """E34, KIP-320: by the leader epoch that goes with a commit, consumers tell whether the log is still the one that
    the window was of."""

    @pytest.fixture
    def committed(self, cut: Cut, resolve: Resolve, publish: Publish, context: Context) -> str:
        """A group that stands at the end of a window, offset 7."""
        window = resolve(cut.topic, at(0), at(10))
        publish(window)
        group = f"g-{cut.topic}"
        KafkaCommitOffsetsOperator(task_id="c", window=window, group=group).execute(context)
        return group

    def test_a_consumer_of_the_group_finds_out_that_the_log_was_cut(
        self, cluster: KafkaCluster, cut: Cut, client: OffsetsClient, committed: str
    ) -> None:
        cut.elect()
        cut.grow(12, 13, 14, 15, 16, 17)
        unaware = f"unaware-{cut.topic}"
        client.commit_offsets(unaware, CommittedOffsets([CommittedOffset(cut.topic, 0, 7)])).raise_for_errors()
        assert "Offset:7" in first_offset(cluster, unaware, cut.topic), "without an epoch nobody can tell"
        assert "Offset" not in first_offset(cluster, committed, cut.topic)
