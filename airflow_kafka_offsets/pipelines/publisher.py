"""Publishing: makes an attempt's result the one that counts for its window, by one exclusive creation in the ledger.

Called by the Spark operator after Spark has ended, by verify and by ``ledger publish``. All it needs is in the ledger
and in Kafka, so that any of them can publish the result of a worker that died after its driver had counted.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.errors import (
    CommitConflictError,
    ConfigurationError,
    CountedTwiceError,
    LedgerConflictError,
    LedgerCorruptError,
    LedgerError,
    UnprovenError,
    WindowError,
)
from airflow_kafka_offsets.ledger.file_lists import files_of
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.window_folder import UNKNOWN_MS, PinnedManifest, WindowFolder
from airflow_kafka_offsets.offsets.instants import now_ms
from airflow_kafka_offsets.offsets.proof.audit import Verdict, judge
from airflow_kafka_offsets.offsets.proof.publication import Publication, counting, counts_over
from airflow_kafka_offsets.offsets.proof.run_result import RunResult
from airflow_kafka_offsets.pipelines.log_changes import refuse_changed, source_now

log = logging.getLogger(__name__)

_MOST_TRIES = 1_000


@dataclass(frozen=True, slots=True)
class CountedAttempt:
    """An attempt whose driver has counted what it read and wrote.

    :param pinned: the revision that it loaded.
    :param result: its counts.
    :param sha256: hash of the result's file.
    """

    pinned: PinnedManifest
    result: RunResult
    sha256: str

    @property
    def verdict(self) -> Verdict:
        """Whether the result is proved."""
        return judge(self.pinned.manifest, self.result)

    @property
    def written_ms(self) -> int | None:
        """When the attempt started, if its rows replaced other attempts' rows; None if they are stored apart."""
        return None if self.result.apart else self.result.started_ms

    def publication(self, number: int, replaces: Publication | None) -> Publication:
        """The publication of this attempt.

        :param number: its place in the window's sequence.
        :param replaces: the publication that counted before.
        """
        manifest, result = self.pinned.manifest, self.result
        return Publication(
            number=number,
            revision=manifest.revision,
            attempt=result.attempt,
            result_sha256=self.sha256,
            manifest_sha256=self.pinned.sha256,
            replaces=None if replaces is None else replaces.number,
            rows=result.rows_written,
            output=result.output,
            outside=result.outside_written,
            sink=result.sink,
            apart=result.apart,
            start_snapshot=manifest.start_snapshot,
            end_snapshot=manifest.end_snapshot,
            started_ms=result.started_ms,
            published_ms=now_ms(),
            further=result.further,
        )


def counted_attempt(ledger: Ledger, pinned: PinnedManifest, attempt: str) -> CountedAttempt | None:
    """An attempt's result; None when its driver hasn't counted yet, or died while it wrote the result: not every store
    creates files atomically."""
    try:
        counted = ledger.window_folders.of(pinned).counted(attempt)
    except LedgerCorruptError as error:
        log.warning("%s The file is ignored.", error)
        return None
    return None if counted is None else CountedAttempt(pinned, *counted)


def store_result(ledger: Ledger, pinned: PinnedManifest, result: RunResult) -> CountedAttempt:
    """Store the result of a recorded attempt. Returns what the ledger has now, which may be another task's."""
    ledger.window_folders.of(pinned).record_result(result)
    stored = counted_attempt(ledger, pinned, result.attempt)
    if stored is None:
        raise LedgerCorruptError(f"The result of attempt {result.attempt} vanished while it was stored.")
    return stored


def proved_attempts(ledger: Ledger, pinned: PinnedManifest) -> list[CountedAttempt]:
    """The attempts at a revision that may be published, newest last: each is proved, and no later attempt has started
    to replace its rows."""
    folder = ledger.window_folders.of(pinned)
    found = (counted_attempt(ledger, pinned, attempt) for attempt in folder.listing().counted)
    proved = (counted for counted in found if counted is not None and counted.verdict.proved)
    return sorted((counted for counted in proved if _later_writer(folder, counted) is None), key=_asked_ms)


def proved_for(ledger: Ledger, pinned: PinnedManifest, load: str | None) -> list[CountedAttempt]:
    """The :func:`proved_attempts` that were asked for the same rows as a prepared load: its own, and those of earlier
    loads of the same program. An attempt from before the Dag or a file was changed isn't one of them.

    :param load: the load's name; None for all attempts.
    """
    proved, folder = proved_attempts(ledger, pinned), ledger.window_folders.of(pinned)
    if load is None:
        return proved
    wanted = folder.attempt(load).get("arguments_hash")
    own = (counted for counted in proved if folder.attempt(counted.result.attempt).get("arguments_hash") == wanted)
    return list(own) if wanted else []


def left_to_publish(
    ledger: Ledger, pinned: PinnedManifest, is_meant: Callable[[WindowFolder, str], bool]
) -> CountedAttempt | None:
    """A proved attempt at a window that isn't published yet; None when there is none.

    :param pinned: the requested revision. Attempts at another one are left out if they wouldn't count over it.
    :param is_meant: whether an attempt at a revision was asked for the same rows.
    """
    found: list[CountedAttempt] = []
    for revision in ledger.revisions(pinned.manifest.window, pinned):
        folder = ledger.window_folders.of(revision)
        for proved in proved_attempts(ledger, revision):
            # Whether its publication would count over the requested revision.
            publication, written_ms = proved.publication(1, None), proved.written_ms
            counts = counts_over(publication, pinned.manifest, written_ms=written_ms)
            if counts and is_meant(folder, proved.result.attempt):
                found.append(proved)
    # A window's first revision has the most records; but in a table, the last revision's rows have replaced them.
    return next((proved for proved in found if proved.result.apart), found[-1] if found else None)


def publish(client: OffsetsClient, ledger: Ledger, counted: CountedAttempt) -> Publication:
    """Publish an attempt, unless another publication counts over it.

    :returns: the publication that counts: the attempt's own, or an earlier one of the same or a newer revision; or of
        an older revision, if that has the whole window and this one only what retention left of it.
    :raises UnprovenError: when the attempt isn't proved, another driver has since refused its rows, or they differ from
        the published rows of the same manifest; a :class:`CountedTwiceError` if another try may prove it.
    :raises TopicChangedError: when the topics aren't the ones that were resolved any more.
    :raises LogTruncatedError: when a log was truncated below the window's end.
    :raises LedgerConflictError: when the revision was forgotten, or in a table a newer one was resolved.
    :raises KafkaOffsetsError: when Kafka can't be asked; nothing is published then, and a retry continues here.
    """
    _refuse_unproved(counted)
    # If a publication already counts over it, Kafka needn't be asked, and may be down.
    _, stands = _next(ledger, counted)
    if not stands:
        _ask_again(client, ledger, counted)
    return publish_next(ledger, counted)


def publish_next(ledger: Ledger, counted: CountedAttempt) -> Publication:
    """The second half of :func:`publish`, after Kafka was asked: create the next publication, and return the one that
    counts then. Returns and raises as :func:`publish`."""
    folder = ledger.window_folders.of(counted.pinned)
    for _ in range(_MOST_TRIES):
        # Looked up on every pass: another task may have published, forgotten the revision or refused the rows.
        found, stands = _next(ledger, counted)
        if stands:
            is_own = found.result_sha256 == counted.sha256
            ledger.file_lists.refresh(folder.id, files_of(counted.result) if is_own else None)
            return found
        ledger.window_folders.publish(folder.id, found)
    raise LedgerError(
        f"Window {folder.id} was published {_MOST_TRIES} times while one attempt was being published. Is "
        "something looping?"
    )


def handed_over(fields: Any, argument: str) -> RunResult:
    """Parse a driver's result that a user handed over.

    :param fields: the result's JSON.
    :param argument: name of the argument or option, for the message.
    :raises ConfigurationError: when it is something else.
    """
    try:
        return RunResult.from_json(fields)
    except LedgerCorruptError as error:
        raise ConfigurationError(
            f"{argument} takes what PinnedWindow.write(...).to_json() returned. {error}"
        ) from error


def take_over(client: OffsetsClient, ledger: Ledger, pinned: PinnedManifest, result: RunResult) -> CountedAttempt:
    """Store the result of a driver that can't reach the ledger, such as a Spark Connect client. If the driver couldn't
    ask Kafka after its read whether the topics are unchanged, this does.

    :param result: the result that was handed over.
    :raises LedgerConflictError: when the attempt already has a different result, or read another manifest.
    :raises WindowError: when the topics aren't the ones that were resolved any more.
    """
    if result.manifest_sha256 != pinned.sha256:
        raise LedgerConflictError(
            f"The result of attempt {result.attempt} belongs to another manifest ({result.manifest_sha256}) "
            f"than that of revision {pinned.manifest.revision} of window {pinned.manifest.window} "
            f"({pinned.sha256}). Give the result and the window of the same run."
        )
    stored = counted_attempt(ledger, pinned, result.attempt) or _kept(client, ledger, pinned, result)
    # If two tasks store it at the same time, one task's answer from Kafka is kept: so the sources may differ.
    if replace(stored.result, source=result.source) != result:
        raise LedgerConflictError(
            f"Attempt {result.attempt} already has a different result in the ledger: an attempt can have only one."
        )
    return stored


def _kept(client: OffsetsClient, ledger: Ledger, pinned: PinnedManifest, result: RunResult) -> CountedAttempt:
    asked = result.source is None and bool(pinned.manifest.span)
    source = source_now(client, ledger, pinned) if asked else result.source
    folder = ledger.window_folders.of(pinned)
    if result.attempt not in folder.listing().attempts:
        folder.record_attempt(result.attempt, {"handed_over": True})  # the same content, whoever records it first
    return store_result(ledger, pinned, replace(result, source=source))


def _next(ledger: Ledger, counted: CountedAttempt) -> tuple[Publication, bool]:
    """The publication that counts over an attempt, or its own, and True; else the publication to create, and False."""
    pinned, folder = counted.pinned, ledger.window_folders.of(counted.pinned)
    # Listed before the revisions. If another revision is resolved and published between these two reads, it takes the
    # next number, so that creating ours fails and we look again.
    known = folder.publications.all()
    live = ledger.window_folders.live_numbers(folder.id)
    if folder.revision not in live:
        raise LedgerConflictError(
            f"Revision {folder.revision} of window {folder.id} has been forgotten since it was resolved, so it "
            "isn't published. Clear the resolve task too."
        )
    current = counting(known, live)
    if current is not None and counts_over(current, pinned.manifest, written_ms=counted.written_ms):
        _refuse_different(ledger, current, counted)
        return current, True
    _refuse_overtaken(ledger, counted)
    later = _later_writer(folder, counted)
    if later is not None:
        raise CommitConflictError(
            f"Attempt {counted.result.attempt} at window {folder.id} is not published: attempt {later} "
            f"started later to write to {counted.result.output}, where its rows replace this attempt's. It "
            "may still be running or may have died. Run the task again."
        )
    return counted.publication(1 + max((publication.number for publication in known), default=0), current), False


def _refuse_unproved(counted: CountedAttempt) -> None:
    verdict, result = counted.verdict, counted.result
    if not verdict.proved:
        raise (CountedTwiceError if verdict.may_pass else UnprovenError)(
            f"Window {counted.pinned.manifest.window} is not published: {verdict}. The rows of attempt "
            f"{result.attempt} stay at {result.output}."
        )


def _ask_again(client: OffsetsClient, ledger: Ledger, counted: CountedAttempt) -> None:
    """Check with Airflow's own Kafka connection that nothing has changed. The driver asked Kafka after its read."""
    manifest = counted.pinned.manifest
    if not manifest.span:
        return
    try:
        refuse_changed(client, ledger, counted.pinned)
    except WindowError as error:
        raise type(error)(
            f"{error} Therefore window {manifest.window}, which attempt {counted.result.attempt} has loaded, is not "
            "published."
        ) from error


def _later_writer(folder: WindowFolder, counted: CountedAttempt) -> str | None:
    """An attempt at the same revision that started later to write to the same place; None when there is none."""
    if counted.result.apart:
        return None
    writers = folder.writers()
    since = writers.get(counted.result.attempt, counted.result.started_ms)
    earlier = {counted.result.attempt}
    if UNKNOWN_MS in writers.values():
        # A driver that died while writing its note has no known start time; a driver that found the note started later.
        found = folder.begun_before(counted.result.attempt)
        earlier.update(attempt for attempt in found if writers.get(attempt) == UNKNOWN_MS)
    return next(
        (attempt for attempt, began_ms in sorted(writers.items()) if began_ms > since and attempt not in earlier), None
    )


def _refuse_overtaken(ledger: Ledger, counted: CountedAttempt) -> None:
    """If attempts write to the same place, refuse rows that a newer revision's rows replace. The ledger may not know
    whether they have: a Spark Connect client can't tell it that it has started."""
    if counted.result.apart:
        return
    manifest = counted.pinned.manifest
    newest = (ledger.settled(manifest.window) or counted.pinned).manifest.revision
    if newest > manifest.revision:
        raise LedgerConflictError(
            f"Revision {newest} of window {manifest.window} has been resolved since, and in "
            f"{counted.result.output} its rows replace those of revision {manifest.revision}, which is therefore "
            "not published. Clear the resolve task too: then the newest revision is loaded."
        )


def _refuse_different(ledger: Ledger, current: Publication, counted: CountedAttempt) -> None:
    """Refuse an attempt that read or wrote something else than the published attempt at the same manifest."""
    pinned, ours = counted.pinned, counted.result
    if current.manifest_sha256 != pinned.sha256 or current.attempt == ours.attempt:
        return
    theirs = ledger.window_folders.of(pinned).published_result(current)
    if not theirs.same_content(ours):
        raise UnprovenError(
            f"Attempts {theirs.attempt} (published, {theirs.rows_written} rows) and {ours.attempt} "
            f"({ours.rows_written} rows) of window {pinned.manifest.window} differ, though both read the same offsets. "
            f"Compare the rows, which stay at {theirs.output} and {ours.output}. The published ones count."
            + (" A job that isn't deterministic writes different rows each time." if ours.derived else "")
        )


def _asked_ms(counted: CountedAttempt) -> tuple[int, str]:
    source = counted.result.source
    return (0 if source is None else source.asked_ms), counted.result.attempt
