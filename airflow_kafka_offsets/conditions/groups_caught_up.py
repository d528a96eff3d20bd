"""Groups caught up: every group has read all there is to read on all partitions of its topics.

When transactions leave markers and aborted records at a log's end, no consumer's commit ever makes lag zero (E12, E13).
So if only the arithmetic on offsets stands in the way, the log is read from the committed offset.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, ClassVar, Literal, Self, TypeAlias

from airflow_kafka_offsets.arguments import as_milliseconds, as_names, check_choice, check_count, refuse_text
from airflow_kafka_offsets.client.routing.metadata import partitions_of
from airflow_kafka_offsets.conditions.condition import Answers, Condition, Lags, LagsOn, Progress, Topics
from airflow_kafka_offsets.conditions.left_to_read import (
    Behind,
    is_clear,
    left_to_read,
    note_unread,
    out_of_order,
    read_from,
    refuse_commits_of_other_logs,
    worst,
)
from airflow_kafka_offsets.errors import ConditionFailedError, OffsetsError, number_of, shorten
from airflow_kafka_offsets.offsets.answers.records import FirstRecord, FirstRecords, RecordAges
from airflow_kafka_offsets.offsets.instants import duration_text
from airflow_kafka_offsets.offsets.lag import GroupLag, GroupLags, LagStatus, PartitionLag
from airflow_kafka_offsets.offsets.measures import Measure
from airflow_kafka_offsets.offsets.specs import IsolationLevel

NoCommit = Literal["from_log_start", "wait", "ignore"]
"""How a partition without a commit counts (E18)."""
Ages: TypeAlias = Mapping[str, Mapping[str, RecordAges]]
"""How old the oldest unread record is, by group and topic."""


@dataclass(frozen=True, slots=True)
class GroupStanding:
    """How far behind a group is.

    :param behind: the partitions that it is behind on.
    :param uncommitted: how many of the partitions that count it never committed on.
    :param why_unknown: why its total is unknown, in words; empty when it is known.
    :param topics: the topics with a partition that counts, unordered.
    """

    group: str
    behind: tuple[Behind, ...] = ()
    uncommitted: int = 0
    why_unknown: str = ""
    topics: tuple[str, ...] = ()

    @property
    def total(self) -> int | None:
        """Offsets that it is behind; None when unknown."""
        return None if self.why_unknown else sum(partition.lag for partition in self.behind)

    @property
    def lost(self) -> int:
        """Offsets that were deleted before it read them."""
        return sum(partition.lost for partition in self.behind)


@dataclass(frozen=True, slots=True)
class GroupsCaughtUp(Condition):
    """Every group is within the limits on all partitions of its topics, ``stable_polls`` times in a row.

    Arguments are those of :class:`~airflow_kafka_offsets.sensors.group_sensors.KafkaGroupLagSensor`. None means no such
    limit or, for topics, all topics that a group has committed on or reads. ``no_commit`` (E18) says how partitions
    without a commit count, including empty ones; an unknown group (E19) and a commit ahead of its log (E17, S15) never
    pass.

    :param max_age_ms: in milliseconds, by the first unread record's timestamp and this machine's clock. An unknown age,
        because records were deleted or a timestamp is missing or in the future, is over any limit.
    """

    kind: ClassVar[str] = "groups_caught_up"

    groups: tuple[str, ...]
    topics: tuple[str, ...] | None = None
    max_lag: int | None = None
    max_age_ms: int | None = None
    no_commit: NoCommit = "from_log_start"
    unknown_group: Literal["fail", "wait"] = "fail"
    stable_polls: int = 1
    isolation_level: IsolationLevel = IsolationLevel.READ_COMMITTED

    @classmethod
    def given(cls, groups: Any, topics: Any, *, max_age: timedelta | float | None = None, **others: Any) -> Self:
        """From a user's arguments: names, one or several; topics or None; a timedelta or seconds."""
        names = None if topics is None else as_names(topics, "topics")
        return cls(as_names(groups, "groups"), names, max_age_ms=as_milliseconds(max_age, "max_age"), **others)

    def __post_init__(self) -> None:
        refuse_text("groups", self.groups)
        if self.topics is not None:
            refuse_text("topics", self.topics)
        check_count(self.max_lag, "max_lag")
        check_count(self.max_age_ms, "max_age_ms")
        check_count(self.stable_polls, "stable_polls", least=1)
        check_choice("no_commit", self.no_commit, "from_log_start", "wait", "ignore")
        check_choice("unknown_group", self.unknown_group, "fail", "wait")

    @property
    def awaited(self) -> str:
        limits = []
        if (limit := self._limit()) is not None:
            limits.append(f"at most {number_of(limit, 'offset')} behind")
        if self.max_age_ms is not None:
            limits.append(f"behind by no record older than {duration_text(self.max_age_ms / 1000)}")
        groups = "each group is" if len(self.groups) > 1 else "the group is"
        repeated = f", {self.stable_polls} polls in a row" if self.stable_polls > 1 else ""
        return f"{groups} {' and '.join(limits)}{repeated}"

    @property
    def group_ids(self) -> tuple[str, ...]:
        return self.groups

    @property
    def topic_names(self) -> tuple[str, ...]:
        return self.topics or ()

    def judge(self, answers: Answers) -> Progress:
        lags = self.lags(answers)
        groups = [self.standing(lag) for lag in lags]
        known = [group.behind for group in groups if group.total is not None]
        left = left_to_read(known, self.isolation_level, self._allows, answers)
        groups = [
            replace(group, behind=tuple(each for each in group.behind if not is_clear(each, left))) for group in groups
        ]
        by_topic = self._ages(groups, answers)
        ages = {group: RecordAges.together(topics.values()) for group, topics in by_topic.items()}
        fits = all(group.total is not None and self._allows(group.behind) for group in groups)
        done = fits and all(self._is_young(age) for age in ages.values())
        summary = "; ".join(
            _describe(group, ages.get(group.group)) + (f"; {lag.remark}" if lag.remark else "")
            for group, lag in zip(groups, lags, strict=True)
        )
        summary += "" if done else note_unread(left)
        totals = [group.total for group in groups]
        remaining = None if None in totals else sum(total or 0 for total in totals)
        measures = tuple(_measures(groups, by_topic))
        return Progress(done, summary, self._result(groups, ages), remaining, measures=measures)

    def lags(self, answers: Answers) -> GroupLags:
        if self.topics is None:
            return answers[Lags.of(self.groups, self.isolation_level)]
        partitions = tuple(partitions_of(answers[Topics.of(self.topics)].raise_for_errors()))
        return answers[LagsOn.of(((group, partitions) for group in self.groups), self.isolation_level)]

    def standing(self, lag: GroupLag) -> GroupStanding:
        """How far behind a group is, by the policies, going by offsets alone.

        :raises ConditionFailedError: when a policy says so.
        :raises OffsetsError: when the group or a partition that counts is in error.
        """
        if lag.no_such_group:
            if self.unknown_group == "wait":
                return GroupStanding(lag.group, why_unknown="doesn't exist yet")
            raise ConditionFailedError(
                f"Group {lag.group} doesn't exist (GROUP_ID_NOT_FOUND). Is it misspelt, or not started yet? "
                "unknown_group='wait' waits for it."
            )
        if lag.never_committed:
            return GroupStanding(lag.group, why_unknown="has committed nothing yet")
        if lag.error is not None:
            raise OffsetsError("Measuring lag", [(f"group {lag.group}", lag.error)])
        if lag.total == 0 and self.no_commit == "from_log_start":
            # Most polls of most groups end here, without looking at any partition.
            return GroupStanding(lag.group, topics=tuple(lag.topics))
        return self._judge_partitions(lag, list(lag.partitions))

    def _judge_partitions(self, lag: GroupLag, partitions: list[PartitionLag]) -> GroupStanding:
        group = lag.group
        failures = [(f"group {group} on {own.topic}-{own.partition}", own.error) for own in partitions if own.error]
        if failures:
            raise OffsetsError("Measuring lag", failures)
        refuse_commits_of_other_logs(group, partitions)
        uncommitted = [partition for partition in partitions if partition.status is LagStatus.NO_COMMIT]
        why = self._why_unknown(partitions, uncommitted)
        if self.no_commit == "ignore":
            partitions = [partition for partition in partitions if partition.status is not LagStatus.NO_COMMIT]
            uncommitted = []
        behind = tuple(Behind.of(partition, lag.isolation_level) for partition in partitions if partition.lag)
        topics = tuple({partition.topic for partition in partitions})
        return GroupStanding(group, behind, len(uncommitted), why, topics)

    def _why_unknown(self, partitions: list[PartitionLag], uncommitted: list[PartitionLag]) -> str:
        if not partitions:
            return "has members, but they read no partition"
        if self.no_commit == "wait" and uncommitted:
            on = shorten(f"{own.topic}-{own.partition}" for own in uncommitted)
            return f"has no commit on {number_of(len(uncommitted), 'partition')} ({on})"
        return "has committed nothing yet" if self.no_commit == "ignore" and len(uncommitted) == len(partitions) else ""

    def _limit(self) -> int | None:
        return 0 if self.max_lag is None and self.max_age_ms is None else self.max_lag

    def _allows(self, partitions: Sequence[Behind]) -> bool:
        """Whether a group that is behind on these partitions is within the limit on offsets."""
        limit = self._limit()
        return limit is None or sum(behind.lag for behind in partitions) <= limit

    def _is_young(self, age: RecordAges) -> bool:
        """Whether an age is within the limit; an unknown age isn't."""
        return age.known_ms is not None and age.known_ms <= (self.max_age_ms or 0)

    def _ages(self, groups: Iterable[GroupStanding], answers: Answers) -> Ages:
        """The age of the oldest unread record, if there is a limit on it; 0 when all is read.

        Unknown when records were deleted before they were read: nobody knows how old they were.
        """
        if self.max_age_ms is None:
            return {}
        known = [group for group in groups if group.total is not None]
        unread = [(group.group, behind) for group in known if not group.lost for behind in group.behind]
        left = read_from((behind for _, behind in unread), self.isolation_level, answers)
        ages = {
            group.group: dict.fromkeys(group.topics, RecordAges() if group.lost else RecordAges(0)) for group in known
        }
        by_topic: dict[tuple[str, str], list[RecordAges]] = defaultdict(list)
        for name, behind in unread:
            if not is_clear(behind, left):
                by_topic[name, behind.position.topic].append(self._age(behind, left, answers.at_ms))
        for (name, topic), found in by_topic.items():
            ages[name][topic] = RecordAges.together(found)
        return ages

    def _age(self, behind: Behind, records: FirstRecords, now_ms: int) -> RecordAges:
        """The age of the first unread record of a partition. Where a share group may have finished the first record at
        its position, that one's age is the most that it can be: enough to be within the limit."""
        age = RecordAges.to_judge([_first(behind, records)], now_ms)
        if behind.is_in_order or self._is_young(age) or age.unknown:
            return age
        return out_of_order(behind)

    def _result(self, groups: Iterable[GroupStanding], ages: dict[str, RecordAges]) -> dict[str, Any]:
        result: dict[str, Any] = {"groups": {group.group: group.total for group in groups}}
        if (limit := self._limit()) is not None:
            result["max_lag"] = limit
        if self.max_age_ms is not None:
            in_s = {group: None if (ms := age.known_ms) is None else ms / 1000 for group, age in ages.items()}
            result |= {"max_age_s": self.max_age_ms / 1000, "age_s": in_s}
        return result


def _measures(groups: Iterable[GroupStanding], ages: Ages) -> Iterator[Measure]:
    """Lag by group, and by topic for all topics that count. 0 is reported too, because a gauge keeps its last value."""
    for group in groups:
        if group.total is None:
            continue
        yield Measure("lag_total", group.total, {"group": group.group})
        by_topic = dict.fromkeys(group.topics, 0)
        for behind in group.behind:
            by_topic[behind.position.topic] += behind.lag
        for topic, count in by_topic.items():
            yield Measure("lag", count, {"group": group.group, "topic": topic})
        for topic, age in ages.get(group.group, {}).items():
            if age.known_ms is not None:
                yield Measure("lag_age", age.known_ms / 1000, {"group": group.group, "topic": topic})


def _first(behind: Behind, records: FirstRecords) -> FirstRecord:
    found = records.lookup(*behind.position)
    assert found is not None, "every position was asked for"
    if found.error is not None:
        raise OffsetsError("Reading the first unread record", [(str(behind), found.error)])
    return found


def _describe(group: GroupStanding, age: RecordAges | None) -> str:
    if group.why_unknown:
        return f"{group.group} {group.why_unknown}"
    text = f"{group.group} is {group.total} behind"
    if group.behind:
        text += f" ({worst(group.behind)})"
    if group.behind and group.uncommitted:
        text += f"; it has no commit on {group.uncommitted} partitions"
    if group.lost:
        text += f"; {group.lost} offsets were deleted before it read them, so their age is unknown"
    if age is not None and age.oldest_ms:
        text += f"; its oldest unread record is {duration_text(age.oldest_ms / 1000)} old"
    return text + ("" if age is None else age.note("its unread records"))
