"""Commits of windows on a real broker: a group goes forward, never back, whoever else commits."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from kafka import KafkaAdminClient

from airflow_kafka_offsets.client.connection.settings import ClientSettings
from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.errors import LogTruncatedError, TopicChangedError
from airflow_kafka_offsets.offsets.answers.groups import CommittedOffsets
from airflow_kafka_offsets.operators import commits
from airflow_kafka_offsets.operators.commits import KafkaCommitOffsetsOperator
from dev.kafka import Broker
from tests.integration.airflow.conftest import Commit, Context, Publish, Resolve, at, fails_with, recreate
from tests.patience import PATIENCE_S

Pausing = Callable[[Callable[[], None]], None]


class TestCommit:
    def commit(self, window: dict[str, Any], topic: str) -> KafkaCommitOffsetsOperator:
        return KafkaCommitOffsetsOperator(task_id="c", window=window, group=f"g-{topic}")

    def committed(self, broker: Broker, group: str) -> list[int | None]:
        with OffsetsClient(ClientSettings.from_config({"bootstrap.servers": broker.bootstrap_servers})) as client:
            return self.stands_at(client, group)

    @pytest.fixture
    def pausing(self, monkeypatch: pytest.MonkeyPatch) -> Pausing:
        """Says what happens in the task's pause after each commit, which then takes no time."""

        def during(happens: Callable[[], None]) -> None:
            clock = SimpleNamespace(monotonic=time.monotonic, sleep=lambda _: happens())
            monkeypatch.setattr(commits, "time", clock)

        return during

    def stands_at(self, client: OffsetsClient, group: str) -> list[int | None]:
        (found,) = client.committed_offsets({group: None}).raise_for_errors()
        return [each.offset for each in found.offsets]

    def test_the_end_of_the_window_is_committed(
        self, ten: str, resolve: Resolve, context: Context, broker: Broker, publish: Publish
    ) -> None:
        window = resolve(ten, at(2), at(7))
        publish(window)
        assert self.commit(window, ten).execute(context) == {"group": f"g-{ten}", "committed": 1, "kept": 0}
        assert self.committed(broker, f"g-{ten}") == [7]

    def test_an_earlier_window_never_moves_a_group_back(
        self, ten: str, resolve: Resolve, context: Context, broker: Broker, publish: Publish
    ) -> None:
        """A backfill, or a rerun of an old window."""
        late, early = resolve(ten, at(5), at(9)), resolve(ten, at(0), at(5))
        for window in (late, early):
            publish(window)
        self.commit(late, ten).execute(context)
        assert self.commit(early, ten).execute(context) == {"group": f"g-{ten}", "committed": 0, "kept": 1}
        assert self.committed(broker, f"g-{ten}") == [9]

    def test_a_group_that_is_put_back_right_afterwards_is_moved_forward_again(
        self,
        ten: str,
        resolve: Resolve,
        context: Context,
        client: OffsetsClient,
        publish: Publish,
        commit: Commit,
        pausing: Pausing,
    ) -> None:
        """By whatever commits while the task pauses, before it looks again."""
        window, group = resolve(ten, at(0), at(7)), f"g-{ten}"
        publish(window)
        put_back = iter([3])
        stood_at: list[list[int | None]] = []

        def pause() -> None:
            stood_at.append(self.stands_at(client, group))
            for offset in put_back:
                commit(group, ten, offset)

        pausing(pause)
        assert self.commit(window, ten).execute(context) == {"group": group, "committed": 1, "kept": 0}
        assert stood_at == [[7], [7]]
        assert self.stands_at(client, group) == [7]

    def test_runs_that_commit_at_the_same_time_leave_the_group_at_the_newest_window(
        self,
        ten: str,
        resolve: Resolve,
        context: Context,
        client: OffsetsClient,
        publish: Publish,
        pausing: Pausing,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """The earlier window's run has read the group's commits before the newer one's writes, and writes after it."""
        early, late = resolve(ten, at(0), at(5)), resolve(ten, at(5), at(9))
        for window in (early, late):
            publish(window)
        early_has_read, late_has_written, early_has_written = Event(), Event(), Event()
        send = OffsetsClient.commit_offsets

        def in_order(client: OffsetsClient, group: str, ends: CommittedOffsets, **options: Any) -> Any:
            if [each.offset for each in ends] != [5]:
                return send(client, group, ends, **options)
            early_has_read.set()
            assert late_has_written.wait(PATIENCE_S)
            try:
                return send(client, group, ends, **options)
            finally:
                early_has_written.set()

        def pause() -> None:
            late_has_written.set()
            assert early_has_written.wait(PATIENCE_S)

        monkeypatch.setattr(OffsetsClient, "commit_offsets", in_order)
        pausing(pause)
        with ThreadPoolExecutor(1) as threads:
            run = threads.submit(self.commit(early, ten).execute, context)
            assert early_has_read.wait(PATIENCE_S)
            assert self.commit(late, ten).execute(context)["committed"] == 1
            run.result()
        assert self.stands_at(client, f"g-{ten}") == [9]

    def test_a_commit_past_the_end_of_the_log_does_not_stand_further(
        self, ten: str, resolve: Resolve, context: Context, publish: Publish, commit: Commit
    ) -> None:
        """E17: of another log. Taken for further, the group would stay there, and no task would say so."""
        window = resolve(ten, at(2), at(7))
        publish(window)
        commit(f"g-{ten}", ten, 1000)
        with pytest.raises(AirflowFailException, match=rf"{ten}-0 ends at 10, below 1000") as failed:
            self.commit(window, ten).execute(context)
        assert fails_with(LogTruncatedError, failed)

    def test_a_window_that_was_never_published_is_not_committed(
        self, ten: str, resolve: Resolve, context: Context
    ) -> None:
        with pytest.raises(AirflowFailException, match="never published"):
            self.commit(resolve(ten, at(2), at(7)), ten).execute(context)

    def test_a_recreated_topic_gets_no_offsets_of_the_old_one(
        self, ten: str, resolve: Resolve, context: Context, admin: KafkaAdminClient, publish: Publish
    ) -> None:
        """S16."""
        window = resolve(ten, at(2), at(7))
        publish(window)
        recreate(admin, ten)
        with pytest.raises(AirflowFailException, match="re-created") as failed:
            self.commit(window, ten).execute(context)
        assert fails_with(TopicChangedError, failed)
