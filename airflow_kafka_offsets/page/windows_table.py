"""The list of a pipeline's windows, in order of time, with time that no window has between them: a hole if there are
offsets in it, else ``absent``. The log says nearly all of it, so that a page of windows costs no file of theirs."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from airflow_kafka_offsets.errors import LedgerError, shorten
from airflow_kafka_offsets.ledger.audits import audit_problems, audit_words
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.state import Window
from airflow_kafka_offsets.ledger.window_status import WindowStatus, running_ms, statuses
from airflow_kafka_offsets.offsets.instants import iso_instant
from airflow_kafka_offsets.page.lateness import backfilling
from airflow_kafka_offsets.page.overview import lost_of
from airflow_kafka_offsets.page.reasons import failure_of

Json = dict[str, Any]


def windows_table(ledger: Ledger, before: str | None, most: int) -> Json:
    """The last windows, or the last ones before a given window.

    :param before: a window's name; None for the last windows of the pipeline.
    :param most: how many windows.
    :raises LedgerError: when a file can't be read or is damaged.
    """
    upto = [each for each in ledger.state.windows.values() if before is None or each.name < before]
    shown, earlier = upto[-most:], upto[-most - 1 :]
    gaps = {later.name: one.end_ms for one, later in pairwise(earlier) if one.end_ms < later.start_ms}
    status, backfills = statuses(ledger, shown), backfilling(ledger.state)
    entries: list[Json] = []
    for each in shown:
        if each.name in gaps:
            entries.append(_gap(ledger, gaps[each.name], each.start_ms))
        entries.append(_window(ledger, each, status[each.name]) | {"backfill": each.name in backfills})
    return {"entries": entries, "more": len(upto) > len(shown)}


def _window(ledger: Ledger, window: Window, status: WindowStatus) -> Json:
    published = window.publication
    return {
        "kind": "window",
        "window": window.name,
        "state": status,
        "again": published is not None and window.loaded is None,
        "attempts": len(window.attempts),
        "running_ms": running_ms(window) if status is WindowStatus.LOADING else None,
        "failure": failure_of(ledger, window) if status is WindowStatus.FAILED else None,
        "start": iso_instant(window.start_ms),
        "end": iso_instant(window.end_ms),
        "offsets": window.offsets,
        "rows": None if published is None else published.rows,
        "lost": sum(lost_of(window).values()),
        "published_ms": None if published is None else published.published_ms,
        "audits": audit_words(window.audits),
        "audited_well": audit_problems(window.audits) is None,
    }


def _gap(ledger: Ledger, start_ms: int, end_ms: int) -> Json:
    """Time that no window has. Its offsets are None if a snapshot can't be read, which hides no window."""
    gap = {"kind": "hole", "start": iso_instant(start_ms), "end": iso_instant(end_ms)}
    try:
        missing = sorted(ledger.between(start_ms, end_ms), key=lambda each: -each.span)
    except LedgerError:
        return gap | {"state": "hole", "offsets": None, "worst": ""}
    worst = shorten(f"{each.topic}-{each.partition} ({each.span})" for each in missing) if missing else ""
    return gap | {
        "state": "hole" if missing else "absent",
        "offsets": sum(each.span for each in missing),
        "worst": worst,
    }
