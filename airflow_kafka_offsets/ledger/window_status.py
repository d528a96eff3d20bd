"""The status of a window, as people see it. Most of it is in the log; whether an attempt has failed, or has a
proved result that nobody has published, is in the attempt's files.
"""

from __future__ import annotations

from collections.abc import Iterable

from airflow_kafka_offsets.compat.python_versions import StrEnum
from airflow_kafka_offsets.ledger.counted import left_to_publish
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.state import Window
from airflow_kafka_offsets.ledger.storage import in_parallel
from airflow_kafka_offsets.offsets.instants import now_ms


class WindowStatus(StrEnum):
    """What has become of a window."""

    PINNED = "pinned"
    """No attempt has begun; or the window is to be loaded again, and none has begun since."""
    LOADING = "loading"
    """An attempt has begun, and hasn't ended as far as anybody has said: its driver may have died."""
    FAILED = "failed"
    """The newest attempt has failed."""
    PROVED = "proved"
    """An attempt is proved and may be published, but isn't yet."""
    PUBLISHED = "published"
    VERIFIED = "verified"


def statuses(ledger: Ledger, windows: Iterable[Window]) -> dict[str, WindowStatus]:
    """The status of each window. Only those that are being loaded need a look at their attempts' files."""
    each = {window.name: window for window in windows}
    loading = [name for name, window in each.items() if window.open_attempts]
    found = dict(zip(loading, in_parallel(lambda name: status(ledger, each[name]), loading), strict=True))
    return {name: found.get(name) or status(ledger, window) for name, window in each.items()}


def status(ledger: Ledger, window: Window) -> WindowStatus:
    """The status of a window."""
    published, newest = window.loaded, window.newest_attempt
    if published is not None:
        return WindowStatus.PUBLISHED if published.verdict is None else WindowStatus.VERIFIED
    if newest is None:
        return WindowStatus.PINNED
    if left_to_publish(ledger, window) is not None:
        return WindowStatus.PROVED
    files = ledger.attempt(window.name, newest.number)
    return WindowStatus.FAILED if files.results() or files.failure() is not None else WindowStatus.LOADING


def running_ms(window: Window) -> int | None:
    """How long ago the newest attempt began, by the clocks of both sides: for people. None if nobody said, or none has
    begun."""
    newest = window.newest_attempt
    return None if newest is None or newest.begun_ms is None else max(0, now_ms() - newest.begun_ms)
