"""The judge: is every record in exactly one published window, and is every other offset reported as lost?

It also checks that windows that cut across others were refused, that the reported holes are the real ones, that every
run has its own increment, and that nothing was published that must not be.

It is plain arithmetic on what was published, and on what an independent reader saw in the log. It shares no code with
what it judges: neither :mod:`airflow_kafka_offsets.offsets.windows.tiling` nor the audit.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

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
    windows: tuple[tuple[int, int], ...]
    words: str

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} offset {self.offset}: {self.words}"


def judge(pieces: Iterable[Piece], seen: Mapping[tuple[str, int], Seen]) -> list[Problem]:
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


Key = tuple[str, int]
Times = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Cut:
    """A window that was requested by hand and cuts across planned windows.

    :param window: its times.
    :param offsets: its offsets, or those that it would have had, by topic and partition; empty if unknown.
    :param before: the windows that were pinned before it was requested.
    :param refused_by: the window that the refusal named; None if it was pinned.
    :param stands: whether it counts in the ledger at the end: it was pinned, and not forgotten.
    """

    window: Times
    offsets: Mapping[Key, range]
    before: Collection[Times]
    refused_by: Times | None
    stands: bool = False


def judge_cuts(pieces: Iterable[Piece], cuts: Sequence[Cut]) -> list[str]:
    """Cuts that were pinned although a window had some of their offsets, refused without reason, or published.

    :param pieces: the pieces of all published windows.
    """
    published = _by_window(pieces)
    complaints = [f"cut {each.window} is published" for each in cuts if each.window in published]
    for each in cuts:
        taken = {window for window in each.before if _share(each.offsets, _offsets(published.get(window, ())))}
        if each.refused_by is None and taken:
            complaints.append(f"cut {each.window} was pinned, though {min(taken)} had some of its offsets before")
        beside = [window for window, theirs in published.items() if _share(each.offsets, _offsets(theirs))]
        if each.stands and beside:
            complaints.append(f"cut {each.window} stands beside {min(beside)}, which is published with its offsets")
        if each.refused_by in published and each.offsets:
            theirs = _offsets(published[each.refused_by])
            if not _share(each.offsets, theirs):
                complaints.append(f"cut {each.window} was refused for {each.refused_by}, which has none of its offsets")
    return complaints


def judge_windows(published: Collection[Times], planned: Collection[Times]) -> list[str]:
    """Planned windows that aren't published, and published windows that weren't planned."""
    missing = [f"window {each} isn't published" for each in sorted(set(planned) - set(published))]
    return [
        *missing,
        *(f"window {each} is published, and isn't planned" for each in sorted(set(published) - set(planned))),
    ]


@dataclass(frozen=True, slots=True)
class Hole:
    """Offsets in no window, between two published windows that don't meet in time.

    :param start_ms: the earlier window's end, Unix milliseconds.
    :param end_ms: the later window's start, Unix milliseconds.
    :param offsets: by topic and partition.
    """

    start_ms: int
    end_ms: int
    offsets: Mapping[Key, range]

    @property
    def times(self) -> Times:
        return self.start_ms, self.end_ms

    def __str__(self) -> str:
        return f"{self.start_ms}..{self.end_ms} with {dict(self.offsets)}"


def holes(pieces: Iterable[Piece]) -> list[Hole]:
    """The holes between the published windows, in order of time."""
    published = sorted(_by_window(pieces).items())
    found = [
        Hole(one[1], other[0], _left_out(earlier, later))
        for (one, earlier), (other, later) in pairwise(published)
        if one[1] < other[0]
    ]
    return [each for each in found if each.offsets]


def judge_holes(pieces: Iterable[Piece], listed: Iterable[Times], told: Iterable[Hole]) -> list[str]:
    """Differences between the holes that the ledger reports and the real ones.

    :param listed: times of the holes that the verification of the whole ledger lists.
    :param told: the holes that the verification of single windows reports before them.
    """
    wanted, named = holes(pieces), set(listed)
    by_times = {each.times: each for each in told}
    complaints = [f"hole {each} isn't listed" for each in wanted if each.times not in named]
    complaints += [
        f"hole {each} isn't told as it is: {by_times.get(each.times)}"
        for each in wanted
        if by_times.get(each.times) != each
    ]
    known = {each.times for each in wanted}
    complaints += [f"a hole {each} is listed, and isn't there" for each in sorted(named - known)]
    return complaints + [f"a hole {each} is told, and isn't there" for each in by_times if each not in known]


def judge_runs(published: Collection[Times], answers: Iterable[tuple[int, Times]]) -> list[str]:
    """Runs with several increments, increments of several runs, and increments that aren't published.

    :param answers: the increments that runs were given: the run's number and a window.
    """
    had = defaultdict(set)
    for run, window in answers:
        had[run].add(window)
    complaints = [
        f"run {run} has {len(windows)} increments: {sorted(windows)}"
        for run, windows in had.items()
        if len(windows) > 1
    ]
    owners = defaultdict(list)
    for run, windows in had.items():
        for each in windows:
            owners[each].append(run)
    complaints += [f"runs {runs} have one increment: {window}" for window, runs in owners.items() if len(runs) > 1]
    return complaints + judge_windows(published, owners)


@dataclass(frozen=True, slots=True)
class Trial:
    """A load that must be refused, because its topic was re-created after the window was pinned.

    :param refused: whether it was refused.
    """

    window: Times
    refused: bool


def judge_trials(published: Collection[Times], trials: Sequence[Trial], why: str) -> list[str]:
    """Loads or publications of a pipeline that must not publish; also if no load was tried.

    :param published: the pipeline's published windows.
    :param why: why it must not publish.
    """
    complaints = [f"window {each.window} was loaded, {why}" for each in trials if not each.refused]
    complaints += [f"window {each} is published, {why}" for each in sorted(published)]
    return complaints or ([] if trials else [f"no load was tried, {why}"])


def _by_window(pieces: Iterable[Piece]) -> dict[Times, list[Piece]]:
    found: dict[Times, list[Piece]] = {}
    for each in pieces:
        found.setdefault(each.window, []).append(each)
    return found


def _offsets(pieces: Iterable[Piece]) -> dict[Key, range]:
    """All offsets that a window covers, including those that it reports as lost."""
    return {(each.topic, each.partition): range(each.lost.start, each.end_offset) for each in pieces}


def _share(one: Mapping[Key, range], other: Mapping[Key, range]) -> bool:
    return any(
        max(mine.start, theirs.start) < min(mine.stop, theirs.stop)
        for key, mine in one.items()
        if (theirs := other.get(key)) is not None
    )


def _left_out(earlier: Iterable[Piece], later: Iterable[Piece]) -> dict[Key, range]:
    """The offsets between two windows. For a partition that the earlier one doesn't have, all before the later one."""
    ends = {key: each.stop for key, each in _offsets(earlier).items()}
    found = {key: range(ends.get(key, 0), each.start) for key, each in _offsets(later).items()}
    return {key: each for key, each in found.items() if each}
