"""Log ends found: the cluster has said where logs end, so that a group can be waited for to reach just that.

Comes before :mod:`.offsets_reached` where the target is the logs' ends. The cluster may not answer when the task
begins, and the task shouldn't hold a worker until it does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from airflow_kafka_offsets.client.routing.metadata import partitions_of
from airflow_kafka_offsets.conditions.condition import Condition, Progress
from airflow_kafka_offsets.conditions.needs import Answers, Extents, Lags, Topics
from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.offsets.instants import iso_instant
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.windows.fixed_offsets import FixedOffsets


@dataclass(frozen=True, slots=True)
class LogEndsFound(Condition):
    """Where the logs of some topics end is known. The result is these ends, as :class:`FixedOffsets` in JSON.

    :param group: the group that is to reach them.
    :param topics: topic names; None for all topics that the group has committed on or reads.
    :param isolation_level: which records the group reads.
    """

    kind: ClassVar[str] = "log_ends_found"
    sensor: ClassVar[None] = None
    awaited_in_general: ClassVar[str] = "Kafka has said where the logs end"

    group: str
    topics: tuple[str, ...] | None = None
    isolation_level: IsolationLevel = IsolationLevel.READ_COMMITTED

    def __post_init__(self) -> None:
        if not self.group:
            raise ConfigurationError("Name the group to wait for; group is empty.")

    @property
    def awaited(self) -> str:
        return "Kafka has said where the logs end, which the group then has to reach"

    @property
    def group_ids(self) -> tuple[str, ...]:
        return (self.group,)

    @property
    def topic_names(self) -> tuple[str, ...]:
        return self.topics or ()

    def judge(self, answers: Answers) -> Progress:
        topics = self._touched(answers) if self.topics is None else self.topics
        metadata = answers[Topics.of(topics)].raise_for_errors()
        extents = answers[Extents.of(partitions_of(metadata))]
        source = f"the log end at {iso_instant(answers.at_ms)}"
        found = FixedOffsets.of_ends(source, extents, self.isolation_level, metadata.cluster_id, metadata.topic_ids)
        return Progress(True, f"found {source}", found.to_json(), ends=found)

    def _touched(self, answers: Answers) -> list[str]:
        (lag,) = answers[Lags.of([self.group], self.isolation_level)].raise_for_errors()
        if lag.no_such_group:
            raise ConfigurationError(
                f"Group {self.group} doesn't exist (GROUP_ID_NOT_FOUND), so what it reads is unknown. Is it "
                "misspelt, or not started yet?"
            )
        return lag.partitions.topics()
