"""Windows that were loaded, as tasks and Spark's drivers leave them; the rows are made up, and add up."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from upath import UPath

from airflow_kafka_offsets.ledger import corrections, decisions, load_decisions
from airflow_kafka_offsets.ledger.counted import Counted, counted as counted_by
from airflow_kafka_offsets.ledger.decisions import ResolvedOffsets
from airflow_kafka_offsets.ledger.entries import Attempted, Audited, Published, Refused, Restarted, Verified
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.state import Window
from airflow_kafka_offsets.offsets.partitions import LogRange, SeenOffset
from airflow_kafka_offsets.offsets.proof.run_result import RunResult
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.windows.ledger_names import window_id
from airflow_kafka_offsets.offsets.windows.snapshots import OffsetSnapshot
from airflow_kafka_offsets.pipelines import loads
from tests.integration.ledger.results import result_of
from tests.unit.offsets.builders import HOUR_MS, T0, snapshot

OFFSETS = 10
"""In each hour, on one partition."""
AT_T0 = 10_000
"""The offset at T0."""
LATER_MS = T0 + 365 * 24 * HOUR_MS
"""When all of it is resolved, in whatever order."""


def new_ledger(root: Path | str) -> Ledger:
    """A new ledger of the topic ``t``.

    :param root: a path; or a URI, as users name it.
    """
    made = Ledger(_path(root), "loads")
    made.create(["t"], "cluster-1", IsolationLevel.READ_COMMITTED)
    return made


def again(ledger: Ledger) -> Ledger:
    """The same ledger, as another process opens it."""
    return Ledger(_path(ledger.uri.rpartition("/")[0]), ledger.pipeline)


def _path(root: Path | str) -> UPath:
    if not isinstance(root, str):
        return UPath(root)
    # Not above: processes of these tests import this module, and Airflow takes seconds.
    from airflow.sdk import ObjectStoragePath

    return ObjectStoragePath(root)


def window(hour: int, hours: int = 1) -> str:
    """The name of an hour's window, or of a longer one."""
    return window_id(T0 + hour * HOUR_MS, T0 + (hour + hours) * HOUR_MS)


def windows_of(ledger: Ledger) -> list[Window]:
    """All windows, in order of time, as the ledger has them now."""
    return list(ledger.read().windows.values())


def place(ledger: Ledger, *snapshots: OffsetSnapshot) -> None:
    """Store snapshots as of instants."""
    ledger.change(lambda state: decisions.place(state, _asked(ledger, snapshots), ledger.contents))


def pin(ledger: Ledger, start: OffsetSnapshot, end: OffsetSnapshot) -> Window:
    """Pin the window between two snapshots as of instants."""
    extent = start.timestamp_ms, end.timestamp_ms
    ledger.change(lambda state: decisions.pin(state, [extent], _asked(ledger, (start, end)), ledger.contents))
    return ledger.window(window_id(*extent))


def _asked(ledger: Ledger, snapshots: Collection[OffsetSnapshot]) -> ResolvedOffsets:
    instants = {each.timestamp_ms: ledger.contents.add_snapshot(each) for each in snapshots}
    return ResolvedOffsets(ledger.state.number, LATER_MS, instants)


def increment(ledger: Ledger, by: str, latest: OffsetSnapshot, origin: OffsetSnapshot | None = None) -> Window:
    """Pin a run's increment."""
    asked = ResolvedOffsets(ledger.read().number, LATER_MS, latest=latest, origin=origin)
    ledger.change(lambda state: decisions.pin_increment(state, by, asked, ledger.contents))
    found = ledger.state.increment(by)
    assert found is not None
    return found


def at_hour(hour: int, offset: int | None = None) -> OffsetSnapshot:
    """What Kafka says of an hour's start."""
    found = AT_T0 + hour * OFFSETS if offset is None else offset
    return snapshot({0: found}, at_ms=T0 + hour * HOUR_MS, resolved_at_ms=LATER_MS)


def counted(hour: int, partitions: int) -> OffsetSnapshot:
    """A snapshot of a topic that has so many partitions."""
    return snapshot(dict.fromkeys(range(partitions), hour * OFFSETS), at_ms=T0 + hour * HOUR_MS)


def resolve(ledger: Ledger, hour: int, hours: int = 1) -> Window:
    """Pin the window of an hour, or of some hours."""
    return pin(ledger, at_hour(hour), at_hour(hour + hours))


def begin(
    ledger: Ledger, window: Window, who: Any = None, lost: Collection[LogRange] = (), begun_ms: int | None = None
) -> Attempted:
    """Begin an attempt."""
    who = who or {"dag_id": "loads", "run_id": "r-1", "task_id": "load"}
    wish = Attempted(window.name, who, tuple(lost), begun_ms)
    number = ledger.change(lambda state: load_decisions.begin(state, wish, window.manifest))
    found = ledger.window(window.name).attempt(number)
    assert found is not None, "it isn't published"
    return found


def refuse(ledger: Ledger, window: Window, error: str, message: str) -> None:
    """A load is refused before an attempt begins."""
    who = {"dag_id": "loads", "run_id": "r-2", "task_id": "load", "map_index": -1, "try_number": 1}
    wish = Refused(window.name, who, error, message, LATER_MS)
    ledger.change(lambda state: load_decisions.refuse(state, wish, window.manifest))


def publish(ledger: Ledger, window: Window, who: Any = None, lost: Collection[LogRange] = (), **fields: Any) -> Window:
    """Attempt, result and publication. Returns the window as it is then.

    :param fields: fields of the result that differ from :func:`result_of`.
    """
    attempt = begin(ledger, window, who, lost)
    publish_result(ledger, window, result_of(ledger, window, attempt, **fields))
    return ledger.window(window.name)


def publish_result(ledger: Ledger, window: Window, result: RunResult, *, at_ms: int | None = None) -> Published:
    """Store a result and publish it, as it is when Kafka has nothing against it.

    :param at_ms: when it was published; now by default.
    """
    found = store_result(ledger, window, result)
    if at_ms is not None:
        wish = loads._publication(found)._replace(published_ms=at_ms)
        ledger.change(lambda state: load_decisions.publish(state, wish, window.manifest))
    return publish_asked(found)


def publish_asked(counted: Counted) -> Published:
    """Publish what a driver has counted, as it is when Kafka has nothing against it."""
    return loads.returned(loads.publish_each_asked({0: counted})[0])


def restart(ledger: Ledger, why: str = "re-created", truncated: Collection[SeenOffset] = ()) -> None:
    """The topic begins anew, or goes on where it was truncated."""
    wish = Restarted(LATER_MS, ("t",), why, truncated=tuple(truncated))
    ledger.change(lambda state: corrections.restart(state, wish, ledger.contents))


def void(ledger: Ledger, *windows: Window, force: bool = False) -> None:
    ledger.change(lambda state: corrections.void(state, [each.name for each in windows], force=force))


def audit(ledger: Ledger, window: Window, table: str, counts: Mapping[str, int]) -> None:
    """Record what an audit has found about a table that something else writes."""
    who = {"dag_id": "audits", "run_id": "r-1", "task_id": "audit"}
    wish = Audited(window.name, table, "0000000a", "ab" * 32, counts, window.offsets, who, window.end_ms)
    ledger.change(lambda state: load_decisions.audit(state, wish, window.manifest))


def reload(ledger: Ledger, window: Window) -> None:
    ledger.change(lambda state: load_decisions.reload(state, [window.name]))


def store_result(ledger: Ledger, window: Window, result: RunResult) -> Counted:
    """Store a driver's result, as the driver does."""
    files = ledger.attempt(window.name, result.attempt)
    assert files.record_result(result)
    window = ledger.window(window.name)
    (found,) = (each for each in counted_by(ledger, window, result.attempt) if each.result.run == result.run)
    return found


def verify(ledger: Ledger, window: Window) -> Window:
    """Record that a published window was verified."""
    assert window.publication is not None
    wish = Verified(window.name, window.publication.attempt, {"gaps": 0})
    ledger.change(lambda state: load_decisions.record_verdict(state, wish))
    return ledger.window(window.name)


def load(ledger: Ledger, hour: int, hours: int = 1) -> Window:
    """The whole way of an hour's window, from its instants to the verdict."""
    return verify(ledger, publish(ledger, resolve(ledger, hour, hours)))


def derive(ledger: Ledger, hour: int, rows: int) -> Window:
    """The same way, with a job that makes this many other rows of the hour's records."""
    window = resolve(ledger, hour)
    attempt = begin(ledger, window)
    plain = result_of(ledger, window, attempt)
    made = replace(plain.outputs[0], rows=rows, made=rows)
    publish_result(ledger, window, replace(plain, outputs=(made,)))
    return verify(ledger, ledger.window(window.name))
