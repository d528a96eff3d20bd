"""Attempts: which loads begin, and which have nothing to do.

A load is nothing to do, nothing to start: a window that is published is not loaded again, and a proved result that
nobody has published is published without Spark. Called by the Spark operators and by ``kafka-offsets ledger begin``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from airflow_kafka_offsets.errors import ConfigurationError, KafkaOffsetsError, or_error
from airflow_kafka_offsets.ledger import load_decisions
from airflow_kafka_offsets.ledger.attempt_files import note_file
from airflow_kafka_offsets.ledger.entries import Attempted
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.state import Attempt, Publication, Window
from airflow_kafka_offsets.ledger.storage import in_parallel
from airflow_kafka_offsets.offsets.instants import now_ms
from airflow_kafka_offsets.offsets.partitions import LogRange
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.offsets.windows.policies import DataLossPolicy
from airflow_kafka_offsets.pipelines.loads import (
    ClientFactory,
    Counted,
    by_ledger_of,
    count_nothing,
    in_turn,
    left_to_publish,
    publish_each,
    publish_each_asked,
    returned,
)
from airflow_kafka_offsets.pipelines.preflight import lost_of_each

_MOST_ABOVE = 100_000
"""How far a ledger is behind its copy at most, in commits."""


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
        return load_decisions.window_read_from(self.ledger.state, self.name, self.manifest)

    @property
    def found(self) -> Window | None:
        """The same; None when it isn't there."""
        window = or_error(lambda: self.window)
        return None if isinstance(window, KafkaOffsetsError) else window


@dataclass(frozen=True, slots=True)
class Begun:
    """What a load has to do.

    :param window: the window, as the log has it now.
    :param attempt: the attempt that began, for a driver to make; None when there is nothing to load.
    :param publication: the publication that satisfies the load; None when an attempt began.
    """

    window: Window
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
    (begun,) = begin_each([Wanted(ledger, name, manifest_sha256)], client_factory, who, on_data_loss)
    return returned(begun)


def begin_each(
    wanted: Sequence[Wanted],
    client_factory: ClientFactory,
    who: Mapping[str, Any],
    on_data_loss: DataLossPolicy = "fail",
) -> list[Begun | KafkaOffsetsError]:
    """Begin to load several windows, as :func:`begin` does: all attempts in a ledger by one commit. One that can't be
    loaded doesn't hold up the others: its error is in its place.

    :param wanted: the windows, of one cluster; each once.
    :raises ClusterError: when Kafka has to be asked, and no broker can be.
    """
    found: dict[Wanted, Begun | KafkaOffsetsError] = {}
    lost: dict[Wanted, tuple[LogRange, ...]] = {}
    for some in in_turn(wanted):
        for each, outcome in zip(some, _looked_at(some, client_factory, on_data_loss), strict=True):
            if isinstance(outcome, tuple):
                lost[each] = outcome
            else:
                found[each] = outcome
    found |= _begun(lost, who)
    return [found[each] for each in wanted]


def _looked_at(
    wanted: Sequence[Wanted], client_factory: ClientFactory, on_data_loss: DataLossPolicy
) -> Iterator[Begun | KafkaOffsetsError | tuple[LogRange, ...]]:
    """For each window what there is of it already; or what Kafka no longer has of it, if an attempt has to begin."""
    looked = in_parallel(lambda each: or_error(lambda: _ready(each)), wanted)
    left = [(each.ledger, found) for each, found in zip(wanted, looked, strict=True) if isinstance(found, Counted)]
    published = iter(publish_each(client_factory, left))
    asked = [found for found in looked if isinstance(found, Manifest) and found.span]
    lost = iter(_lost(client_factory, asked, on_data_loss))
    for each, found in zip(wanted, looked, strict=True):
        if isinstance(found, Manifest):
            yield next(lost) if found.span else ()
            continue
        outcome = next(published) if isinstance(found, Counted) else found
        yield outcome if isinstance(outcome, KafkaOffsetsError) else Begun(each.window, None, outcome)


def _ready(wanted: Wanted) -> Publication | Counted | Manifest:
    """What there is of a window: its publication, else what may be published, else only its manifest."""
    window = wanted.window
    if window.loaded is not None:
        return window.loaded
    return left_to_publish(wanted.ledger, window) or wanted.ledger.pinned(window).manifest


def _lost(
    client_factory: ClientFactory, manifests: Sequence[Manifest], on_data_loss: DataLossPolicy
) -> list[tuple[LogRange, ...] | KafkaOffsetsError]:
    if not manifests:
        return []
    with client_factory() as client:
        return lost_of_each(client, manifests, on_data_loss)


def _begun(
    lost: Mapping[Wanted, tuple[LogRange, ...]], who: Mapping[str, Any]
) -> dict[Wanted, Begun | KafkaOffsetsError]:
    """Begin attempts, by one commit in each ledger. Those that have nothing to read or write are published here."""
    wishes = {each: Attempted(each.name, who, gone, now_ms()) for each, gone in lost.items()}
    by_ledger = by_ledger_of((each.ledger, each) for each in wishes)

    def commit(ledger: Ledger) -> int:
        decisions = [
            partial(load_decisions.begin, wish=wishes[each], manifest=each.manifest) for each in by_ledger[ledger]
        ]
        return ledger.change(lambda state: load_decisions.allowed(state, decisions))

    committed = in_parallel(lambda ledger: or_error(partial(commit, ledger)), by_ledger)
    numbers = dict(zip(by_ledger, committed, strict=True))
    begun = {each: or_error(partial(_after, each, numbers[each.ledger])) for each in wishes}
    return begun | _published_empty(
        {each: found.attempt for each, found in begun.items() if isinstance(found, Begun) and found.attempt is not None}
    )


def _after(wanted: Wanted, number: int | KafkaOffsetsError) -> Begun:
    """What has become of a window by the commit that was to begin an attempt at it."""
    window, number = wanted.window, returned(number)
    return Begun(window, window.attempt(number), window.loaded)


def _published_empty(attempts: Mapping[Wanted, Attempt]) -> dict[Wanted, Begun | KafkaOffsetsError]:
    """Publish the windows that need no driver, so that no job is started for them."""
    empty = [each for each in attempts if not each.ledger.state.needs_driver(each.window)]

    def count(each: Wanted) -> tuple[Ledger, Counted]:
        window = each.window
        return each.ledger, count_nothing(each.ledger, window, each.ledger.pinned(window), attempts[each])

    stands = publish_each_asked(in_parallel(count, empty))
    return {
        each: found if isinstance(found, KafkaOffsetsError) else Begun(each.window, None, found)
        for each, found in zip(empty, stands, strict=True)
    }


def reload(ledger: Ledger, names: Collection[str], by: str | None = None) -> int:
    """Say that windows are to be loaded again, though nothing about them has changed.

    :param by: the run of a task that asks for it, whose retries don't ask again; None for a command.
    :returns: the commit's number; 0 if they were never loaded, or the run has asked before.
    :raises LedgerConflictError: when one isn't there.
    """
    return ledger.change(lambda state: load_decisions.reload(state, names, by))


def unloadable(
    ledger: Ledger,
    client_factory: ClientFactory,
    names: Collection[str],
    by: str | None = None,
    on_data_loss: DataLossPolicy = "fail",
) -> dict[str, KafkaOffsetsError]:
    """The windows that can't be loaded again, as Kafka no longer has them: after a :func:`reload` their rows wouldn't
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
        lost = _lost(client_factory, manifests, on_data_loss)
        found |= {window.name: each for window, each in zip(some, lost, strict=True) if not isinstance(each, tuple)}
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
    while ledger.change(lambda state: load_decisions.outnumber(state, name, number)):
        pass
