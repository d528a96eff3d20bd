"""Fail when a consumer group is too far behind, stands still, went back, or has no members."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowFailException, BaseOperator

from airflow_kafka_offsets.arguments import as_names, check_choice, constant
from airflow_kafka_offsets.conditions.condition import Outcome, Progress, check_all
from airflow_kafka_offsets.conditions.group_health import Alarm, GroupHealth, GroupPositions
from airflow_kafka_offsets.conditions.groups_caught_up import GroupsCaughtUp, NoCommit
from airflow_kafka_offsets.errors import ClusterError, ConfigurationError, KafkaOffsetsError, in_columns, number_of
from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook
from airflow_kafka_offsets.hooks.metrics import tell
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.operators.pipeline_operator import failing_fast

if TYPE_CHECKING:
    from airflow.sdk import Context

_POSITIONS = "positions"
"""Key in XCom and in a judgement's result: where a group was, for the next run."""
_WATCHED = ("stalled", "rewound", "stopped")


class KafkaLagAlertOperator(BaseOperator):
    """
    Looks at consumer groups once, and fails with one table of those that are over a limit, stand still, went back, or
    have no members.

    ``stalled``: a commit is where it was in the previous run, although there already was a record to read; ``rewound``:
    a commit is lower than in the previous run, or gone; ``stopped``: the group has no members, and something is left to
    read. Groups that only commit, such as those of Flink, never have members, and are never ``stopped``. The first run
    has nothing to compare with. Transaction markers and aborted records at a log's end count nowhere. A group about
    which something is unknown is in the table too (``unknown``).

    :param groups: a group id or several. (templated)
    :param topics: judge only these topics; by default all that a group has committed on or reads. (templated)
    :param max_lag: the most offsets that a group may be behind in total; None for no limit.
    :param max_age: the oldest that the first unread record of a partition may be, a timedelta or seconds; None for no
        limit. An age that nobody can tell is over any limit.
    :param fail_on: those of ``stalled``, ``rewound`` and ``stopped`` that fail the task; by default all. Leave out
        ``stopped`` for a group that reads in batches.
    :param no_commit: how a partition without a commit counts, as for
        :class:`~airflow_kafka_offsets.sensors.group_lag.KafkaGroupLagSensor`.
    :param isolation_level: which records count: ``read_committed`` (default), or ``read_uncommitted``. (templated)
    :param kafka_conn_id: connection id, of type ``kafka`` or ``kafka_offsets``. (templated)

    XCom, also of a failed task: ``{"groups": {"<group>": {"alarms": ["lag"], "lag": 12, "age_s": 3.5}}}``; ``age_s``
    only with ``max_age``; both are None when unknown. Where the groups were is in XCom too, under ``positions``.
    """

    template_fields: Sequence[str] = ("groups", "topics", "isolation_level", "kafka_conn_id")
    ui_color = "#e8f4e0"

    def __init__(
        self,
        *,
        groups: str | list[str],
        topics: str | list[str] | None = None,
        max_lag: int | None = None,
        max_age: timedelta | float | None = None,
        fail_on: Sequence[str] = _WATCHED,
        no_commit: NoCommit = "from_log_start",
        isolation_level: str = IsolationLevel.READ_COMMITTED,
        kafka_conn_id: str = KafkaOffsetsHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.groups = groups
        self.topics = topics
        self.max_lag = max_lag
        self.max_age = max_age
        self.fail_on = fail_on
        self.no_commit = no_commit
        self.isolation_level = isolation_level
        self.kafka_conn_id = kafka_conn_id
        self._watched()
        level = IsolationLevel.of(constant(isolation_level, IsolationLevel.READ_COMMITTED))
        self._limits(constant(groups, "group"), constant(topics, "topic"), level)

    @failing_fast()
    def execute(self, context: Context) -> dict[str, Any]:
        checks = self._checks(_kept_positions(context))
        with KafkaOffsetsHook(self.kafka_conn_id).get_conn() as client:
            outcomes = check_all(client, checks.values())
        found = {group: _known(outcomes[check]) for group, check in checks.items()}
        tell(measure for each in found.values() if isinstance(each, Progress) for measure in each.measures)
        _keep_positions(context, checks, found)
        for group, each in found.items():
            self.log.info("%s: %s", group, _words(group, each))
        result = {"groups": {group: _result(each) for group, each in found.items()}}
        alarmed = {group: each for group, each in found.items() if not isinstance(each, Progress) or not each.done}
        if alarmed:
            context["ti"].xcom_push("return_value", result)  # Airflow pushes none of a task that fails
            raise alert(alarmed, len(found))
        return result

    def _checks(self, kept: Mapping[str, GroupPositions]) -> dict[str, GroupHealth]:
        """What to judge of each group."""
        watched = self._watched()
        limits = self._limits(self.groups, self.topics, IsolationLevel.of(self.isolation_level))
        return {
            group: GroupHealth(replace(limits, groups=(group,)), watched, kept.get(group)) for group in limits.groups
        }

    def _watched(self) -> tuple[str, ...]:
        watched = as_names(self.fail_on, "fail_on") if self.fail_on else ()
        for alarm in watched:
            check_choice("fail_on", alarm, *_WATCHED)
        if self.max_lag is None and self.max_age is None and not watched:
            raise ConfigurationError("There is nothing to alert on: give max_lag, max_age or fail_on.")
        return watched

    def _limits(self, groups: Any, topics: Any, level: IsolationLevel) -> GroupsCaughtUp:
        return GroupsCaughtUp.given(
            groups,
            topics,
            max_lag=self.max_lag,
            max_age=self.max_age,
            no_commit=self.no_commit,
            isolation_level=level,
        )


def _kept_positions(context: Context) -> dict[str, GroupPositions]:
    """Where groups were in the last run that could tell; without those that another version wrote differently."""
    ti = context["ti"]
    kept = ti.xcom_pull(task_ids=ti.task_id, key=_POSITIONS, map_indexes=ti.map_index, include_prior_dates=True)
    found = {}
    for group, fields in kept.items() if isinstance(kept, Mapping) else ():
        with suppress(AttributeError, KeyError, TypeError, ValueError):
            found[group] = GroupPositions.from_json(fields)
    return found


def _keep_positions(context: Context, checks: Mapping[str, GroupHealth], found: Mapping[str, Outcome]) -> None:
    """For the next run. A group about which nothing could be told stays where it was."""
    earlier = {group: check.earlier.to_json() for group, check in checks.items() if check.earlier is not None}
    now = {group: each.result[_POSITIONS] for group, each in found.items() if isinstance(each, Progress)}
    context["ti"].xcom_push(_POSITIONS, earlier | now)


def _known(outcome: Outcome) -> Progress | KafkaOffsetsError:
    """How a group was judged, or why it couldn't be.

    :raises ClusterError: when no group can be judged.
    """
    if isinstance(outcome, Progress) or (
        isinstance(outcome, KafkaOffsetsError) and not isinstance(outcome, ClusterError)
    ):
        return outcome
    raise outcome


def _words(group: str, found: Outcome) -> str:
    """What there is to say of a group, next to its name."""
    return found.summary.removeprefix(f"{group} ") if isinstance(found, Progress) else str(found)


def _result(found: Outcome) -> dict[str, Any]:
    if isinstance(found, Progress):
        return {name: value for name, value in found.result.items() if name != _POSITIONS}
    return {"alarms": [str(Alarm.UNKNOWN)], "lag": None}


def alert(alarmed: Mapping[str, Progress | KafkaOffsetsError], of: int) -> Exception:
    """The error with a table of the groups that something is wrong with; or, if all that is wrong may pass, the first
    error, so that Airflow retries."""
    passing = [each for each in alarmed.values() if isinstance(each, KafkaOffsetsError) and each.retriable]
    if len(passing) == len(alarmed):
        return passing[0]
    rows = [("group", "alarms", "")]
    rows += [(group, ", ".join(_result(each)["alarms"]), _words(group, each)) for group, each in alarmed.items()]
    title = f"{len(alarmed)} of {number_of(of, 'group')} {'needs' if len(alarmed) == 1 else 'need'} attention:"
    return AirflowFailException("\n".join([title, *in_columns(rows)]))
