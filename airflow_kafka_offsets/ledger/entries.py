"""Entries: what the commits of a pipeline's log say. Several make one commit, which happened or didn't.

Each class is the specification of its JSON: the fields by their names, without those that have their default, and
``entry`` with the kind. Whether an entry may follow the ones before it is decided in :mod:`.decisions`, and what they
add up to in :mod:`.state`, which keeps some of them as they are. A year has many: named tuples are cheap to make.

In all of them, ``window`` is a window's name; ``who`` is the Airflow task and its try, or whoever else it was, as plain
JSON; and ``number`` is that of the commit, 0 until the entry is in a state.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

from airflow_kafka_offsets.compat.python_versions import Self
from airflow_kafka_offsets.errors import number_of, shorten
from airflow_kafka_offsets.offsets import plain_json
from airflow_kafka_offsets.offsets.instants import iso_instant
from airflow_kafka_offsets.offsets.partitions import LogRange, SeenOffset
from airflow_kafka_offsets.offsets.proof.run_result import OutputRows, main_outputs, main_place
from airflow_kafka_offsets.offsets.windows.snapshots import OffsetSnapshot


class Created(NamedTuple):
    """The ledger begins.

    :param ledger_id: its identity, which manifests and tables carry. The pipeline's name isn't one: another root may
        have a pipeline of the same name.
    :param pipeline: the pipeline's name, for people.
    :param cluster_id: the cluster that its offsets belong to.
    :param isolation_level: which records count as visible.
    :param topics: the topics that it began with.
    """

    ledger_id: str
    pipeline: str
    cluster_id: str
    isolation_level: str
    topics: tuple[str, ...]


class Snapshotted(NamedTuple):
    """A snapshot is stored.

    :param at_ms: its place in time, Unix milliseconds: its instant, or when Kafka was asked. No two have the same.
    :param offsets: hash of the file with its offsets, which says what they are as of.
    :param is_origin: whether the pipeline begins here. All later snapshots are above its offsets.
    """

    at_ms: int
    offsets: str
    is_origin: bool = False
    number: int = 0


class Pinned(NamedTuple):
    """A window is pinned: the offsets between two snapshots, whose times are its name.

    :param window: its name.
    :param manifest: hash of the file with its exact ranges.
    :param offsets: how many offsets it has.
    :param by: the run that an increment belongs to, as its name isn't known before it is pinned; None for a window that
        was asked for by its times.
    """

    window: str
    manifest: str
    offsets: int
    by: str | None = None


class RecordsCounted(NamedTuple):
    """It was counted which offsets of a window have a record, while the log had them all.

    :param census: hash of the file that says which.
    :param records: how many.
    """

    window: str
    census: str
    records: int


class Attempted(NamedTuple):
    """An attempt at loading a window begins. Its number is that of its commit, so that all attempts have one order.

    :param lost: what Kafka no longer has of the window. The attempt reads the rest.
    :param begun_ms: when, Unix milliseconds by the writer's clock, for people; None where nobody said.
    """

    window: str
    who: Mapping[str, Any]
    lost: tuple[LogRange, ...] = ()
    begun_ms: int | None = None
    number: int = 0


class Refused(NamedTuple):
    """A load of a window was refused before an attempt began. It decides nothing: it tells people why there is none.

    :param window: the window's name.
    :param who: the Airflow task and its try, as plain JSON.
    :param error: name of the exception's class.
    :param message: its message, as one line of limited length.
    :param refused_ms: when, Unix milliseconds by the writer's clock.
    :param number: that of its commit; 0 until it is in a state.
    """

    window: str
    who: Mapping[str, Any]
    error: str
    message: str
    refused_ms: int
    number: int = 0


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


class Published(NamedTuple):
    """The rows of an attempt are the window's from now on.

    :param attempt: the attempt's number.
    :param run: which of the drivers that were started for it.
    :param result: hash of the file with what it read and wrote.
    :param outputs: where its rows are, the first one first.
    :param apart: whether its rows have a place of their own, so that no other attempt can have replaced them.
    :param published_ms: when, Unix milliseconds by the publisher's clock, for people.
    :param verdict: in a state, what its verification found, as plain JSON; None before that.
    """

    window: str
    attempt: int
    run: str
    result: str
    outputs: tuple[Output, ...]
    apart: bool
    published_ms: int
    number: int = 0
    verdict: Mapping[str, Any] | None = None

    @property
    def rows(self) -> int:
        """Rows in the output; over all topics, if each has its own, and in the first one, if a job has several."""
        return sum(each.rows for each in main_outputs(self.outputs))

    @property
    def output(self) -> str | None:
        """Where they are; None for an empty window, and if several topics have outputs of their own."""
        return main_place(self.outputs)

    def output_of(self, topic: str) -> str | None:
        """Where the rows of a topic are; None if there are none."""
        return next((each.output for each in self.outputs if each.name == topic), self.output)


class Verified(NamedTuple):
    """A publication was verified.

    :param attempt: number of the published attempt.
    :param verdict: what was found, as plain JSON.
    """

    window: str
    attempt: int
    verdict: Mapping[str, Any]


class Audited(NamedTuple):
    """A table that something else has written was compared with a window.

    :param table: what the table is called: a later audit of the same name takes this one's place.
    :param run: the audit's own name.
    :param report: hash of the file with what was found.
    :param counts: amounts by problem; empty for a complete table.
    :param rows: rows that the table has of the window.
    :param audited_ms: when, Unix milliseconds by the driver's clock, for people.
    :param records: records of the window; None if that isn't known any more.
    """

    window: str
    table: str
    run: str
    report: str
    counts: Mapping[str, int]
    rows: int
    who: Mapping[str, Any]
    audited_ms: int
    records: int | None = None
    number: int = 0


class Reloaded(NamedTuple):
    """A window is to be loaded again: what was attempted and published before no longer satisfies a load. Readers keep
    the old rows until the new ones are published.

    :param by: the run of a task that asked for it, so that its retries don't ask again; None for a command.
    """

    window: str
    by: str | None = None


class Voided(NamedTuple):
    """A window should not exist. Its time is free again, and gets the same snapshots."""

    window: str


class Rewound(NamedTuple):
    """All snapshots after an instant, and all windows that end after it, stop counting.

    :param to_ms: the instant, Unix milliseconds.
    """

    to_ms: int


class Restarted(NamedTuple):
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

    at_ms: int
    topics: tuple[str, ...]
    why: str
    cluster_id: str | None = None
    truncated: tuple[SeenOffset, ...] = ()
    resumed: OffsetSnapshot | None = None
    unloaded: tuple[LogRange, ...] = ()
    number: int = 0

    def __str__(self) -> str:
        offsets = sum(each.span for each in self.unloaded)
        left = (
            f"; at least {number_of(offsets, 'offset')} of the old logs were in no published window" if offsets else ""
        )
        return f"{shorten(self.topics)} began anew after {iso_instant(self.at_ms - 1)}: {self.why}{left}"


AnyEntry: TypeAlias = (
    Created
    | Snapshotted
    | Pinned
    | RecordsCounted
    | Attempted
    | Refused
    | Published
    | Verified
    | Audited
    | Reloaded
    | Voided
    | Rewound
    | Restarted
)
Entries: TypeAlias = tuple[AnyEntry, ...]
_KINDS: Mapping[str, type[AnyEntry]] = {
    "created": Created,
    "snapshot": Snapshotted,
    "window": Pinned,
    "counted": RecordsCounted,
    "attempt": Attempted,
    "refused": Refused,
    "published": Published,
    "verified": Verified,
    "audited": Audited,
    "reload": Reloaded,
    "void": Voided,
    "rewind": Rewound,
    "restart": Restarted,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}


def entry_to_json(entry: AnyEntry) -> dict[str, Any]:
    """The fields that don't have their default, and the kind."""
    return {"entry": _NAMES[type(entry)]} | plain_json.fields_of(entry)


def entry_from_json(stored: Mapping[str, Any]) -> AnyEntry:
    """The inverse of :func:`entry_to_json`. Raises as :func:`.plain_json.read`, also for a version's kind that this one
    doesn't know."""
    return plain_json.read(_KINDS[stored["entry"]], {name: value for name, value in stored.items() if name != "entry"})
