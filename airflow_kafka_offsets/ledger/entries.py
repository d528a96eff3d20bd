"""Entries: what the commits of a pipeline's log say. Several make one commit, which happened or didn't.

Each class is the specification of its JSON: the fields by their names, those that are None left out, and ``entry`` with
the kind. Whether an entry may follow the ones before it is decided in :mod:`.decisions`, and what they add up to in
:mod:`.state`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, NamedTuple, TypeAlias

from airflow_kafka_offsets.compat.python_versions import Self
from airflow_kafka_offsets.errors import LedgerCorruptError, number_of, shorten
from airflow_kafka_offsets.offsets.instants import iso_instant
from airflow_kafka_offsets.offsets.partitions import LogRange, SeenOffset
from airflow_kafka_offsets.offsets.proof.run_result import OutputRows
from airflow_kafka_offsets.offsets.windows.snapshots import AsOf, OffsetSnapshot


@dataclass(frozen=True, slots=True)
class Entry:
    """What all entries have in common: their JSON."""

    kind: ClassVar[str]

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, without unset fields."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {"entry": self.kind} | {name: _plain(value) for name, value in values.items() if value is not None}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        """The inverse of :meth:`to_json`, without the kind."""
        return cls(**stored)


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return value.to_json() if hasattr(value, "to_json") else value


@dataclass(frozen=True, slots=True)
class Created(Entry):
    """The ledger begins.

    :param ledger_id: its identity, which manifests and tables carry. The pipeline's name isn't one: another root may
        have a pipeline of the same name.
    :param pipeline: the pipeline's name, for people.
    :param cluster_id: the cluster that its offsets belong to.
    :param isolation_level: which records count as visible.
    :param topics: the topics that it began with.
    """

    kind = "created"
    ledger_id: str
    pipeline: str
    cluster_id: str
    isolation_level: str
    topics: tuple[str, ...]

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        return cls(**{**stored, "topics": tuple(stored["topics"])})


@dataclass(frozen=True, slots=True)
class Snapshotted(Entry):
    """A snapshot is stored.

    :param at_ms: its place in time, Unix milliseconds: its instant, or when Kafka was asked. No two have the same.
    :param as_of: what its offsets are as of.
    :param offsets: hash of the file with its offsets.
    :param is_origin: whether the pipeline begins here. All later snapshots are above its offsets.
    """

    kind = "snapshot"
    at_ms: int
    as_of: AsOf
    offsets: str
    is_origin: bool | None = None

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        return cls(**{**stored, "as_of": AsOf.from_json(stored["as_of"])})


@dataclass(frozen=True, slots=True)
class Pinned(Entry):
    """A window is pinned: the offsets between two snapshots, whose times are its name.

    :param window: its name.
    :param manifest: hash of the file with its exact ranges.
    :param offsets: how many offsets it has.
    :param by: the run that an increment belongs to, as its name isn't known before it is pinned; None for a window that
        was asked for by its times.
    """

    kind = "window"
    window: str
    manifest: str
    offsets: int
    by: str | None = None


@dataclass(frozen=True, slots=True)
class Counted(Entry):
    """It was counted which offsets of a window have a record, while the log had them all.

    :param window: the window's name.
    :param census: hash of the file that says which.
    :param records: how many.
    """

    kind = "counted"
    window: str
    census: str
    records: int


@dataclass(frozen=True, slots=True)
class Attempted(Entry):
    """An attempt at loading a window begins. Its number is that of its commit, so that all attempts have one order.

    :param window: the window's name.
    :param who: the Airflow task and its try, or whoever else loads it, as plain JSON.
    :param lost: what Kafka no longer has of the window. The attempt reads the rest.
    :param begun_ms: when, Unix milliseconds by the writer's clock, for people; None where nobody said.
    """

    kind = "attempt"
    window: str
    who: Mapping[str, Any]
    lost: tuple[LogRange, ...] = ()
    begun_ms: int | None = None

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        return cls(**{**stored, "lost": tuple(LogRange(*each) for each in stored["lost"])})


class Output(NamedTuple):
    """Where rows of a published attempt are.

    :param name: empty for the first or only one; the topic, if each topic has its own; or what a job calls a further
        one.
    :param sink: its kind, such as ``parquet``, ``delta``, or what a user's own sink calls itself; ``none`` for a window
        without offsets.
    :param output: folder or table; None for a window without offsets.
    :param rows: how many rows it has.
    """

    name: str
    sink: str
    output: str | None
    rows: int

    @classmethod
    def of(cls, found: OutputRows) -> Self:
        """What a publication says of an output of the attempt's result."""
        return cls(found.name, found.sink, found.output, found.rows)


@dataclass(frozen=True, slots=True)
class Published(Entry):
    """The rows of an attempt are the window's from now on.

    :param window: the window's name.
    :param attempt: the attempt's number.
    :param run: which of the drivers that were started for it.
    :param result: hash of the file with what it read and wrote.
    :param outputs: where its rows are, the first one first.
    :param apart: whether its rows have a place of their own, so that no other attempt can have replaced them.
    :param published_ms: when, Unix milliseconds by the publisher's clock, for people.
    """

    kind = "published"
    window: str
    attempt: int
    run: str
    result: str
    outputs: tuple[Output, ...]
    apart: bool
    published_ms: int

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        return cls(**{**stored, "outputs": tuple(Output(*each) for each in stored["outputs"])})


@dataclass(frozen=True, slots=True)
class Verified(Entry):
    """A publication was verified.

    :param window: the window's name.
    :param attempt: number of the published attempt.
    :param verdict: what was found, as plain JSON.
    """

    kind = "verified"
    window: str
    attempt: int
    verdict: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Audited(Entry):
    """A table that something else has written was compared with a window.

    :param window: the window's name.
    :param table: what the table is called: a later audit of the same name takes this one's place.
    :param run: the audit's own name.
    :param report: hash of the file with what was found.
    :param counts: amounts by problem; empty for a complete table.
    :param rows: rows that the table has of the window.
    :param records: records of the window; None if that isn't known any more.
    :param who: the Airflow task and its try, or whoever else audits, as plain JSON.
    :param audited_ms: when, Unix milliseconds by the driver's clock, for people.
    """

    kind = "audited"
    window: str
    table: str
    run: str
    report: str
    counts: Mapping[str, int]
    rows: int
    who: Mapping[str, Any]
    audited_ms: int
    records: int | None = None


@dataclass(frozen=True, slots=True)
class Reloaded(Entry):
    """A window is to be loaded again: what was attempted and published before no longer satisfies a load. Readers keep
    the old rows until the new ones are published.

    :param window: the window's name.
    :param by: the run of a task that asked for it, so that its retries don't ask again; None for a command.
    """

    kind = "reload"
    window: str
    by: str | None = None


@dataclass(frozen=True, slots=True)
class Voided(Entry):
    """A window should not exist. Its time is free again, and gets the same snapshots."""

    kind = "void"
    window: str


@dataclass(frozen=True, slots=True)
class Rewound(Entry):
    """All snapshots after an instant, and all windows that end after it, stop counting.

    :param to_ms: the instant, Unix milliseconds.
    """

    kind = "rewind"
    to_ms: int


@dataclass(frozen=True, slots=True)
class Restarted(Entry):
    """From here on, some topics are other logs: re-created, truncated, or on another cluster. The next snapshot begins
    them like an origin; where a log was truncated, or is one that windows had before, it goes on from there.

    :param at_ms: from when on, Unix milliseconds: directly after the newest snapshot. Later ones are of the new logs.
    :param topics: the topics.
    :param why: what was found in Kafka, in words.
    :param cluster_id: the cluster from now on; None if it is the same.
    :param truncated: where logs were truncated: what they have from there on is in no window. A topic that has none of
        these was re-created.
    :param resumed: where logs go on, on a cluster that the pipeline has come back to: where its windows there ended.
        None when there are none.
    :param unloaded: what snapshots had seen of the logs that end, and no published window had when they were restarted.
        Kafka may have had more.
    """

    kind = "restart"
    at_ms: int
    topics: tuple[str, ...]
    why: str
    cluster_id: str | None = None
    truncated: tuple[SeenOffset, ...] = ()
    resumed: OffsetSnapshot | None = None
    unloaded: tuple[LogRange, ...] = ()

    def __str__(self) -> str:
        offsets = sum(each.span for each in self.unloaded)
        left = (
            f"; at least {number_of(offsets, 'offset')} of the old logs were in no published window" if offsets else ""
        )
        return f"{shorten(self.topics)} began anew after {iso_instant(self.at_ms - 1)}: {self.why}{left}"

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        resumed = stored.get("resumed")
        return cls(
            **{
                **stored,
                "topics": tuple(stored["topics"]),
                "truncated": tuple(SeenOffset(*each) for each in stored["truncated"]),
                "resumed": None if resumed is None else OffsetSnapshot.from_json(resumed),
                "unloaded": tuple(LogRange(*each) for each in stored["unloaded"]),
            }
        )


AnyEntry: TypeAlias = (
    Created
    | Snapshotted
    | Pinned
    | Counted
    | Attempted
    | Published
    | Verified
    | Audited
    | Reloaded
    | Voided
    | Rewound
    | Restarted
)
_KINDS: Mapping[str, type[AnyEntry]] = {
    each.kind: each
    for each in (
        *(Created, Snapshotted, Pinned, Counted, Attempted, Published),
        *(Verified, Audited, Reloaded, Voided, Rewound, Restarted),
    )
}


def entry_from_json(stored: Mapping[str, Any]) -> AnyEntry:
    """An entry of any kind.

    :raises LedgerCorruptError: when it is something else, or of a version that has other kinds.
    """
    try:
        kind = _KINDS[stored["entry"]]
        return kind.from_json({name: value for name, value in stored.items() if name != "entry"})
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise LedgerCorruptError(f"This is not an entry of a ledger's log: {error!r}.") from error
