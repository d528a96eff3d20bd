"""Operators that keep offsets in the ledger, and return references to them: a snapshot, the run's window or its
windows, an increment, and the windows that are left to load."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, get_args

from airflow.providers.common.compat.sdk import BaseOperator

from airflow_kafka_offsets.arguments import FuturePolicy, as_name, check_choice, check_count, constant
from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.kafka_pipeline import KafkaPipeline, OfPipeline, as_pipeline
from airflow_kafka_offsets.ledger.ledger import Ledger, PinnedManifest
from airflow_kafka_offsets.ledger.storage import in_parallel
from airflow_kafka_offsets.lineage.links import TellsLineage
from airflow_kafka_offsets.lineage.task_window import TaskWindow, note_outlets
from airflow_kafka_offsets.offsets.instants import given_instant
from airflow_kafka_offsets.offsets.windows.snapshots import AsOf, AsOfKind, snapshot_warnings
from airflow_kafka_offsets.operators import failing_fast
from airflow_kafka_offsets.pipelines.audits import count_records
from airflow_kafka_offsets.pipelines.resolver import ResolvedWindow, Resolver
from airflow_kafka_offsets.references import SnapshotRef, WindowRef, WindowRefs
from airflow_kafka_offsets.runs.interval import RunInterval, check_interval, pieces_of, run_interval, zone_of

if TYPE_CHECKING:
    from airflow.sdk import Context


class KafkaPipelineOperator(OfPipeline, BaseOperator):
    """
    Base of the operators that resolve offsets for a pipeline.

    :param pipeline: the :class:`~airflow_kafka_offsets.kafka_pipeline.KafkaPipeline`. (templated)
    :param on_future_record: what to do when the record at a snapshot's offset has a timestamp more than an hour ahead
        of the clock: until that time, all windows would be empty on its partition. ``fail`` (default), or ``warn``.
    """

    template_fields: Sequence[str] = ("pipeline",)
    ui_color = "#e8f4e0"

    def __init__(self, *, pipeline: KafkaPipeline, on_future_record: FuturePolicy = "fail", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.pipeline = as_pipeline(pipeline)
        self.on_future_record = on_future_record
        check_choice("on_future_record", on_future_record, *get_args(FuturePolicy))


class KafkaOffsetSnapshotOperator(KafkaPipelineOperator):
    """
    Stores an offset snapshot in the pipeline's ledger.

    An instant is resolved once: another run for it returns the stored snapshot. ``latest``, ``earliest`` and a group's
    commits give a new snapshot each time. Windows can start and end at an instant or at ``latest``; the other two have
    no place in time, and are targets to wait for.

    :param at: ``latest`` (default), ``earliest``, or an instant in ISO-8601 with a time zone. (templated)
    :param group: snapshot this group's committed offsets instead. (templated)

    The other arguments are those of :class:`KafkaPipelineOperator`.

    XCom: see :class:`~airflow_kafka_offsets.references.SnapshotRef`.
    """

    template_fields: Sequence[str] = (*KafkaPipelineOperator.template_fields, "at", "group")

    def __init__(self, *, at: str | datetime = "latest", group: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.at = at
        self.group = group
        self._as_of(constant(at, "latest"), constant(group, "group"))

    @failing_fast()
    def execute(self, context: Context) -> dict[str, Any]:
        moment = self._as_of(self.at, self.group)
        with self.pipeline.resolver(self.on_future_record) as resolver:
            if moment.kind in (AsOfKind.EARLIEST, AsOfKind.GROUP):
                ref = SnapshotRef.of(resolver.ledger, resolver.target(moment), None)
            else:
                stored = resolver.snapshot(moment)
                ref = SnapshotRef.of(resolver.ledger, stored.offsets, stored.at_ms)
        snapshot = resolver.ledger.contents.snapshot(ref.snapshot)
        for remark in snapshot_warnings(snapshot):
            self.log.warning(remark)
        self.log.info("Snapshot as of %s: %s partitions (%s)", snapshot.as_of, ref.partitions, ref.snapshot)
        return ref.to_json()

    @staticmethod
    def _as_of(at: str | datetime, group: str | None) -> AsOf:
        if group is None:
            return _as_of(at)
        if at != AsOfKind.LATEST:
            raise ConfigurationError(
                "A snapshot is taken as of a group's commits or as of an instant: drop group= or at=."
            )
        return AsOf(AsOfKind.GROUP, group=as_name(group, "group"))


def _as_of(moment: str | datetime) -> AsOf:
    """``latest``, ``earliest`` or an instant, as the moment of a snapshot.

    :raises InstantError: when it is none of them.
    """
    if moment in (AsOfKind.LATEST, AsOfKind.EARLIEST):
        return AsOf(AsOfKind(str(moment)))
    return AsOf(AsOfKind.INSTANT, given_instant(moment))


class KafkaResolvingOperator(TellsLineage, KafkaPipelineOperator):
    """Base of the operators that pin windows and return references to them. Its arguments are those of
    :class:`KafkaPipelineOperator`."""

    @abstractmethod
    def resolve(self, resolver: Resolver, context: Context) -> ResolvedWindow | list[ResolvedWindow]:
        """Pin the run's window; or its windows."""

    @failing_fast()
    def execute(self, context: Context) -> Any:
        with self.pipeline.resolver(self.on_future_record) as resolver:
            resolved = self.resolve(resolver, context)
        windows = resolved if isinstance(resolved, list) else [resolved]
        for each in windows:
            self._log(each.pinned)
            for warning in each.warnings:
                self.log.warning(warning)
        state, servers = resolver.ledger.state, resolver.client.bootstrap_servers
        found = (
            WindowRef.of(self.pipeline, each.pinned, state.windows[each.pinned.manifest.window].number)
            for each in windows
        )
        refs = WindowRefs(tuple(found), is_list=isinstance(resolved, list))
        note_outlets(self, context, refs, [{}] * len(windows))
        self.seen = tuple(TaskWindow.of(each.pinned, bootstrap_servers=servers) for each in windows)
        return refs.to_json()

    def _log(self, pinned: PinnedManifest) -> None:
        ranges = sorted(pinned.manifest.non_empty(), key=lambda records: -records.span)
        largest = ", ".join(
            f"{records.topic}-{records.partition} [{records.start_offset}, {records.end_offset})"
            for records in ranges[:3]
        )
        self.log.info(
            "Window %s: %s offsets in %s partitions%s. Manifest %s, sha256 %s",
            pinned.manifest.window,
            pinned.manifest.span,
            len(ranges),
            f", the largest {largest}" if largest else "",
            pinned.uri,
            pinned.sha256,
        )


class KafkaResolveWindowOperator(KafkaResolvingOperator):
    """
    Pins the run's window: resolves its two instants to offsets, once, and writes the manifest.

    The window comes from ``start`` and ``end``, else from the run's partition date, else from its data interval.
    Neighbouring windows share their instants, so that windows tile in any order of runs; a rerun returns the same
    manifest. Windows of a pipeline never cross in time.

    :param start: explicit start, inclusive, ISO-8601 with a time zone; or what :class:`KafkaOffsetSnapshotOperator`
        returned (its ``.output``) for an instant or ``latest``, for a window between two snapshots of the pipeline.
        (templated)
    :param end: explicit end, exclusive; an instant or a snapshot, like ``start``. (templated)
    :param split: the length of windows to split the interval into, such as ``timedelta(hours=1)``; a day must have a
        whole number of them. They start at multiples of it since midnight, in the time zone of the Dag's schedule: a
        day on which clocks change has 23 or 25 hours. All are pinned by one commit. None (default) pins one window.
    :param count_records: also count which offsets have a record, and keep that in the ledger: then tables can be
        audited after Kafka has deleted the records. Reads all bytes of the window.

    The other arguments are those of :class:`KafkaPipelineOperator`.

    XCom: see :class:`~airflow_kafka_offsets.references.WindowRef`; with ``split``, a list of them, in order of time.
    """

    template_fields: Sequence[str] = (*KafkaResolvingOperator.template_fields, "start", "end")

    def __init__(
        self,
        *,
        start: str | datetime | Mapping[str, Any] | None = None,
        end: str | datetime | Mapping[str, Any] | None = None,
        split: timedelta | None = None,
        count_records: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.start = start
        self.end = end
        self.split = split
        self.count_records = count_records
        check_interval(start, end)

    def resolve(self, resolver: Resolver, context: Context) -> ResolvedWindow | list[ResolvedWindow]:
        """Pin the window between the run's two instants, or between the two snapshots; or the windows in between."""
        if isinstance(self.start, Mapping) or isinstance(self.end, Mapping):
            ledger = resolver.ledger
            interval = RunInterval(_place(ledger, "start", self.start), _place(ledger, "end", self.end))
        else:
            interval = run_interval(context, self.start, self.end)
        times = [(interval.start_ms, interval.end_ms)]
        if self.split is not None:
            times = pieces_of(interval, self.split, zone_of(context.get("dag")))
        found = resolver.windows(times)
        for each in found if self.count_records else ():
            count_records(resolver.client, resolver.ledger, each.pinned)
        return found[0] if self.split is None else found


def _place(ledger: Ledger, argument: str, snapshot: Any) -> int:
    """The place in time of a snapshot that another task stored."""
    ref = SnapshotRef.from_json(snapshot)
    if ref is None or ref.ledger != ledger.uri or ref.at_ms is None:
        raise ConfigurationError(
            f"{argument}= is {snapshot!r}. For a window between snapshots, start= and end= must both be what "
            f"KafkaOffsetSnapshotOperator returned, as of an instant or latest, for the pipeline at {ledger.uri}."
        )
    ref.read(ledger)
    return ref.at_ms


class KafkaResolveIncrementOperator(KafkaResolvingOperator):
    """
    Pins the run's increment: all records from the end of the last window to the current visible end of the logs.

    No schedule is needed: increments follow each other, without gaps, in the order in which their runs resolve them. A
    retry or a cleared run gets its own increment again. If the load of an increment fails, the next run doesn't take
    it over: clear the failed run.

    :param since: where the pipeline begins, if it has no window yet: ``earliest`` (default), ``latest``, an instant in
        ISO-8601 with a time zone, or where a group's commits are: ``"group connect-orders"``. (templated)

    The other arguments are those of :class:`KafkaPipelineOperator`.

    XCom: see :class:`~airflow_kafka_offsets.references.WindowRef`.
    """

    template_fields: Sequence[str] = (*KafkaResolvingOperator.template_fields, "since")

    def __init__(self, *, since: str = "earliest", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.since = since
        self._beginning(constant(since, "earliest"))

    def resolve(self, resolver: Resolver, context: Context) -> ResolvedWindow:
        ti = context["ti"]
        run = "/".join((ti.dag_id, ti.run_id, ti.task_id))
        mapped = "" if ti.map_index in (None, -1) else f"/{ti.map_index}"
        return resolver.increment(f"{run}{mapped}", self._beginning(self.since))

    @staticmethod
    def _beginning(since: str) -> AsOf:
        word, _, group = since.partition(" ")
        return AsOf(AsOfKind.GROUP, group=group) if word == AsOfKind.GROUP and group else _as_of(since)


class KafkaUnpublishedWindowsOperator(OfPipeline, BaseOperator):
    """
    Returns the windows of a pipeline that are pinned and not published, or are to be loaded again, in order of time:
    the oldest ones, for one Spark run. Asks only the ledger.

    A window that another task is loading right now is among them. To load it twice at the same time costs time, and
    loses or doubles nothing.

    :param pipeline: the :class:`~airflow_kafka_offsets.kafka_pipeline.KafkaPipeline`. (templated)
    :param start: only windows that start then or later: ISO-8601 with a time zone. None for no bound. (templated)
    :param end: only windows that end then or earlier. (templated)
    :param most: at most so many.

    XCom: a list of what :class:`KafkaResolveWindowOperator` returns; empty if there are none.
    """

    template_fields: Sequence[str] = ("pipeline", "start", "end")
    ui_color = "#e8f4e0"

    def __init__(
        self,
        *,
        pipeline: KafkaPipeline,
        start: str | datetime | None = None,
        end: str | datetime | None = None,
        most: int = 1000,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.pipeline = as_pipeline(pipeline)
        self.start = start
        self.end = end
        self.most = most
        check_count(most, "most", least=1)

    @failing_fast()
    def execute(self, context: Context) -> list[dict[str, Any]]:
        start_ms = given_instant(self.start) if self.start else None
        end_ms = given_instant(self.end) if self.end else None
        ledger = self.pipeline.existing_ledger()
        found = [
            window
            for window in ledger.state.windows.values()
            if window.loaded is None
            and (start_ms is None or window.start_ms >= start_ms)
            and (end_ms is None or window.end_ms <= end_ms)
        ]
        self.log.info("%s windows of %s aren't published", len(found), ledger.pipeline)
        return in_parallel(
            lambda window: WindowRef.of(self.pipeline, ledger.pinned(window), window.number).to_json(),
            found[: self.most],
        )
