"""Operators that look once, and fail when somebody has to act: retention will delete records before they are loaded; a
consumer group is too far behind, stands still, went back, or has no members."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, get_args

from airflow.providers.common.compat.sdk import AirflowFailException, BaseOperator

from airflow_kafka_offsets.arguments import UnknownPolicy, as_milliseconds, as_names, check_choice, constant
from airflow_kafka_offsets.conditions.condition import Outcome, Progress, check_all
from airflow_kafka_offsets.conditions.group_health import Alarm, GroupHealth, GroupPositions
from airflow_kafka_offsets.conditions.groups_caught_up import GroupsCaughtUp, NoCommit
from airflow_kafka_offsets.errors import (
    ClusterError,
    ConfigurationError,
    KafkaOffsetsError,
    OffsetsError,
    in_columns,
    number_of,
    shorten,
)
from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook
from airflow_kafka_offsets.hooks.metrics import tell
from airflow_kafka_offsets.kafka_pipeline import KafkaPipeline, OfPipeline, as_pipeline
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.offsets.instants import duration_text, now_ms
from airflow_kafka_offsets.offsets.measures import Measure
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.windows.retention import WindowForecast
from airflow_kafka_offsets.operators import failing_fast
from airflow_kafka_offsets.pipelines.backlog import REST, Backlog, last_end

if TYPE_CHECKING:
    from airflow.sdk import Context

_POSITIONS = "positions"
"""Key in XCom and in a judgement's result: where a group was, for the next run."""
_WATCHED = ("stalled", "rewound", "stopped")


class KafkaRetentionWatchOperator(OfPipeline, BaseOperator):
    """
    Forecasts which records Kafka's retention by time will delete before they are loaded. Of topics that limit the size
    of their logs too (``retention.bytes``), it only warns that they do.

    Covers the windows that are pinned but not published, unless audits say that something else has loaded them; the
    holes between windows, from the first one that is known on; and the backlog from the last window's end (without
    windows: from the first increment's start, or the newest snapshot) to the end of the log. The topics are those that
    the ledger records for the pipeline.

    :param pipeline: the :class:`~airflow_kafka_offsets.kafka_pipeline.KafkaPipeline`; it need not name its topics.
        (templated)
    :param fail_within: fail the task when records are already deleted, or may be within this time; a timedelta or
        seconds. None never fails it.
    :param on_unknown: with ``fail_within``, what to do when nobody can tell when some records are deleted, and somebody
        has to do something about that, such as grant an ACL or install a codec: ``fail`` (default), or ``warn``.

    XCom: ``{"windows": [{"window", "loses_at", "topic", "partition", "offsets", "lost", "unknown"}, ...]}``, windows
    that have lost records first, then by next loss. ``loses_at`` (ISO-8601, None when no limit is known to apply),
    ``topic`` and ``partition`` describe the next loss; ``offsets`` and ``lost`` are totals of the window, and
    ``unknown`` counts its partitions that may lose records at an unknown time.
    """

    template_fields: Sequence[str] = ("pipeline",)
    ui_color = "#e8f4e0"

    def __init__(
        self,
        *,
        pipeline: KafkaPipeline,
        fail_within: timedelta | float | None = None,
        on_unknown: UnknownPolicy = "fail",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.pipeline = as_pipeline(pipeline)
        self.fail_within = fail_within
        self.on_unknown = on_unknown
        as_milliseconds(fail_within, "fail_within")
        check_choice("on_unknown", on_unknown, *get_args(UnknownPolicy))

    @failing_fast()
    def execute(self, context: Context) -> dict[str, Any]:
        fail_within_ms = as_milliseconds(self.fail_within, "fail_within")
        ledger = self.pipeline.existing_ledger()
        forecasts = sorted(self._forecasts(ledger), key=lambda forecast: forecast.urgency)
        for forecast in forecasts:
            level = logging.WARNING if any(forecast.unforeseen()) else logging.INFO
            self.log.log(level, "Not loaded: %s", forecast)
        tell(_measures(self.pipeline.name, forecasts))
        if fail_within_ms is not None:
            _refuse_loss(forecasts, fail_within_ms)
            if self.on_unknown == "fail":
                _refuse_unknown(forecasts)
        return {"windows": [forecast.to_json() for forecast in forecasts]}

    def _forecasts(self, ledger: Ledger) -> list[WindowForecast]:
        end = last_end(ledger)
        if end is None:
            self.log.warning("%s has no window, and no snapshot to start one at: nothing to watch", ledger.uri)
            return []
        with KafkaOffsetsHook(self.pipeline.kafka_conn_id).get_conn() as client:
            backlog = Backlog(client, ledger, end)
            for topic, size_bytes in sorted(backlog.size_limits().items()):
                self.log.warning(
                    "Topic %s keeps at most %s bytes per partition (retention.bytes): Kafka may delete records earlier "
                    "than is told here",
                    topic,
                    size_bytes,
                )
            return backlog.forecasts()


def _measures(pipeline: str, forecasts: Sequence[WindowForecast]) -> Iterator[Measure]:
    """How many windows aren't loaded, and how long until retention deletes some records that aren't. The offsets after
    the last window are in no window yet: a live topic always has some."""
    tags = {"pipeline": pipeline}
    yield Measure("windows_behind", sum(forecast.window != REST for forecast in forecasts), tags)
    known = [forecast.ranges[0].loses_at_ms for forecast in forecasts]
    if any(forecast.lost for forecast in forecasts):
        yield Measure("retention_headroom", 0, tags)
    elif losses := [loses_at_ms for loses_at_ms in known if loses_at_ms is not None]:
        yield Measure("retention_headroom", max(0, min(losses) - now_ms()) / 1000, tags)


def _refuse_loss(forecasts: Sequence[WindowForecast], within_ms: int) -> None:
    losing = [forecast for forecast in forecasts if forecast.loses_by(now_ms() + within_ms)]
    if losing:
        first = shorten(f"{forecast.window} on {forecast.ranges[0]}" for forecast in losing)
        raise AirflowFailException(
            f"{len(losing)} of {len(forecasts)} windows that aren't loaded have lost records, or may lose "
            f"some within {duration_text(within_ms / 1000)}: {first}. Load them now, or raise retention.ms of the "
            "topic until they are loaded."
        )


def _refuse_unknown(forecasts: Sequence[WindowForecast]) -> None:
    """Refuse what can't be foreseen: a watch that can't see would never alert.

    :raises OffsetsError: when Kafka's errors, which may pass, are all that is in the way.
    """
    found = [(forecast.window, *each) for forecast in forecasts for each in forecast.unforeseen()]
    if not found:
        return
    errors = [(partition, unknown.error) for _, partition, unknown in found if unknown.error is not None]
    if len(errors) == len(found) and all(error.may_pass for _, error in errors):
        raise OffsetsError("Foreseeing when retention deletes records that aren't loaded", errors)
    windows = dict.fromkeys(window for window, _, _ in found)
    first = shorten(dict.fromkeys(f"{partition} ({unknown})" for _, partition, unknown in found))
    raise AirflowFailException(
        f"Nobody can tell when retention deletes records of {len(windows)} of {len(forecasts)} windows that aren't "
        f"loaded: {first}. Give this task what it needs to tell, or set on_unknown='warn'."
    )


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
        :class:`~airflow_kafka_offsets.sensors.group_sensors.KafkaGroupLagSensor`.
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
        kept, watched = _kept_positions(context), self._watched()
        limits = self._limits(self.groups, self.topics, IsolationLevel.of(self.isolation_level))
        checks = {
            group: GroupHealth(replace(limits, groups=(group,)), watched, kept.get(group)) for group in limits.groups
        }
        with KafkaOffsetsHook(self.kafka_conn_id).get_conn() as client:
            outcomes = check_all(client, checks.values())
        found = {group: _known(outcomes[check]) for group, check in checks.items()}
        tell(measure for each in found.values() if isinstance(each, Progress) for measure in each.measures)
        # For the next run. A group about which nothing could be told stays where it was.
        now = {group: each.result[_POSITIONS] for group, each in found.items() if isinstance(each, Progress)}
        earlier = {group: kept[group].to_json() for group in checks if group in kept}
        context["ti"].xcom_push(_POSITIONS, earlier | now)
        for group, each in found.items():
            self.log.info("%s: %s", group, _words(group, each))
        result = {"groups": {group: _result(each) for group, each in found.items()}}
        alarmed = {group: each for group, each in found.items() if not isinstance(each, Progress) or not each.done}
        if alarmed:
            context["ti"].xcom_push("return_value", result)  # Airflow pushes none of a task that fails
            raise alert(alarmed, len(found))
        return result

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
