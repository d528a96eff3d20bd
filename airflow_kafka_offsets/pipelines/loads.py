"""Loads, as Airflow's side does them: which attempts begin, and whose rows count.

A load is nothing to do, nothing to start: a window that is published is not loaded again, and a proved result that
nobody has published is published without Spark. Called by the Spark operators, by verify and by ``kafka-offsets ledger
begin`` and ``publish``. All they need is in the ledger and in Kafka, so any of them continues where another one died.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias, TypeVar

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.errors import (
    CommitConflictError,
    ConfigurationError,
    CountedTwiceError,
    KafkaOffsetsError,
    LedgerConflictError,
    LedgerCorruptError,
    UnprovenError,
    WindowError,
    or_error,
    shorten,
)
from airflow_kafka_offsets.ledger import file_lists, load_decisions, window_status
from airflow_kafka_offsets.ledger.entries import Output, Published
from airflow_kafka_offsets.ledger.ledger import Ledger, PinnedManifest
from airflow_kafka_offsets.ledger.state import Attempt, Publication, Window
from airflow_kafka_offsets.ledger.storage import in_parallel
from airflow_kafka_offsets.offsets.instants import now_ms
from airflow_kafka_offsets.offsets.proof.audit import Verdict, judge
from airflow_kafka_offsets.offsets.proof.run_result import NO_SINK, OutputRows, RunResult, Tally
from airflow_kafka_offsets.offsets.windows.manifest import digest
from airflow_kafka_offsets.pipelines.log_changes import changes, refuse_changed_topics

_TOGETHER = 64
"""How many windows are looked at together: as many manifests as a ledger keeps in memory."""

T = TypeVar("T")
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
    (published,) = publish_each(lambda: nullcontext(client), [(ledger, counted)])
    return returned(published)


def publish_each(
    client_factory: ClientFactory, counted: Sequence[tuple[Ledger, Counted]]
) -> list[Publication | KafkaOffsetsError]:
    """Publish several results, as :func:`publish` does, with their ledgers: all of a ledger by one commit. One that
    can't be published doesn't hold up the others: its error is in its place.

    :raises ClusterError: when no broker can be asked.
    """
    refused = [or_error(partial(_must_ask, *each)) for each in counted]
    asks = [each for (_, each), outcome in zip(counted, refused, strict=True) if outcome is True]
    answers = iter(_asked_again(client_factory, asks))
    errors = [next(answers) if outcome is True else outcome or None for outcome in refused]
    published = iter(publish_each_asked([each for each, error in zip(counted, errors, strict=True) if error is None]))
    return [next(published) if error is None else error for error in errors]


def publish_asked(ledger: Ledger, counted: Counted) -> Publication:
    """The second half of :func:`publish`, after Kafka was asked. Returns and raises as that."""
    (published,) = publish_each_asked([(ledger, counted)])
    return returned(published)


def publish_each_asked(counted: Sequence[tuple[Ledger, Counted]]) -> list[Publication | KafkaOffsetsError]:
    """The second half of :func:`publish_each`."""
    wishes = [(ledger, _publication(each), each) for ledger, each in counted]
    by_ledger = by_ledger_of((ledger, (wish, each)) for ledger, wish, each in wishes)

    def commit(ledger: Ledger) -> None:
        pairs = by_ledger[ledger]
        decisions = [partial(load_decisions.publish, wish=wish, manifest=each.pinned.sha256) for wish, each in pairs]
        ledger.change(lambda state: load_decisions.allowed(state, decisions))
        ours = {wish.window: each.result for wish, each in pairs if _stands(ledger, wish)}
        file_lists.refresh(ledger, ours)

    committed = in_parallel(lambda ledger: or_error(partial(commit, ledger)), by_ledger)
    outcomes = dict(zip(by_ledger, committed, strict=True))
    return [or_error(partial(_standing, outcomes[each[0]], *each)) for each in wishes]


def _standing(outcome: KafkaOffsetsError | None, ledger: Ledger, wish: Published, counted: Counted) -> Publication:
    """The publication that counts after it was tried to publish a result; or why there is none."""
    returned(outcome)
    window = load_decisions.window_read_from(ledger.state, wish.window, counted.pinned.sha256)
    if window.loaded is not None:
        return window.loaded
    load_decisions.publish(ledger.state, wish, counted.pinned.sha256)
    raise CommitConflictError(f"Window {wish.window} is to be loaded again since it was published. Run the task again.")


def _stands(ledger: Ledger, wish: Published) -> bool:
    window = ledger.state.windows.get(wish.window)
    stands = None if window is None else window.loaded
    return stands is not None and (stands.attempt, stands.run) == (wish.attempt, wish.run)


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


def count_nothing(ledger: Ledger, window: Window, pinned: PinnedManifest, attempt: Attempt) -> Counted:
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


def _must_ask(ledger: Ledger, counted: Counted) -> bool:
    """Whether Kafka has to be asked before a result is published. Raises as :func:`publish`."""
    _refuse_unproved(counted)
    window = load_decisions.window_read_from(ledger.state, counted.window.name, counted.pinned.sha256)
    return window.loaded is None and bool(counted.pinned.manifest.span)


def _asked_again(client_factory: ClientFactory, counted: Sequence[Counted]) -> list[KafkaOffsetsError | None]:
    """Check with Airflow's own Kafka connection that nothing has changed."""
    if not counted:
        return []
    with client_factory() as client:
        errors = changes(client, [each.pinned.manifest for each in counted])
    return [_unpublished(each, error) for each, error in zip(counted, errors, strict=True)]


def _unpublished(counted: Counted, error: KafkaOffsetsError | None) -> KafkaOffsetsError | None:
    if not isinstance(error, WindowError):
        return error
    found = type(error)(
        f"{error} Therefore window {counted.window.name}, which attempt {counted.attempt.number} has loaded, is "
        "not published."
    )
    found.__cause__ = error
    return found


def in_turn(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """Many windows, some at a time: what is read of all of them may be more than memory holds."""
    for first in range(0, len(items), _TOGETHER):
        yield items[first : first + _TOGETHER]


def by_ledger_of(pairs: Iterable[tuple[Ledger, T]]) -> dict[Ledger, list[T]]:
    found: dict[Ledger, list[T]] = {}
    for ledger, each in pairs:
        found.setdefault(ledger, []).append(each)
    return found


def returned(outcome: T | KafkaOffsetsError) -> T:
    """What was returned; raises an error that stands in its place."""
    if isinstance(outcome, KafkaOffsetsError):
        raise outcome
    return outcome
