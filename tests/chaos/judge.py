"""The judge: is every record in exactly one published window, and every offset that is in none reported as lost?

Plain arithmetic on what was published and on what an independent reader saw in the log. Nothing here is shared with
what is judged: neither :mod:`airflow_kafka_offsets.ledger.tiling` nor the audit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

MATCHED, MARKER, LOG_END = "matched", "matched_marker", "log_end"


@dataclass(frozen=True, slots=True)
class Piece:
    """What one published window says of one partition.

    :param start_ms: where the window starts, inclusive.
    :param end_ms: where it ends, exclusive.
    :param start_offset: first offset that was to be read.
    :param end_offset: end of them, exclusive.
    :param lost_offsets: how many directly before ``start_offset`` are reported as lost.
    :param end_evidence: why the end is believed; only some words promise anything of timestamps.
    :param published: offsets in the output, in its order.
    """

    topic: str
    partition: int
    start_ms: int
    end_ms: int
    start_offset: int
    end_offset: int
    lost_offsets: int
    end_evidence: str
    published: tuple[int, ...]

    @property
    def window(self) -> tuple[int, int]:
        return self.start_ms, self.end_ms

    @property
    def lost(self) -> range:
        return range(self.start_offset - self.lost_offsets, self.start_offset)

    @property
    def offsets(self) -> range:
        return range(self.start_offset, self.end_offset)

    def __str__(self) -> str:
        loss = f" after {self.lost_offsets} lost" if self.lost_offsets else ""
        held = f"{self.start_offset}..{self.end_offset}{loss} ({self.end_evidence})"
        return f"window {self.start_ms}..{self.end_ms} has {held}"


@dataclass(frozen=True, slots=True)
class Seen:
    """What an independent reader saw in a partition's log, then and at the end.

    :param visible: offsets of records that count at the pipeline's isolation level.
    :param timestamps: timestamp of every record, by offset; aborted ones too.
    :param log_starts: everywhere that the log has ever started; the last one is where it does now.
    """

    visible: frozenset[int]
    timestamps: Mapping[int, int]
    log_starts: Sequence[int]


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with an offset.

    :param windows: those that have to do with it.
    """

    topic: str
    partition: int
    offset: int
    windows: tuple[tuple[int, int], ...]
    words: str

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} offset {self.offset}: {self.words}"


def judge(pieces: Iterable[Piece], seen: Mapping[tuple[str, int], Seen]) -> list[Problem]:
    """Everything that is wrong.

    :param pieces: of all windows of one pipeline.
    :param seen: by topic and partition.
    """
    ordered = sorted(pieces, key=lambda each: (each.topic, each.partition, each.start_ms, each.end_ms))
    first_ms = min((each.start_ms for each in ordered), default=0)
    last_ms = max((each.end_ms for each in ordered), default=0)
    problems: list[Problem] = []
    for key, some in groupby(ordered, key=lambda each: (each.topic, each.partition)):
        line = list(some)
        problems += _seams(line)
        for each in line:
            problems += [*_misread(each, seen[key]), *_false_losses(each, seen[key]), *_mistimed(each, seen[key])]
        if line[0].start_ms != first_ms and line[0].lost.start != 0:
            words = "in no window, and not reported as lost, of a partition that came later"
            problems.append(_problem(line[0], line[0].lost.start - 1, words))
        if line[-1].end_ms != last_ms:
            problems.append(_problem(line[-1], line[-1].end_offset, "later windows leave its partition out"))
    return problems


def _problem(piece: Piece, offset: int, words: str, *others: Piece) -> Problem:
    windows = tuple(each.window for each in (piece, *others))
    return Problem(piece.topic, piece.partition, offset, windows, "; ".join([words, *map(str, (piece, *others))]))


def _seams(line: Sequence[Piece]) -> Iterator[Problem]:
    """Where neighbours in time don't meet, counting what they report as lost."""
    for one, other in pairwise(line):
        start, end = one.end_offset, other.lost.start
        if start < end:
            yield _problem(one, start, f"in no window, and not reported as lost, as {end - start} are", other)
        if start > end:
            yield _problem(one, end, f"in two windows, as {start - end} are", other)


def _misread(piece: Piece, seen: Seen) -> Iterator[Problem]:
    """Where the output isn't what the log held between the piece's offsets."""
    published, wanted = set(piece.published), {each for each in piece.offsets if each in seen.visible}
    for offset in sorted(wanted - published)[:1]:
        yield _problem(piece, offset, "in the log, and not in the output")
    for offset in sorted(published - wanted)[:1]:
        yield _problem(piece, offset, "in the output, and not among the window's records")
    if len(published) < len(piece.published):
        twice = next(each for each in piece.published if piece.published.count(each) > 1)
        yield _problem(piece, twice, "twice in the output")


def _false_losses(piece: Piece, seen: Seen) -> Iterator[Problem]:
    """Where offsets are reported as lost that aren't: a loss ends where the log began once, or with its window."""
    if not piece.lost:
        return
    if piece.lost.stop > seen.log_starts[-1]:
        yield _problem(piece, max(piece.lost.start, seen.log_starts[-1]), "reported as lost, and still in the log")
    if piece.lost.stop not in seen.log_starts and piece.lost.stop != piece.end_offset:
        words = f"reported as lost, though the log never began after it: {seen.log_starts}"
        yield _problem(piece, piece.lost.stop - 1, words)


def _mistimed(piece: Piece, seen: Seen) -> Iterator[Problem]:
    """Where a look-up that was believed as it came isn't right: the end is the first record at or after the instant, or
    the end of a log without one.
    """
    if piece.end_evidence not in (MATCHED, MARKER, LOG_END):
        return
    late = (each for each in piece.offsets if seen.timestamps.get(each, 0) >= piece.end_ms)
    for offset in list(late)[:1]:
        yield _problem(piece, offset, f"has timestamp {seen.timestamps[offset]}, at or after the window's end")
    after_ms = seen.timestamps.get(piece.end_offset)
    if piece.end_evidence == MATCHED and after_ms is not None and after_ms < piece.end_ms:
        yield _problem(piece, piece.end_offset, f"has timestamp {after_ms}, and was matched as the window's end")
