"""Attempts: which loads begin, and which have nothing to do.

Nothing to do, nothing started: a window that is published is not loaded again, and a proved result that nobody has
published is published without Spark. Called by the Spark operators and by ``kafka-offsets ledger begin``.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

from airflow_kafka_offsets.arguments import DataLossPolicy
from airflow_kafka_offsets.errors import ConfigurationError, KafkaOffsetsError, UnprovenError, or_error
from airflow_kafka_offsets.ledger import load_decisions
from airflow_kafka_offsets.ledger.attempt_files import note_file
from airflow_kafka_offsets.ledger.counted import Counted, left_to_publish
from airflow_kafka_offsets.ledger.entries import Attempted, Entries, Published, Refused, Reloaded
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.state import State, Window
from airflow_kafka_offsets.ledger.storage import in_parallel, outcomes
from airflow_kafka_offsets.offsets import plain_json
from airflow_kafka_offsets.offsets.instants import now_ms
from airflow_kafka_offsets.offsets.partitions import LogRange
from airflow_kafka_offsets.offsets.proof.driver_notes import one_line
from airflow_kafka_offsets.offsets.proof.run_result import NO_SINK, OutputRows, RunResult, Tally
from airflow_kafka_offsets.offsets.windows.manifest import Manifest, digest
from airflow_kafka_offsets.pipelines.loads import ClientFactory, commit_each, in_turn, publish_each, publish_each_asked
from airflow_kafka_offsets.pipelines.log_changes import lost_of_each

K = TypeVar("K")
_MOST_ABOVE = 100_000
"""How far a ledger is behind its copy at most, in commits."""
_LONGEST_REASON = 500
"""How long the words of a refusal are at most: they are in the log, for each window."""


class Wanted(NamedTuple):
    """A window that is to be loaded.

    :param ledger: the one that it is in; the same object for all windows of a ledger.
    :param name: the window's name.
    :param manifest: hash of the manifest that the caller has.
    """

    ledger: Ledger
    name: str
    manifest: str

    @property
    def window(self) -> Window:
        """The window, as the ledger was last read.

        :raises LedgerConflictError: when it isn't there, or is another one of that name.
        """
        return self.ledger.state.window(self.name, self.manifest)

    @property
    def found(self) -> Window | None:
        """The same; None when it isn't there."""
        window = or_error(lambda: self.window)
        return None if isinstance(window, KafkaOffsetsError) else window

    def unpublished(self) -> UnprovenError:
        """The error for a window that isn't published, or not since it is to be loaded again."""
        state, way = "was never published", "run its load first"
        if self.window.publication is not None:
            state = "is to be loaded again"
            way += f", or take that back: kafka-offsets ledger reload {self.ledger.pipeline} {self.name} --take-back"
        return UnprovenError(f"Window {self.name} {state}: {way}.")


def begin_each(
    wanted: Sequence[Wanted],
    client_factory: ClientFactory,
    who: Mapping[str, Any],
    on_data_loss: DataLossPolicy = "fail",
    check: Callable[[], None] | None = None,
) -> dict[Wanted, Attempted | Published | KafkaOffsetsError]:
    """Begin to load windows, unless there is nothing to do: one is published; or an attempt of before is proved, or it
    has no offsets (S6), and it is published here. All attempts in a ledger begin by one commit.

    :param wanted: the windows, of one cluster; each once.
    :param client_factory: gives the client, for when Kafka has to be asked.
    :param who: the Airflow task and its try, or whoever else loads them, as plain JSON.
    :param on_data_loss: what to do if Kafka no longer has all records: ``load_rest`` loads the others.
    :param check: called before attempts begin, if any is to, and may refuse that by an exception.
    :returns: for each, the attempt that began, for a driver to make; or the publication that satisfies the load. Or an
        error, as of :func:`.log_changes.lost_of_each` and :func:`.loads.publish_each`, or a LedgerConflictError when
        the window isn't there, or is another one of that name: one that can't be loaded doesn't hold up the others.
    :raises ClusterError: when Kafka has to be asked, and no broker can be.
    """
    found: dict[Wanted, Attempted | Published | KafkaOffsetsError] = {}
    lost: dict[Wanted, tuple[LogRange, ...]] = {}
    for some in in_turn(wanted):
        ready = outcomes(_ready, some)
        found |= {each: there for each, there in ready.items() if isinstance(there, Published | KafkaOffsetsError)}
        found |= publish_each(
            client_factory, {each: there for each, there in ready.items() if isinstance(there, Counted)}
        )
        manifests = {each: there for each, there in ready.items() if isinstance(there, Manifest)}
        for each, gone in _lost(client_factory, manifests, on_data_loss).items():
            if isinstance(gone, KafkaOffsetsError):
                found[each] = gone
            else:
                lost[each] = gone
    if check is not None and any(each.ledger.state.needs_driver(each.window) for each in lost):
        check()
    found |= _begun(lost, who)
    return {each: found[each] for each in wanted}


def refuse_each(refused: Mapping[Wanted, KafkaOffsetsError], who: Mapping[str, Any]) -> None:
    """Record why loads were refused before an attempt began, so that people see it where they look for the window. A
    ledger that can't be written to keeps nobody from raising the error itself."""
    now = now_ms()

    def wish(each: Wanted, error: KafkaOffsetsError) -> Refused:
        return Refused(each.name, who, type(error).__name__, one_line(str(error), _LONGEST_REASON), now)

    commit_each(
        {
            each: (each.ledger, partial(load_decisions.refuse, wish=wish(each, error), manifest=each.manifest))
            for each, error in refused.items()
        }
    )


def _ready(wanted: Wanted) -> Published | Counted | Manifest:
    """What there is of a window: its publication, else what may be published, else only its manifest."""
    window = wanted.window
    if window.loaded is not None:
        return window.loaded
    return left_to_publish(wanted.ledger, window) or wanted.ledger.pinned(window).manifest


def _lost(
    client_factory: ClientFactory, manifests: Mapping[K, Manifest], on_data_loss: DataLossPolicy
) -> dict[K, tuple[LogRange, ...] | KafkaOffsetsError]:
    """What Kafka no longer has of windows; it isn't asked about those without offsets."""
    lost: dict[K, tuple[LogRange, ...] | KafkaOffsetsError] = dict.fromkeys(manifests, ())
    asked = {key: manifest for key, manifest in manifests.items() if manifest.span}
    if asked:
        with client_factory() as client:
            lost |= lost_of_each(client, asked, on_data_loss)
    return lost


def _begun(
    lost: Mapping[Wanted, tuple[LogRange, ...]], who: Mapping[str, Any]
) -> dict[Wanted, Attempted | Published | KafkaOffsetsError]:
    """Begin attempts, by one commit in each ledger. Those that have nothing to read or write are published here."""
    now = now_ms()
    wishes = {
        each: partial(load_decisions.begin, wish=Attempted(each.name, who, gone, now), manifest=each.manifest)
        for each, gone in lost.items()
    }
    begun: dict[Wanted, Attempted | Published | KafkaOffsetsError] = {}
    begun |= commit_each({each: (each.ledger, wish) for each, wish in wishes.items()})
    begun |= {each: each.window.loaded or each.window.attempts[-1] for each in lost if each not in begun}
    empty = {
        each: attempt
        for each, attempt in begun.items()
        if isinstance(attempt, Attempted) and not each.ledger.state.needs_driver(each.window)
    }
    counted = in_parallel(lambda each: count_nothing(each.ledger, each.window, empty[each]), empty)
    return begun | publish_each_asked(dict(zip(empty, counted, strict=True)))


def count_nothing(ledger: Ledger, window: Window, attempt: Attempted) -> Counted:
    """Store the counts of an attempt that has nothing to read or write, so that no job is needed."""
    result = RunResult(
        attempt=attempt.number,
        run=secrets.token_hex(4),
        manifest_sha256=window.manifest,
        application_id=None,
        outputs=(OutputRows("", None, NO_SINK, apart=True, rows=0),),
        read=Tally(),
        written=(),
        seconds=0.0,
    )
    ledger.attempt(window.name, attempt.number).record_result(result)
    return Counted(ledger, window, attempt, result, digest(plain_json.to_bytes(result)))


def unloadable(
    ledger: Ledger,
    client_factory: ClientFactory,
    names: Collection[str],
    by: str | None = None,
    on_data_loss: DataLossPolicy = "fail",
) -> dict[str, KafkaOffsetsError]:
    """The windows that can't be loaded again, as Kafka no longer has them: after a reload, their rows wouldn't
    satisfy a load any more, and no load could replace them. Asks Kafka only about windows for which a reload would
    change something.

    :param on_data_loss: ``load_rest`` accepts that only the remaining records can be loaded.
    :returns: why, by window.
    :raises: as :func:`.load_decisions.reload`.
    """
    again = [ledger.window(entry.window) for entry in load_decisions.reload(ledger.state, names, by)]
    found: dict[str, KafkaOffsetsError] = {}
    for some in in_turn([window for window in again if window.offsets]):
        manifests = in_parallel(lambda window: ledger.pinned(window).manifest, some)
        lost = _lost(client_factory, {each.window: each for each in manifests}, on_data_loss)
        found |= {name: error for name, error in lost.items() if isinstance(error, KafkaOffsetsError)}
    return found


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

    def one_more(state: State) -> Entries:
        return (Reloaded(state.window(name).name),) if state.number < number else ()

    while ledger.change(one_more):
        pass
