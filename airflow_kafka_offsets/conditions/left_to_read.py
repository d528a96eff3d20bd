"""Left to read: which partitions have a visible record left, and not transaction markers or aborted records alone.

Shared by all conditions that count offsets (E12, E13). The logs are read from where the group, or the new data, stands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from airflow_kafka_offsets.conditions.questions import Asking, Records, ask
from airflow_kafka_offsets.errors import OffsetsError
from airflow_kafka_offsets.offsets.answers.records import FirstRecords
from airflow_kafka_offsets.offsets.groups.lag_policies import Behind
from airflow_kafka_offsets.offsets.specs import IsolationLevel

_CAN_NOT_READ = {
    "TOPIC_AUTHORIZATION_FAILED": "without the ACL Read",
    "MESSAGE_TOO_LARGE": "past a batch that unpacks to too much",
    "UNSUPPORTED_COMPRESSION_TYPE": "without their codecs (pip install 'airflow-kafka-offsets[codecs]')",
}
"""Errors with which offsets are still counted, as an upper bound on records."""


@dataclass(frozen=True, slots=True)
class LeftToRead:
    """What reading has found out.

    :param records: what was read.
    :param unreadable: topics that can't be read, and why, in words.
    """

    records: FirstRecords = field(default_factory=FirstRecords)
    unreadable: tuple[str, ...] = ()

    def is_clear(self, behind: Behind) -> bool:
        """Whether it is known that nothing is left to read, and nothing was lost."""
        return not behind.lost and self.records.nothing_before(behind.position, behind.end_offset)

    def remark(self) -> str:
        """For the end of a summary; empty when all could be read."""
        return f"; transaction markers count too on {', '.join(self.unreadable)}" if self.unreadable else ""


def read_left(
    groups: Sequence[Sequence[Behind]], isolation_level: IsolationLevel, allowed: Callable[[Sequence[Behind]], bool]
) -> Asking[LeftToRead]:
    """Within a check: read where that may make the difference.

    First on the partition of each group that is furthest behind: mostly there is a record, and that settles it.

    :param groups: the partitions that each group is behind on.
    :param allowed: whether being behind on just these would be good enough.
    :raises OffsetsError: when a log can't be read for a reason that may pass.
    """
    doubtful = [each for each in groups if each and not allowed(each)]
    furthest = [max(each, key=lambda one: one.lag) for each in doubtful]
    first = yield from read_at(furthest, isolation_level)
    rest = [
        one
        for each, top in zip(doubtful, furthest, strict=True)
        if first.is_clear(top) or allowed([top])
        for one in each
        if one is not top
    ]
    more = yield from read_at(rest, isolation_level)
    unreadable = tuple(sorted({*first.unreadable, *more.unreadable}))
    return LeftToRead(FirstRecords([*first.records, *more.records]), unreadable)


def read_at(behind: Sequence[Behind], isolation_level: IsolationLevel) -> Asking[LeftToRead]:
    """Within a check: read all of these.

    :raises OffsetsError: when a log can't be read for a reason that may pass.
    """
    if not behind:
        return LeftToRead()
    wanted = ((None, each.position) for each in behind)
    records = (yield from ask(Records.about(wanted, isolation_level=isolation_level)))[None]
    failures = [(what, error) for what, error in records.failures() if error.name not in _CAN_NOT_READ]
    if failures:
        raise OffsetsError("Reading from where the group stands", failures)
    why = {f"{each.topic} {_CAN_NOT_READ[each.error.name]}" for each in records if each.error is not None}
    return LeftToRead(records, tuple(sorted(why)))
