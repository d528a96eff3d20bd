"""Tasks: what the operators and commands do with windows, without Airflow and with another loader.

A load resolves and pins its window, begins an attempt, has a loader read exactly what is left of the manifest's ranges
and write the rows and the counts, and publishes. Windows that must not be published are tried in the same way: the task
itself re-creates their topics after they were pinned.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import partial
from typing import Protocol

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.errors import LedgerConflictError
from airflow_kafka_offsets.ledger import corrections, file_lists, load_decisions
from airflow_kafka_offsets.ledger.counted import Counted, counted as counted_by
from airflow_kafka_offsets.ledger.entries import Attempted, Entries, Published
from airflow_kafka_offsets.ledger.ledger import Ledger, PinnedManifest
from airflow_kafka_offsets.ledger.load_decisions import attempt_of
from airflow_kafka_offsets.ledger.state import State, Window
from airflow_kafka_offsets.offsets.instants import now_ms
from airflow_kafka_offsets.offsets.proof.driver_notes import FailureNote
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.windows.ledger_names import window_id
from airflow_kafka_offsets.offsets.windows.snapshots import AsOf, AsOfKind
from airflow_kafka_offsets.pipelines import attempts, loads
from airflow_kafka_offsets.pipelines.log_changes import restart_found
from airflow_kafka_offsets.pipelines.resolver import Resolver
from tests.chaos import remade
from tests.chaos.plan import Kind, Moment
from tests.chaos.settings import Order, Ref, Said, Settings


class Loader(Protocol):
    """Reads, writes and counts windows."""

    def load(
        self, store: str, ledger: Ledger, pinned: PinnedManifest, attempt: Attempted, meanwhile: Callable[[], None]
    ) -> None:
        """Read and write what an attempt has of a window, and write the counts to the ledger, as one driver does.

        :param meanwhile: called just before the window's records are read.
        :raises LedgerConflictError: when the attempt can't be published any more.
        """

    def close(self) -> None: ...


class Tasks:
    """One task, with the ledger as it is now."""

    def __init__(self, settings: Settings, client: OffsetsClient, loader: Loader, order: Order) -> None:
        self._servers = settings.bootstrap_servers
        self._client = client
        self._loader = loader
        self._order = order
        self._task = order.task
        self._place = settings.places[order.task.store]
        at_least = 0 if order.ref is None else order.ref.commit
        self._ledger = self._place.ledger(patient=settings.patient, at_least=at_least)

    def do(self) -> Said:
        """Do it, and say how it ended."""
        kinds: Mapping[str, Callable[[], Said]] = {
            **dict.fromkeys((Kind.LOAD, Kind.INCREMENT, Kind.REMADE), self._load),
            **dict.fromkeys((Kind.PIN, Kind.CUT), self._pin),
            Kind.RELOAD: self._reload,
            Kind.BEGIN: self._begin,
            Kind.DRIVER: self._drive,
            Kind.VOID: self._void,
            Kind.REWIND: self._rewind,
            Kind.RESTART: self._restart,
        }
        return kinds[self._task.kind]()

    @property
    def _name(self) -> str:
        return window_id(*self._task.times)

    def _window(self) -> Window:
        """The task's window, as the task before this one has pinned it, or else resolved now."""
        if self._order.ref is not None:
            return self._ledger.read().window(self._name, self._order.ref.manifest)
        level = IsolationLevel(self._place.isolation_level)
        resolver = Resolver(self._client, self._ledger, self._place.topics, level, "warn")
        if self._task.kind in (Kind.INCREMENT, Kind.RESTART):
            found = resolver.increment(f"run{self._task.start_ms}", AsOf(AsOfKind.EARLIEST))
        else:
            (found,) = resolver.windows([self._task.times])
        return self._ledger.window(found.pinned.manifest.window)

    def _pin(self) -> Said:
        window = self._window()
        return Said("done", f"{self._task.kind} {Moment.PINNED}", ref=Ref(window.manifest, self._ledger.state.number))

    def _load(self) -> Said:
        return self._loaded(self._window())

    def _reload(self) -> Said:
        window = self._window()
        by = f"run{self._task.number}"
        self._ledger.change(lambda state: load_decisions.reload(state, [window.name], by))
        return self._loaded(self._ledger.window(window.name), "again")

    def _loaded(self, window: Window, words: str = "") -> Said:
        """Do what the load's task does, and the task after it, which corrects the list of files if necessary."""
        said = self._load_window(window, words)
        file_lists.correct(self._ledger, window.name)
        return Said("done", said, window=(window.start_ms, window.end_ms))

    def _load_window(self, window: Window, words: str) -> str:
        stood = window.loaded
        self._remake(Moment.PINNED)
        begun = self._begun(window)
        if isinstance(begun, Published):
            return "stands" if stood is not None else "published, loaded before"
        self._remake(Moment.CHECKED)
        counted = self._counted(begun)
        self._remake(Moment.COUNTED)
        if counted is None:
            return "second"
        return self._published(counted, words or ("the rest" if begun.lost else ""))

    def _begun(self, window: Window) -> Attempted | Published:
        wanted, who = attempts.Wanted(self._ledger, window.name, window.manifest), {"task": self._task.number}
        begun = attempts.begin_each([wanted], lambda: nullcontext(self._client), who, "load_rest")
        return loads.returned(begun[wanted])

    def _counted(self, begun: Attempted) -> Counted | None:
        """Have an attempt loaded. None if a later one was published meanwhile."""
        window = self._ledger.window(begun.window)
        try:
            self._run(self._ledger.pinned(window), begun, partial(self._remake, Moment.READING))
        except LedgerConflictError:
            if self._overtaken(window.name, begun) is None:
                raise
            return None
        except Exception as error:  # as the operator records it; if the worker dies, nobody does
            note = FailureNote(type(error).__name__, "the worker's report says why", now_ms())
            self._ledger.attempt(window.name, begun.number).record_failure(note)
            raise
        if self._overtaken(window.name, begun) is not None:
            return None
        return self._result_of(window.name, begun.number)

    def _overtaken(self, name: str, attempt: Attempted) -> Published | None:
        """The publication of a later attempt, after which this one can't be published any more."""
        window = self._ledger.read().windows.get(name)
        return None if window is None or window.attempt(attempt.number) is not None else window.loaded

    def _run(self, pinned: PinnedManifest, attempt: Attempted, meanwhile: Callable[[], None]) -> None:
        self._loader.load(self._task.store, self._ledger, pinned, attempt, meanwhile)

    def _result_of(self, name: str, attempt: int) -> Counted:
        found = counted_by(self._ledger, self._ledger.window(name), attempt)
        assert found, f"attempt {attempt} at {name} has left nothing"
        return max(found, key=lambda each: each.verdict.proved)

    def _published(self, counted: Counted, words: str) -> str:
        stands = loads.returned(loads.publish_each(lambda: nullcontext(self._client), {0: counted})[0])
        ours, details = counted.result, _details(stands)
        if (stands.attempt, stands.run) == (ours.attempt, ours.run):
            return f"published{', ' if words else ''}{words} {details}"
        return f"second {details}"

    def _begin(self) -> Said:
        """Begin an attempt, whose driver doesn't come for a while."""
        begun = self._begun(self._window())
        if isinstance(begun, Published):
            return Said("done", "begin: stands")
        return Said("done", f"begun ({begun.number})", attempt=begun.number)

    def _drive(self) -> Said:
        """Come late as a driver of an attempt that has begun; then publish what it has counted, as verify does."""
        if self._order.attempt is None:
            return Said("done", "driver of nothing")
        window = self._ledger.window(self._name)
        attempt = attempt_of(window, self._order.attempt)
        pinned = self._ledger.pinned(window)
        if not pinned.manifest.span:
            return Said("done", "driver of nothing")
        self._run(pinned, attempt, lambda: None)
        if self._overtaken(window.name, attempt) is not None:
            return Said("done", "driver overtaken")
        return Said("done", self._published(self._result_of(window.name, attempt.number), "by a late driver"))

    def _void(self) -> Said:
        self._take_away(partial(corrections.void, windows=[self._name], force=True))
        return Said("done", "void")

    def _rewind(self) -> Said:
        gone = self._take_away(partial(corrections.rewind, to_ms=self._task.start_ms, force=True))
        return Said("done", f"rewound{'' if gone else ', nothing was there'} ({gone} windows)")

    def _take_away(self, decide: Callable[[State], Entries]) -> int:
        """Do what ``kafka-offsets ledger void`` and ``rewind`` do. Returns how many windows are gone."""
        before = self._ledger.read().windows
        self._ledger.change(decide)
        gone = before.keys() - self._ledger.state.windows.keys()
        for name in gone:
            file_lists.correct(self._ledger, name)
        return len(gone)

    def _restart(self) -> Said:
        """Do what ``kafka-offsets ledger restart`` does, unless somebody has died after it; then load an increment."""
        remade.make_sure(self._servers, self._task.store)
        if not self._ledger.state.restarts:
            found = restart_found(self._client, self._ledger)
            self._ledger.change(lambda state: corrections.restart(state, found, self._ledger.contents))
        return self._loaded(self._window(), "after a restart")

    def _remake(self, moment: Moment) -> None:
        """Re-create the task's topic, if this is the moment."""
        if self._task.moment == moment:
            remade.remake(self._servers, self._task.store)


def _details(stands: Published) -> str:
    return f"({stands.attempt}-{stands.run} counts, by commit {stands.number})"
