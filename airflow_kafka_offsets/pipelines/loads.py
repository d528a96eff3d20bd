"""Loads, as Airflow's side does them: whose rows count.

A proved result that nobody has published is published without Spark. Called by the Spark operators, by verify and by
``kafka-offsets ledger publish``. All they need is in the ledger and in Kafka, so any of them continues where another
one died. Which attempts begin is in :mod:`.attempts`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, TypeAlias, TypeVar

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
from airflow_kafka_offsets.ledger import file_lists, load_decisions
from airflow_kafka_offsets.ledger.counted import Counted
from airflow_kafka_offsets.ledger.entries import Entries, Output, Published
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.state import State, Window
from airflow_kafka_offsets.ledger.storage import outcomes
from airflow_kafka_offsets.offsets.instants import now_ms
from airflow_kafka_offsets.offsets.proof.run_result import RunResult
from airflow_kafka_offsets.pipelines.log_changes import changes, refuse_changed_topics

_TOGETHER = 64
"""How many windows are looked at together: as many manifests as a ledger keeps in memory."""


class _InLedger(Protocol):
    @property
    def ledger(self) -> Ledger: ...


K = TypeVar("K")
T = TypeVar("T")
L = TypeVar("L", bound=_InLedger)
Decide: TypeAlias = Callable[[State], Entries]
ClientFactory: TypeAlias = Callable[[], AbstractContextManager[OffsetsClient]]


def publish_each(client_factory: ClientFactory, counted: Mapping[K, Counted]) -> dict[K, Published | KafkaOffsetsError]:
    """Publish results, unless a publication stands already: all of a ledger by one commit. Kafka is asked again before:
    the driver asked it after its read, and a log may have been truncated since.

    :returns: for each, the publication that counts: of this result, or the one that stood. Or an error; one that can't
        be published doesn't hold up the others:

        - UnprovenError when the result isn't proved; a :class:`CountedTwiceError` if another attempt may prove it.
        - CommitConflictError when the window is to be loaded again since the attempt began, or a later attempt may have
          replaced its rows in a table.
        - LedgerConflictError when the window is gone.
        - WindowError when the topics or their logs have changed.
        - Others when Kafka can't be asked; a retry continues here.
    :raises ClusterError: when no broker can be asked.
    """
    asks = {key: or_error(partial(_must_ask, each)) for key, each in counted.items()}
    refused = {key: error for key, error in asks.items() if isinstance(error, KafkaOffsetsError)}
    refused |= _asked_again(client_factory, {key: counted[key] for key, must in asks.items() if must is True})
    return refused | publish_each_asked({key: each for key, each in counted.items() if key not in refused})


def publish_each_asked(counted: Mapping[K, Counted]) -> dict[K, Published | KafkaOffsetsError]:
    """The second half of :func:`publish_each`, after Kafka was asked."""

    def publish(each: Counted) -> Decide:
        return partial(load_decisions.publish, wish=_publication(each), manifest=each.window.manifest)

    def list_files(ledger: Ledger) -> None:
        file_lists.refresh(ledger, {each.window.name: each.result for each in stands[ledger]})

    found: dict[K, Published | KafkaOffsetsError] = {}
    found |= commit_each({key: (each.ledger, publish(each)) for key, each in counted.items()})
    left = {key: each for key, each in counted.items() if key not in found}
    stands = by_ledger_of(each for each in left.values() if _stands(each))
    listed = outcomes(list_files, stands)
    return found | {key: or_error(partial(_standing, each, listed.get(each.ledger))) for key, each in left.items()}


def commit_each(wishes: Mapping[K, tuple[Ledger, Decide]]) -> dict[K, KafkaOffsetsError]:
    """Commit what is decided about many windows, by one commit in each of their ledgers.

    :returns: why, of those about which it isn't committed: they leave the others.
    """
    by_ledger: dict[Ledger, dict[K, Decide]] = {}
    for key, (ledger, decide) in wishes.items():
        by_ledger.setdefault(ledger, {})[key] = decide
    refused: dict[K, KafkaOffsetsError] = {}
    for ledger, found in outcomes(lambda ledger: ledger.change_each(by_ledger[ledger]), by_ledger).items():
        refused |= dict.fromkeys(by_ledger[ledger], found) if isinstance(found, KafkaOffsetsError) else found
    return refused


def _publication(counted: Counted) -> Published:
    result, outputs = counted.result, tuple(map(Output.of, counted.result.outputs))
    number, sha256 = counted.attempt.number, counted.sha256
    return Published(counted.window.name, number, result.run, sha256, outputs, result.apart, now_ms())


def _stands(counted: Counted) -> bool:
    window = counted.ledger.state.windows.get(counted.window.name)
    stands = None if window is None else window.loaded
    return stands is not None and (stands.attempt, stands.run) == (counted.attempt.number, counted.result.run)


def _standing(counted: Counted, failure: KafkaOffsetsError | None) -> Published:
    """The publication that counts after a result was published, or another one stood."""
    if failure is not None:
        raise failure
    window = _now(counted)
    if window.loaded is None:
        raise CommitConflictError(
            f"Window {window.name} is to be loaded again since it was published. Run the task again."
        )
    return window.loaded


def _now(counted: Counted) -> Window:
    """The window, as the ledger was last read."""
    return counted.ledger.state.window(counted.window.name, counted.window.manifest)


def _must_ask(counted: Counted) -> bool:
    """Whether Kafka has to be asked before a result is published. Raises as :func:`publish_each`."""
    verdict, result = counted.verdict, counted.result
    if not verdict.proved:
        raise (CountedTwiceError if verdict.may_pass else UnprovenError)(
            f"Window {counted.window.name} is not published: {verdict}. The rows of attempt {result.attempt} stay at "
            f"{shorten(str(each.output) for each in result.outputs)}."
        )
    return _now(counted).loaded is None and bool(counted.window.offsets)


def _asked_again(client_factory: ClientFactory, counted: Mapping[K, Counted]) -> dict[K, KafkaOffsetsError]:
    """Check with Airflow's own Kafka connection that nothing has changed. Returns what has, or can't be asked."""
    if not counted:
        return {}
    with client_factory() as client:
        errors = changes(client, {key: each.pinned.manifest for key, each in counted.items()})
    return {key: _unpublished(counted[key], error) for key, error in errors.items() if error is not None}


def _unpublished(counted: Counted, error: KafkaOffsetsError) -> KafkaOffsetsError:
    if not isinstance(error, WindowError):
        return error
    found = type(error)(
        f"{error} Therefore window {counted.window.name}, which attempt {counted.attempt.number} has loaded, is "
        "not published."
    )
    found.__cause__ = error
    return found


def take_over(client: OffsetsClient, ledger: Ledger, window: Window, result: RunResult) -> Counted:
    """Store the result of a driver that can't reach the ledger, such as a Spark Connect client. If it couldn't ask
    Kafka after its read whether the topics are unchanged, this does.

    :raises CommitConflictError: when the window has no such attempt any more.
    :raises LedgerConflictError: when the result is another manifest's, or its run has another result already.
    :raises WindowError: when the topics aren't the ones that were resolved any more.
    """
    attempt, manifest = load_decisions.attempt_of(window, result.attempt), ledger.pinned(window).manifest
    if result.manifest_sha256 != window.manifest:
        raise LedgerConflictError(
            f"This is the result of a run at manifest {result.manifest_sha256}, but window {window.name} has manifest "
            f"{window.manifest}. Give the result of a run at this window."
        )
    files = ledger.attempt(window.name, result.attempt)
    if files.result(result.run) is None:
        unasked = result.source is None and bool(manifest.span)
        source = refuse_changed_topics(client, manifest) if unasked else result.source
        files.record_result(replace(result, source=source))
    stored = files.result(result.run)
    # If two tasks store it at the same time, one task's answer from Kafka is kept: so the sources may differ.
    if stored is None or replace(stored[0], source=result.source) != result:
        raise LedgerConflictError(
            f"Run {result.run} of attempt {result.attempt} at window {window.name} already has a different result in "
            "the ledger: a run can have only one."
        )
    return Counted(ledger, window, attempt, *stored)


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


def in_turn(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """Many windows, some at a time: what is read of all of them may be more than memory holds."""
    for first in range(0, len(items), _TOGETHER):
        yield items[first : first + _TOGETHER]


def by_ledger_of(items: Iterable[L]) -> dict[Ledger, list[L]]:
    """Windows, or what belongs to them, by their ledgers."""
    found: dict[Ledger, list[L]] = {}
    for each in items:
        found.setdefault(each.ledger, []).append(each)
    return found


def returned(outcome: T | KafkaOffsetsError) -> T:
    """What was returned; raises an error that stands in its place."""
    if isinstance(outcome, KafkaOffsetsError):
        raise outcome
    return outcome
