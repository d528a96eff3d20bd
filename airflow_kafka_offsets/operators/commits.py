"""Operators that commit for a consumer group: a window's end, so that Kafka's own tools see the pipeline's progress; or
an instant, a window's end, or an end of the logs, to move the group there."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, get_args

from airflow.providers.common.compat.sdk import BaseOperator

from airflow_kafka_offsets.arguments import HolePolicy, as_name, as_names, check_choice, constant
from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.errors import number_of, shorten
from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook
from airflow_kafka_offsets.ledger.holes import missing_since
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.load_decisions import attempt_of
from airflow_kafka_offsets.ledger.state import Window
from airflow_kafka_offsets.offsets.answers.groups import (
    CommittedOffset,
    CommittedOffsets,
    lies_ahead,
    refuse_commits_past_end,
)
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.specs import IsolationLevel, OffsetSpec
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.operators import failing_fast
from airflow_kafka_offsets.pipelines.log_changes import refuse_changed_topics
from airflow_kafka_offsets.pipelines.resetter import Resetter, Target
from airflow_kafka_offsets.references import WindowRef, WindowRefs, offsets_in
from airflow_kafka_offsets.runs.around import refusal

if TYPE_CHECKING:
    from airflow.sdk import Context

_MOST_COMMITS = 5
"""How often the window's end is committed before the task gives up keeping the group there."""
_PAUSE_S = 1.0
"""Least time after a commit until the group is looked at again."""
_SLOWER = 4
"""How much longer than this task's two requests those of another run are expected to take at most."""


class KafkaCommitOffsetsOperator(BaseOperator):
    """
    Commits the window's end to a consumer group, so that lag tools see the pipeline.

    Each commit carries the offset's own leader epoch (KIP-320), so that a consumer that starts there detects whether an
    unclean leader election has truncated the log since.

    Commits only move forward: if the group has already committed further (because a later window ran first, or this
    one ran before), its commit stays. A second after a commit, the task looks again, and commits once more if a run of
    an earlier window, which committed at the same time, has put the group back. A commit that Kafka takes long to
    accept can still come later; a pool with one slot rules that out. The window must be published, its topics must be
    the ones that were resolved, and the group must have no active members.

    By default, the group isn't moved past offsets that no published window has, because they would never be read. A
    group without commits starts at the first pinned window.

    :param window: what ``KafkaResolveWindowOperator`` returned; or a list of it, whose windows must all be published:
        then the group is moved to the end of the last one of each pipeline. (templated)
    :param group: group id. (templated)
    :param on_hole: what to do about offsets between the group's commits and this window that no published window has,
        pinned or not: ``fail`` (default), so that a retry succeeds once they are loaded; or ``warn``.

    XCom: ``{"group": "...", "committed": 5, "kept": 1}``; both numbers count partitions.
    """

    template_fields: Sequence[str] = ("window", "group")
    ui_color = "#e8f4e0"

    def __init__(
        self,
        *,
        window: Any,
        group: str,
        on_hole: HolePolicy = "fail",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.window = window
        self.group = group
        self.on_hole = on_hole
        WindowRef.check(window)
        as_name(constant(group, "group"), "group")
        check_choice("on_hole", on_hole, *get_args(HolePolicy))

    @failing_fast()
    def execute(self, context: Context) -> dict[str, Any]:
        as_name(self.group, "group")
        refs = WindowRefs.from_json(self.window)
        last = self._last(refs) if refs.refs else {}
        manifests = [ledger.pinned(window).manifest for ledger, window in last.items()]
        if not manifests:
            self.log.info("There is no window to commit")
            return {"group": self.group, "committed": 0, "kept": 0}
        ends = _ends(manifests)
        with refs.hook().get_conn() as client:
            for manifest in manifests:
                refuse_changed_topics(client, manifest)
            commits = self._commits(client, ends)
            ahead = _behind(ends, commits)
            if len(ahead):
                for ledger, window in last.items():
                    self._look_for_holes(context, ledger, window, commits)
            committed = self._go_forward(client, client.own_epochs(ahead).raise_for_errors(), manifests)
        kept = len(ends) - len(committed)
        self.log.info(
            "Group %s: committed %s; %s already there or further",
            self.group,
            number_of(len(committed), "partition"),
            kept,
        )
        return {"group": self.group, "committed": len(committed), "kept": kept}

    def _last(self, refs: WindowRefs) -> dict[Ledger, Window]:
        """The last window of each pipeline, by time: whatever lies before it is a hole, or is loaded.

        :raises UnprovenError: when one of the windows isn't published.
        """
        last: dict[Ledger, Window] = {}
        for each in refs.wanted():
            if each.window.publication is None:
                raise each.unpublished()
            before = last.get(each.ledger)
            if before is None or before.end_ms < each.window.end_ms:
                last[each.ledger] = each.window
        return last

    def _go_forward(
        self, client: OffsetsClient, ends: CommittedOffsets, manifests: Sequence[Manifest]
    ) -> set[TopicPartition]:
        """Commit the window's end where the group is behind it, and look again, until it stays.

        Reading the group's commits and writing them are two requests. A run of an earlier window may have read them
        before this one wrote, and put the group back since. Its two requests follow each other at once, so they are
        over by the time this one looks again, unless its commit had to be repeated.

        :returns: the partitions that were committed.
        """
        # Brokers that support topic ids check themselves that the topics are still the ones that were loaded.
        topic_ids = {
            topic: facts.topic_id
            for manifest in manifests
            for topic, facts in manifest.topics.items()
            if facts.topic_id is not None
        }
        done: set[TopicPartition] = set()
        for _ in range(_MOST_COMMITS if len(ends) else 0):
            started_s = time.monotonic()
            (now,) = client.committed_offsets({self.group: ends.partitions()}).raise_for_errors()
            at = _offsets(now.offsets)
            behind = _behind(ends if not done else ends.of_keys(at), at)  # deleted isn't put back
            if not len(behind):
                return done
            if done:
                self.log.info("Group %s was put back by another commit: going forward again", self.group)
            client.commit_offsets(self.group, behind, topic_ids=topic_ids).raise_for_errors()
            done.update(behind.partitions())
            time.sleep(max(_PAUSE_S, _SLOWER * (time.monotonic() - started_s)))
        if done:
            self.log.warning("Group %s was put back %s times: something else moves it", self.group, _MOST_COMMITS - 1)
        return done

    def _commits(self, client: OffsetsClient, ends: CommittedOffsets) -> dict[TopicPartition, int]:
        """The group's committed offsets; partitions without a commit are left out."""
        partitions = ends.partitions()
        (found,) = client.committed_offsets({self.group: partitions}).raise_for_errors()
        # A commit made in a log that has been replaced says nothing about the group's position in this one.
        refuse_commits_past_end(found.offsets, client.log_extents(partitions).raise_for_errors(), self.group)
        return _offsets(found.offsets)

    def _look_for_holes(
        self, context: Context, ledger: Ledger, window: Window, commits: dict[TopicPartition, int]
    ) -> None:
        holes = list(missing_since(ledger, commits, window))
        if holes and self.on_hole == "fail":
            assert window.publication is not None, "it was checked"
            who = attempt_of(window, window.publication.attempt).who
            raise refusal(context, who, window.name, holes)
        for hole in holes:
            self.log.warning("Group %s is moved past offsets that no published window has: %s", self.group, hole)


def _offsets(commits: CommittedOffsets) -> dict[TopicPartition, int]:
    """Committed offsets by partition; partitions without a commit are left out."""
    return {TopicPartition.of(commit): commit.offset for commit in commits if commit.offset is not None}


def _ends(manifests: Sequence[Manifest]) -> CommittedOffsets:
    """The ends of windows as commits, with the leader epochs that the ledger has seen them under. Where pipelines share
    a partition, the furthest one."""
    ends = (
        CommittedOffset(each.topic, each.partition, each.end_offset, each.end_leader_epoch, manifest.window)
        for manifest in manifests
        for each in manifest.ranges
    )
    return CommittedOffsets(sorted(ends, key=lambda end: end.offset or 0))  # of two for a partition, the last one stays


def _behind(ends: CommittedOffsets, commits: dict[TopicPartition, int]) -> CommittedOffsets:
    """The ends on the partitions where the group is behind them."""
    return ends.of_keys(
        TopicPartition.of(each)
        for each in ends
        if each.offset is not None and lies_ahead(commits, TopicPartition.of(each), each.offset)
    )


class KafkaResetOffsetsOperator(BaseOperator):
    """
    Moves a consumer group: commits where it is to go on reading.

    Each commit carries the offset's own leader epoch (KIP-320), if leaders can tell it. A group with active members is
    refused, and so is everything if one partition is in error. A partition whose records at a window's end are deleted,
    or that was added after the window, goes to its log start.

    :param group: group id. (templated)
    :param to: ``earliest``, ``latest``, an instant in ISO-8601 with a time zone (the first record at or after it), or
        what ``KafkaResolveWindowOperator`` or ``KafkaOffsetSnapshotOperator`` returned: a window's end, or a snapshot.
        (templated)
    :param topics: all partitions of these topics; by default the topics of the window, else those that the group has
        commits on. (templated)
    :param backwards: move commits back too. By default, those that are further already stay.
    :param new_group: create the group if it doesn't exist.
    :param isolation_level: which log end ``latest`` means: ``read_committed`` (default) or ``read_uncommitted``.
    :param kafka_conn_id: Airflow connection. (templated)

    XCom: ``{"group": "...", "committed": 5, "kept": 1}``; both numbers count partitions.
    """

    template_fields: Sequence[str] = ("group", "to", "topics", "kafka_conn_id")
    ui_color = "#e8f4e0"

    def __init__(
        self,
        *,
        group: str,
        to: Any,
        topics: str | list[str] | None = None,
        backwards: bool = False,
        new_group: bool = False,
        isolation_level: str = IsolationLevel.READ_COMMITTED,
        kafka_conn_id: str = KafkaOffsetsHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.group = group
        self.to = to
        self.topics = topics
        self.backwards = backwards
        self.new_group = new_group
        self.isolation_level = isolation_level
        self.kafka_conn_id = kafka_conn_id
        as_name(constant(group, "group"), "group")
        if isinstance(to, str | datetime):
            _spec(constant(to, "latest"))
        if topics is not None:
            as_names(constant(topics, "topic"), "topics")
        IsolationLevel.of(isolation_level)

    @failing_fast()
    def execute(self, context: Context) -> dict[str, Any]:
        target, group = self._target(), as_name(self.group, "group")
        topics = None if self.topics is None else as_names(self.topics, "topics")
        level = IsolationLevel.of(self.isolation_level)
        with KafkaOffsetsHook(self.kafka_conn_id).get_conn() as client:
            resetter = Resetter(client, group, topics, level, self.backwards)
            plan = resetter.plan(target)
            resetter.execute(plan, new_group=self.new_group)
        committed = len(plan.commits())
        remarks = [f"{step.topic}-{step.partition}: {step.remark}" for step in plan if step.remark]
        told = f"; {shorten(remarks)}" if remarks else ""
        self.log.info("Group %s: committed %s of %s partitions%s", group, committed, len(plan), told)
        return {"group": group, "committed": committed, "kept": len(plan) - committed}

    def _target(self) -> Target:
        return _spec(self.to) if isinstance(self.to, str | datetime) else offsets_in(self.to, "to")


def _spec(to: str | datetime) -> OffsetSpec:
    return OffsetSpec.parse(to) if isinstance(to, str) else OffsetSpec.at(to)
