"""Loads, as Airflow's side does them: which attempts begin, and whose rows count.

A load is nothing to do, nothing to start: a window that is published is not loaded again, and a proved result that
nobody has published is published without Spark. Called by the Spark operators, by verify and by ``kafka-offsets ledger
begin`` and ``publish``. All they need is in the ledger and in Kafka, so any of them continues where another one died.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.errors import (
    CommitConflictError,
    ConfigurationError,
    CountedTwiceError,
    LedgerConflictError,
    LedgerCorruptError,
    UnprovenError,
    WindowError,
    shorten,
)
from airflow_kafka_offsets.ledger import file_lists, load_decisions, window_status
from airflow_kafka_offsets.ledger.attempt_files import note_file
from airflow_kafka_offsets.ledger.entries import Attempted, Output, Published
from airflow_kafka_offsets.ledger.ledger import Ledger, PinnedManifest
from airflow_kafka_offsets.ledger.state import Attempt, Publication, Window
from airflow_kafka_offsets.offsets.instants import now_ms
from airflow_kafka_offsets.offsets.partitions import LogRange
from airflow_kafka_offsets.offsets.proof.audit import Verdict, judge
from airflow_kafka_offsets.offsets.proof.run_result import NO_SINK, OutputRows, RunResult, Tally
from airflow_kafka_offsets.offsets.windows.manifest import digest
from airflow_kafka_offsets.offsets.windows.policies import DataLossPolicy
from airflow_kafka_offsets.pipelines.log_changes import refuse_changed, refuse_changed_topics
from airflow_kafka_offsets.pipelines.preflight import lost_of

_MOST_ABOVE = 100_000
"""How far a ledger is behind its copy at most, in commits."""

ClientFactory: TypeAlias = Callable[[], AbstractContextManager[OffsetsClient]]


@dataclass(frozen=True, slots=True)
class Counted:
    """What one driver of an attempt has counted.

    :param window: the window that it loaded.
    :param pinned: the window's manifest.
    :param attempt: the attempt, with what was lost when it began.
    :param result: the counts.
    :param sha256: hash of the result's file.
    """

    window: Window
    pinned: PinnedManifest
    attempt: Attempt
    result: RunResult
    sha256: str

    @property
    def verdict(self) -> Verdict:
        """Whether the result is proved: read = written = the manifest without what was lost."""
        return judge(self.pinned.manifest, self.result, self.attempt.lost)


@dataclass(frozen=True, slots=True)
class Begun:
    """What a load has to do.

    :param window: the window, as the log has it now.
    :param pinned: its manifest.
    :param attempt: the attempt that began, for a driver to make; None when there is nothing to load.
    :param publication: the publication that satisfies the load; None when an attempt began.
    """

    window: Window
    pinned: PinnedManifest
    attempt: Attempt | None
    publication: Publication | None


def begin(
    ledger: Ledger,
    client_factory: ClientFactory,
    name: str,
    manifest_sha256: str,
    who: Mapping[str, Any],
    on_data_loss: DataLossPolicy = "fail",
) -> Begun:
    """Begin to load a window, unless there is nothing to do: it is published; or an attempt of before is proved, or it
    has no offsets (S6), and it is published here.

    :param client_factory: gives the client, for when Kafka has to be asked.
    :param name: the window's name.
    :param manifest_sha256: hash of the manifest that the caller has.
    :param who: the Airflow task and its try, or whoever else loads it, as plain JSON.
    :param on_data_loss: what to do if Kafka no longer has all records: ``load_rest`` loads the others.
    :raises LedgerConflictError: when the window isn't there, or is another one of that name.
    :raises: as :func:`.preflight.lost_of` and :func:`publish`.
    """
    window = load_decisions.window_read_from(ledger.state, name, manifest_sha256)
    pinned = ledger.pinned(window)
    if window.loaded is not None:
        return Begun(window, pinned, None, window.loaded)
    left = left_to_publish(ledger, window)
    if left is not None:
        with client_factory() as client:
            publication = publish(client, ledger, left)
        return Begun(ledger.window(name), pinned, None, publication)
    lost: tuple[LogRange, ...] = ()
    if pinned.manifest.span:
        with client_factory() as client:
            lost = lost_of(client, pinned.manifest, on_data_loss)
    wish = Attempted(name, who, lost, now_ms())
    number = ledger.change(lambda state: load_decisions.begin(state, wish, manifest_sha256))
    now = ledger.window(name)
    attempt = now.attempt(number)
    if attempt is None or ledger.state.needs_driver(now):
        return Begun(now, pinned, attempt, now.loaded)
    publication = publish_asked(ledger, _count_nothing(ledger, now, pinned, attempt))
    return Begun(ledger.window(name), pinned, None, publication)


def reload(ledger: Ledger, names: Collection[str], by: str | None = None) -> int:
    """Say that windows are to be loaded again, though nothing about them has changed.

    :param by: the run of a task that asks for it, whose retries don't ask again; None for a command.
    :returns: the commit's number; 0 if they were never loaded, or the run has asked before.
    :raises LedgerConflictError: when one isn't there.
    """
    return ledger.change(lambda state: load_decisions.reload(state, names, by))


def refuse_unloadable(
    ledger: Ledger,
    client_factory: ClientFactory,
    names: Collection[str],
    by: str | None = None,
    on_data_loss: DataLossPolicy = "fail",
) -> None:
    """Refuse to :func:`reload` windows that Kafka no longer has: their rows wouldn't satisfy a load any more, and no
    load could replace them. Asks Kafka only about windows for which that would change something.

    :param on_data_loss: ``load_rest`` accepts that only the remaining records can be loaded.
    :raises: as :func:`.preflight.lost_of`, and :func:`.load_decisions.reload`.
    """
    again = [ledger.window(entry.window) for entry in load_decisions.reload(ledger.state, names, by)]
    manifests = [ledger.pinned(window).manifest for window in again if window.offsets]
    if manifests:
        with client_factory() as client:
            for manifest in manifests:
                lost_of(client, manifest, on_data_loss)


def outnumber(ledger: Ledger, name: str, number: int, run: str) -> None:
    """Have the ledger know an attempt that another copy of it has begun, and begin later ones with higher numbers: so
    they may replace its rows in a table. For a ledger that was restored from before that attempt.

    :param name: the window's name.
    :param number: the attempt's number.
    :param run: the driver whose rows the table has.
    :raises LedgerConflictError: when the window isn't there.
    :raises ConfigurationError: when the number is too high to be one of this ledger's copies.
    """
    window, above = ledger.window(name), number - ledger.state.number
    if above > _MOST_ABOVE:
        raise ConfigurationError(
            f"Attempt {number} is {above} numbers above this ledger's log: that is no copy of it. Check the number in "
            "the error's message."
        )
    files = ledger.attempt(window.name, number)
    ledger.files.create(f"{files.folder}/{note_file(run)}", b"{}")
    while ledger.change(lambda state: load_decisions.outnumber(state, name, number)):
        pass


def counted(ledger: Ledger, window: Window, number: int) -> list[Counted]:
    """What the drivers of an attempt have counted so far, in the order of their runs.

    :raises CommitConflictError: when the window has no such attempt any more.
    """
    attempt, pinned = load_decisions.attempt_of(window, number), ledger.pinned(window)
    results = ledger.attempt(window.name, number).results()
    return [Counted(window, pinned, attempt, result, sha256) for result, sha256 in results]


def published_counts(ledger: Ledger, window: Window, publication: Publication) -> Counted:
    """What the published driver of a window has counted.

    :raises LedgerCorruptError: when its result is missing, or was changed since.
    """
    attempt = load_decisions.attempt_of(window, publication.attempt)
    result = ledger.published_result(window.name, publication)
    return Counted(window, ledger.pinned(window), attempt, result, publication.result)


def left_to_publish(ledger: Ledger, window: Window) -> Counted | None:
    """What of a window is proved and may be published, but isn't: see :func:`.window_status.left_to_publish`."""
    found = window_status.left_to_publish(ledger, window)
    return None if found is None else Counted(window, ledger.pinned(window), *found)


def publish(client: OffsetsClient, ledger: Ledger, counted: Counted) -> Publication:
    """Publish a result, unless a publication stands already. Kafka is asked again before: the driver asked it after its
    read, and a log may have been truncated since.

    :returns: the publication that counts: of this result, or the one that stood.
    :raises UnprovenError: when the result isn't proved; a :class:`CountedTwiceError` if another attempt may prove it.
    :raises CommitConflictError: when the window is to be loaded again since the attempt began, or a later attempt may
        have replaced its rows in a table.
    :raises LedgerConflictError: when the window is gone.
    :raises WindowError: when the topics or their logs have changed.
    :raises KafkaOffsetsError: when Kafka can't be asked; nothing is published then, and a retry continues here.
    """
    _refuse_unproved(counted)
    window = load_decisions.window_read_from(ledger.state, counted.window.name, counted.pinned.sha256)
    if window.loaded is None:
        _ask_again(client, counted)
    return publish_asked(ledger, counted)


def publish_asked(ledger: Ledger, counted: Counted) -> Publication:
    """The second half of :func:`publish`, after Kafka was asked. Returns and raises as that."""
    name, wish = counted.window.name, _publication(counted)
    ledger.change(lambda state: load_decisions.publish(state, wish, counted.pinned.sha256))
    window = ledger.window(name)
    stands = window.loaded
    if stands is None:
        raise CommitConflictError(f"Window {name} is to be loaded again since it was published. Run the task again.")
    if (stands.attempt, stands.run) == (wish.attempt, wish.run):
        file_lists.refresh(ledger, {name: counted.result})
    return stands


def take_over(client: OffsetsClient, ledger: Ledger, window: Window, number: int, result: RunResult) -> Counted:
    """Store the result of a driver that can't reach the ledger, such as a Spark Connect client. If it couldn't ask
    Kafka after its read whether the topics are unchanged, this does.

    :raises LedgerConflictError: when the result is another attempt's or another manifest's, or its run has another
        result already.
    :raises WindowError: when the topics aren't the ones that were resolved any more.
    """
    attempt, pinned = load_decisions.attempt_of(window, number), ledger.pinned(window)
    files = ledger.attempt(window.name, number)
    if (result.attempt, result.manifest_sha256) != (number, pinned.sha256):
        raise LedgerConflictError(
            f"This is the result of attempt {result.attempt} at manifest {result.manifest_sha256}, but it was given "
            f"for attempt {number} at window {window.name} (manifest {pinned.sha256}). Give the result and the attempt "
            "of the same run."
        )
    if files.result(result.run) is None:
        unasked = result.source is None and bool(pinned.manifest.span)
        source = refuse_changed_topics(client, pinned.manifest) if unasked else result.source
        files.record_result(replace(result, source=source))
    stored = files.result(result.run)
    # If two tasks store it at the same time, one task's answer from Kafka is kept: so the sources may differ.
    if stored is None or replace(stored[0], source=result.source) != result:
        raise LedgerConflictError(
            f"Run {result.run} of attempt {number} at window {window.name} already has a different result in the "
            "ledger: a run can have only one."
        )
    return Counted(window, pinned, attempt, *stored)


def _count_nothing(ledger: Ledger, window: Window, pinned: PinnedManifest, attempt: Attempt) -> Counted:
    """Store the counts of an attempt that has nothing to read or write, so that no job is needed."""
    result = RunResult(
        attempt=attempt.number,
        run=secrets.token_hex(4),
        manifest_sha256=pinned.sha256,
        application_id=None,
        outputs=(OutputRows("", None, NO_SINK, apart=True, rows=0),),
        read=Tally(),
        written=(),
        seconds=0.0,
    )
    ledger.attempt(window.name, attempt.number).record_result(result)
    return Counted(window, pinned, attempt, result, digest(result.to_bytes()))


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


def _publication(counted: Counted) -> Published:
    result = counted.result
    return Published(
        window=counted.window.name,
        attempt=counted.attempt.number,
        run=result.run,
        result=counted.sha256,
        outputs=tuple(map(Output.of, result.outputs)),
        apart=result.apart,
        published_ms=now_ms(),
    )


def _refuse_unproved(counted: Counted) -> None:
    verdict, result = counted.verdict, counted.result
    if not verdict.proved:
        raise (CountedTwiceError if verdict.may_pass else UnprovenError)(
            f"Window {counted.window.name} is not published: {verdict}. The rows of attempt {result.attempt} stay at "
            f"{shorten(str(each.output) for each in result.outputs)}."
        )


def _ask_again(client: OffsetsClient, counted: Counted) -> None:
    """Check with Airflow's own Kafka connection that nothing has changed."""
    if not counted.pinned.manifest.span:
        return
    try:
        refuse_changed(client, counted.pinned.manifest)
    except WindowError as error:
        raise type(error)(
            f"{error} Therefore window {counted.window.name}, which attempt {counted.attempt.number} has loaded, is "
            "not published."
        ) from error
