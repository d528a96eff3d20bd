"""What the drivers of an attempt have counted, whether it is proved, and what of it may be published; and so the status
of a window. The log says most of it; whether an attempt has failed is in its files alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from airflow_kafka_offsets.compat.python_versions import StrEnum
from airflow_kafka_offsets.ledger.entries import Attempted, Published
from airflow_kafka_offsets.ledger.ledger import Ledger, PinnedManifest
from airflow_kafka_offsets.ledger.load_decisions import attempt_of
from airflow_kafka_offsets.ledger.state import Window
from airflow_kafka_offsets.ledger.storage import in_parallel
from airflow_kafka_offsets.offsets.instants import now_ms
from airflow_kafka_offsets.offsets.proof.audit import Verdict, judge
from airflow_kafka_offsets.offsets.proof.run_result import RunResult


@dataclass(frozen=True, slots=True)
class Counted:
    """What one driver of an attempt has counted.

    :param window: the window that it loaded.
    :param attempt: the attempt, with what was lost when it began.
    :param result: the counts.
    :param sha256: hash of the result's file.
    """

    ledger: Ledger
    window: Window
    attempt: Attempted
    result: RunResult
    sha256: str

    @property
    def pinned(self) -> PinnedManifest:
        """The window's manifest."""
        return self.ledger.pinned(self.window)

    @property
    def verdict(self) -> Verdict:
        """Whether the result is proved: read = written = the manifest without what was lost."""
        return judge(self.pinned.manifest, self.result, self.attempt.lost)


def counted(ledger: Ledger, window: Window, number: int) -> list[Counted]:
    """What the drivers of an attempt have counted so far, in the order of their runs.

    :raises CommitConflictError: when the window has no such attempt any more.
    """
    attempt = attempt_of(window, number)
    results = ledger.attempt(window.name, number).results()
    return [Counted(ledger, window, attempt, result, sha256) for result, sha256 in results]


def published_counts(ledger: Ledger, window: Window, publication: Published) -> Counted:
    """What the published driver of a window has counted.

    :raises LedgerCorruptError: when its result is missing, or was changed since.
    """
    result = ledger.published_result(window.name, publication)
    return Counted(ledger, window, attempt_of(window, publication.attempt), result, publication.result)


def left_to_publish(ledger: Ledger, window: Window) -> Counted | None:
    """A proved result of a window that nobody has published and that may be published; None when there is none.

    It is of the newest attempt; or of an older one if each attempt's rows have a place of their own. If Airflow's side
    has recorded that an attempt failed, its application failed after it had counted: then it may not have done all that
    it was to do.
    """
    may = window.open_attempts
    for attempt in reversed(may):
        for found in counted(ledger, window, attempt.number):
            usable = found.result.apart or attempt is may[-1]
            if usable and found.verdict.proved and not ledger.attempt(window.name, attempt.number).has_ended:
                return found
    return None


class WindowStatus(StrEnum):
    """What has become of a window."""

    PINNED = "pinned"
    """No attempt has begun; or the window is to be loaded again, and none has begun since."""
    LOADING = "loading"
    """An attempt has begun, and hasn't ended as far as anybody has said: its driver may have died."""
    FAILED = "failed"
    """The newest attempt has failed; or the newest load was refused before it began one."""
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
        return WindowStatus.PINNED if window.refused is None else WindowStatus.FAILED
    if left_to_publish(ledger, window) is not None:
        return WindowStatus.PROVED
    files = ledger.attempt(window.name, newest.number)
    return WindowStatus.FAILED if files.results() or files.failure() is not None else WindowStatus.LOADING


def running_ms(window: Window) -> int | None:
    """How long ago the newest attempt began, by the clocks of both sides: for people. None if nobody said, or none has
    begun."""
    newest = window.newest_attempt
    return None if newest is None or newest.begun_ms is None else max(0, now_ms() - newest.begun_ms)
