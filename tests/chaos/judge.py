"""The judge: is every record in exactly one published window, and is every other offset reported as lost?

It is plain arithmetic on what was published, and on what an independent reader saw in Kafka's log. It shares no code
with what it judges. :mod:`.judge_windows` judges windows as wholes, and :mod:`.replay` the ledger's own log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

Key = tuple[str, int]
"""Topic and partition."""
Times = tuple[int, int]
"""Start and end of a window, Unix milliseconds."""
MATCHED, MARKER, LOG_END = "matched", "matched_marker", "log_end"


@dataclass(frozen=True, slots=True)
class Piece:
    """What one published window says about one partition.

    :param start_ms: the window's start, inclusive, Unix milliseconds.
    :param end_ms: the window's end, exclusive, Unix milliseconds.
    :param start_offset: first offset of the range, inclusive.
    :param end_offset: end of the range, exclusive.
    :param lost_offsets: how many offsets directly before ``start_offset`` are reported as lost.
    :param end_evidence: the evidence of the end. Only some kinds of evidence say anything about timestamps.
    :param published: the offsets in the output, in its order.
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
    def window(self) -> Times:
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
    """What an independent reader saw in a partition's log, during the run and at the end.

    :param visible: offsets of the records that are visible at the pipeline's isolation level.
    :param timestamps: the timestamp of every record, by offset, including aborted ones.
    :param log_starts: all log start offsets that the log has had; the last one is the current one.
    """

    visible: frozenset[int]
    timestamps: Mapping[int, int]
    log_starts: Sequence[int]


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with an offset.

    :param windows: the windows that are involved.
    """

    topic: str
    partition: int
    offset: int
    windows: tuple[Times, ...]
    words: str

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} offset {self.offset}: {self.words}"


def judge(pieces: Iterable[Piece], seen: Mapping[Key, Seen]) -> list[Problem]:
    """Everything that is wrong.

    :param pieces: the pieces of all windows of one pipeline.
    :param seen: what the reader saw, by topic and partition.
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
    """Neighbours in time whose offsets don't meet, including those that they report as lost."""
    for one, other in pairwise(line):
        start, end = one.end_offset, other.lost.start
        if start < end:
            yield _problem(one, start, f"in no window, and not reported as lost, as {end - start} are", other)
        if start > end:
            yield _problem(one, end, f"in two windows, as {start - end} are", other)


def _misread(piece: Piece, seen: Seen) -> Iterator[Problem]:
    """Differences between the output and the log's records in the piece's range."""
    published, wanted = set(piece.published), {each for each in piece.offsets if each in seen.visible}
    for offset in sorted(wanted - published)[:1]:
        yield _problem(piece, offset, "in the log, and not in the output")
    for offset in sorted(published - wanted)[:1]:
        yield _problem(piece, offset, "in the output, and not among the window's records")
    if len(published) < len(piece.published):
        twice = next(each for each in piece.published if piece.published.count(each) > 1)
        yield _problem(piece, twice, "twice in the output")


def _false_losses(piece: Piece, seen: Seen) -> Iterator[Problem]:
    """Offsets that are reported as lost but weren't. A loss must end at a past log start, or at the window's end."""
    if not piece.lost:
        return
    if piece.lost.stop > seen.log_starts[-1]:
        yield _problem(piece, max(piece.lost.start, seen.log_starts[-1]), "reported as lost, and still in the log")
    if piece.lost.stop not in seen.log_starts and piece.lost.stop != piece.end_offset:
        words = f"reported as lost, though the log never began after it: {seen.log_starts}"
        yield _problem(piece, piece.lost.stop - 1, words)


def _mistimed(piece: Piece, seen: Seen) -> Iterator[Problem]:
    """Ends that are wrong although they were taken from a look-up: the end must be the first record at or after the
    instant, or the log end if there is no such record.
    """
    if piece.end_evidence not in (MATCHED, MARKER, LOG_END):
        return
    late = (each for each in piece.offsets if seen.timestamps.get(each, 0) >= piece.end_ms)
    for offset in list(late)[:1]:
        yield _problem(piece, offset, f"has timestamp {seen.timestamps[offset]}, at or after the window's end")
    after_ms = seen.timestamps.get(piece.end_offset)
    if piece.end_evidence == MATCHED and after_ms is not None and after_ms < piece.end_ms:
        yield _problem(piece, piece.end_offset, f"has timestamp {after_ms}, and was matched as the window's end")
