"""Histories: what may happen to a topic and a group, drawn at random from a seed.

A history is plain values: the same seed gives the same steps, and printed it can be replayed. Where a step names a
place ("the end", "somewhere in the middle"), the offset follows from what has happened before; a model of the log keeps
that, so that who executes it also knows what the oracle has to find.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tests.integration.fuzz.oracle import COMMITTED, LEVELS

INSTANT_MS = 1_735_689_600_000
"""2025-01-01T00:00:00Z: what records of CreateTime topics lie around. Markers carry today's time, long after it."""
MOST_PARTITIONS = 4
MOST_OPEN = 2
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

PLAIN, COMMIT, ABORT, OPEN = "plain", "commit", "abort", "open"


@dataclass(frozen=True, slots=True)
class Send:
    """Records with these timestamps, by partition, as plain ones or in a transaction that ends so.

    :param own_batches: each record in a batch of its own.
    """

    stamps: Mapping[int, tuple[int, ...]]
    fate: str
    own_batches: bool = False


@dataclass(frozen=True, slots=True)
class End:
    """End the transaction that has been open the longest."""

    fate: str


@dataclass(frozen=True, slots=True)
class MarkersOnly:
    """A transaction that announces partitions, sends nothing to them, and ends: each gets a marker alone."""

    partitions: tuple[int, ...]
    fate: str


@dataclass(frozen=True, slots=True)
class Commit:
    """The group commits a place of some partitions.

    :param place: ``last_read`` (behind the last visible record), ``end`` (the visible end), ``middle``, ``back`` (lower
        than before) or ``past`` (behind the high watermark).
    :param level: what is visible to the group.
    :param share: of the offsets in question, for ``middle`` and ``back``.
    """

    partitions: tuple[int, ...]
    place: str
    level: str
    share: float


@dataclass(frozen=True, slots=True)
class Delete:
    """DeleteRecords of a share of what a partition holds."""

    partition: int
    share: float


@dataclass(frozen=True, slots=True)
class AddPartition:
    """One partition more."""


@dataclass(frozen=True, slots=True)
class MoveLeader:
    """Another replica becomes the leader."""

    partition: int


@dataclass(frozen=True, slots=True)
class Capture:
    """Remember the visible ends, as a target and as what was known."""


@dataclass(frozen=True, slots=True)
class Look:
    """Compare conditions and oracle.

    :param levels: at these isolation levels.
    """

    levels: tuple[str, ...]


Step = Send | End | MarkersOnly | Commit | Delete | AddPartition | MoveLeader | Capture | Look


@dataclass(frozen=True, slots=True)
class History:
    """What happens to one topic and one group.

    :param append_time: the topic's records get the broker's time.
    """

    seed: int
    partitions: int
    replicas: int
    append_time: bool
    steps: tuple[Step, ...]

    def __str__(self) -> str:
        kind = "LogAppendTime" if self.append_time else "CreateTime"
        return f"seed {self.seed}: {self.partitions} partitions of {self.replicas} replicas, {kind}"


def draw(seed: int) -> History:
    """The history of a seed."""
    return _Draw(seed).history()


class _Draw:
    """One history being drawn; counts what later steps depend on."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.rng = random.Random(seed)
        self.partitions = self.rng.choices((1, 2, 3), (5, 4, 2))[0]
        self.open = 0
        self.late = self.rng.choice((0.0, 0.15, 0.6))
        """How often a record's timestamp is at or after the instant."""

    def history(self) -> History:
        rng, first = self.rng, self.partitions
        moves = self.seed % 50 == 0
        replicas = 3 if moves or rng.random() < 0.35 else 1
        append_time = rng.random() < 0.15
        steps = [step for _ in range(rng.randint(5, 15)) for step in self._some()]
        if moves:
            steps.insert(rng.randrange(len(steps)), MoveLeader(0))
        if rng.random() < 0.5:
            steps.append(self._commit(everywhere=True, places=("last_read", "end")))
        steps.append(Look(LEVELS))
        return History(self.seed, first, replicas, append_time, tuple(steps))

    def _some(self) -> list[Step]:
        weights: dict[Callable[[], list[Step]], int] = {
            lambda: [self._send(PLAIN)]: 18,
            lambda: [self._send(COMMIT)]: 10,
            lambda: [self._send(ABORT)]: 12,
            self._opened: 8,
            self._ended: 8,
            lambda: [MarkersOnly(self._several(), self.rng.choice((COMMIT, ABORT)))]: 6,
            lambda: [self._commit()]: 26,
            lambda: [Delete(self._one(), self.rng.choice((1.0, self.rng.random())))]: 6,
            self._added: 3,
            lambda: [Capture()]: 7,
            lambda: [Look((self.rng.choice(LEVELS),))]: 12,
        }
        return self.rng.choices(list(weights), list(weights.values()))[0]()

    def _one(self) -> int:
        return self.rng.randrange(self.partitions)

    def _several(self) -> tuple[int, ...]:
        return tuple(sorted(self.rng.sample(range(self.partitions), self.rng.randint(1, self.partitions))))

    def _send(self, fate: str) -> Send:
        stamps = {each: tuple(self._stamp() for _ in range(self.rng.randint(1, 4))) for each in self._several()}
        return Send(stamps, fate, self.rng.random() < 0.3)

    def _stamp(self) -> int:
        after = self.rng.random() < self.late
        return INSTANT_MS + self.rng.choice((0, 1, 5_000, 3_600_000) if after else (-1, -1_000, -3_600_000))

    def _opened(self) -> list[Step]:
        if self.open == MOST_OPEN:
            return self._ended()
        self.open += 1
        return [self._send(OPEN)]

    def _ended(self) -> list[Step]:
        if not self.open:
            return self._opened()
        self.open -= 1
        return [End(self.rng.choice((COMMIT, ABORT)))]

    def _commit(
        self,
        *,
        everywhere: bool = False,
        places: Sequence[str] = ("last_read", "last_read", "end", "end", "end", "middle", "middle", "back"),
    ) -> Commit:
        everywhere = everywhere or self.rng.random() < 0.5
        place = "past" if not everywhere and self.rng.random() < 0.04 else self.rng.choice(places)
        partitions = tuple(range(self.partitions)) if everywhere else (self._one(),)
        return Commit(partitions, place, self.rng.choice(LEVELS), round(self.rng.random(), 3))

    def _added(self) -> list[Step]:
        if self.partitions == MOST_PARTITIONS:
            return [Capture()]
        self.partitions += 1
        return [AddPartition()]


@dataclass(slots=True)
class ModelLog:
    """What one partition must hold after what was done to it.

    :param fates: by offset: ``plain``, ``commit``, ``abort``, ``marker``, or the number of an open transaction.
    """

    log_start_offset: int = 0
    fates: list[str] = field(default_factory=list)

    @property
    def high_watermark(self) -> int:
        return len(self.fates)

    @property
    def last_stable_offset(self) -> int:
        undecided = (offset for offset, fate in enumerate(self.fates) if fate.startswith(OPEN))
        return max(self.log_start_offset, next(undecided, self.high_watermark))

    def end(self, level: str) -> int:
        return self.last_stable_offset if level == COMMITTED else self.high_watermark

    def visible(self, level: str) -> list[int]:
        hidden = {"marker", ABORT} if level == COMMITTED else {"marker"}
        return [each for each in range(self.log_start_offset, self.end(level)) if self.fates[each] not in hidden]

    def decide(self, transaction: str, fate: str) -> None:
        """A transaction's records become decided, and their marker follows."""
        self.fates = [fate if each == transaction else each for each in self.fates]
        self.fates.append("marker")

    def place(self, place: str, level: str, share: float, before: int | None) -> int:
        """The offset that a :class:`Commit` means; ``before`` is the one that was committed last."""
        visible = self.visible(level)
        if place == "last_read":
            return visible[-1] + 1 if visible else self.log_start_offset
        if place == "back":
            return int(share * (self.high_watermark if before is None else before))
        if place == "past":
            return self.high_watermark + 1 + int(share * 5)
        if place == "end":
            return self.end(level)
        return self.log_start_offset + int(share * (self.high_watermark - self.log_start_offset))
