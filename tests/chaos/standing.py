"""What a pipeline has published at one moment: its ledger's log, and the rows in the outputs that it names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from airflow_kafka_offsets.ledger.holes import between_published, holes_of
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.verification import verify
from airflow_kafka_offsets.offsets.partitions import LogRange
from airflow_kafka_offsets.offsets.windows.ledger_names import window_id
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from tests.chaos import range_load, spark_load, tables
from tests.chaos.judge import Piece, Times
from tests.chaos.judge_windows import Hole, judge_holes
from tests.chaos.ledger_files import counted, lists, replay
from tests.chaos.publications import Holding, judge_lists, judge_publication
from tests.chaos.ranges import Offsets
from tests.chaos.replay import Kept, Replay
from tests.chaos.settings import Place

_EXPECTED = ("hole", "unpublished")
"""Claims of a verification that don't hold while windows are left out. Holes are compared with the real ones."""


@dataclass(frozen=True, slots=True)
class Standing:
    """The state of a pipeline's windows.

    :param log: what its commits add up to.
    :param holding: the rows of the publications that count.
    :param pieces: their pieces.
    :param taken: what restarts have taken, as the ledger tells.
    :param complaints: commits that weren't allowed, publications with wrong contents, files that aren't listed, and
        what the ledger says about itself that isn't so.
    """

    log: Replay
    holding: Holding
    pieces: tuple[Piece, ...]
    taken: tuple[LogRange, ...]
    complaints: tuple[str, ...]

    @classmethod
    def of(cls, place: Place) -> Self:
        """The state now."""
        ledger = place.ledger()
        told = [f"{each.claim}: {each.found}" for each in verify(ledger, full=True) if _is_wrong(each)]
        log = replay(place.folder)
        published = sorted(log.published.items())
        holding = {window: _rows_of(*says["outputs"][0][1:3]) for window, says in published}
        complaints = [*log.complaints, *told, *_misread(ledger, log)]
        for window, kept in log.windows.items():
            if kept.published is not None:
                words = judge_publication(
                    kept, counted(place.folder, kept.published), _count(holding[window]), _held_by(kept.published)
                )
                complaints += (f"window {window}: {each}" for each in words)
        files = {window: rows for window, rows in holding.items() if log.published[window]["apart"]}
        listed = {window: _together(map(_rows_in, named)) for window, named in lists(place.folder).items()}
        complaints += judge_lists(files, listed)
        pieces = tuple(
            piece
            for window, rows in holding.items()
            for piece in _pieces(_manifest(ledger, window), log.windows[window], rows)
        )
        complaints += judge_holes(pieces, _told(ledger))
        lost = tuple(each for restart in ledger.state.restarts for each in restart.unloaded)
        return cls(log, holding, pieces, lost, tuple(complaints))

    @property
    def windows(self) -> set[Times]:
        """The published windows."""
        return set(self.holding)


def _is_wrong(claim: Any) -> bool:
    """Whether a claim of a verification doesn't hold. That it has corrected a list is no fault: somebody has died."""
    return not claim.holds and claim.claim not in (*_EXPECTED, "files")


def _misread(ledger: Ledger, log: Replay) -> Iterator[str]:
    """Where the ledger's own fold, with its checkpoints, differs from the log's commits."""
    theirs = {
        (window.start_ms, window.end_ms): (window.manifest, window.publication and window.publication.number)
        for window in ledger.state.windows.values()
    }
    ours = {times: (kept.manifest, kept.by or None) for times, kept in log.windows.items()}
    for times in sorted(theirs.keys() | ours.keys()):
        if theirs.get(times) != ours.get(times):
            yield f"window {times} is {ours.get(times)} in the log, and {theirs.get(times)} in the ledger's state"
    if list(ledger.state.snapshots) != sorted(log.snapshots):
        yield "the log has other snapshots than the ledger's state"


def _told(ledger: Ledger) -> Iterator[Hole]:
    """The holes that the ledger reports between published windows."""
    between = between_published(ledger.state)
    for each in holes_of(ledger):
        if (each.start_ms, each.end_ms) not in between:
            continue
        offsets = {(part.topic, part.partition): range(part.start_offset, part.end_offset) for part in each.ranges}
        yield Hole(each.start_ms, each.end_ms, offsets)


def _held_by(says: Any) -> int | None:
    """Number of the attempt whose rows a table has; None for files."""
    output = says["outputs"][0][2]
    return None if says["apart"] or output is None else tables.held_by(Path(urlsplit(output).path))


def _rows_of(sink: str, output: str | None) -> Offsets:
    """The rows in an output."""
    return (spark_load if sink == "parquet" else range_load).published_offsets(output)


def _rows_in(file: str) -> Offsets:
    """The rows in a file."""
    return (spark_load if file.endswith(".parquet") else range_load).offsets_in(file)


def _count(rows: Offsets) -> int:
    return sum(map(len, rows.values()))


def _together(files: Iterable[Offsets]) -> Offsets:
    found: dict[tuple[str, int], list[int]] = {}
    for each in files:
        for key, offsets in each.items():
            found.setdefault(key, []).extend(offsets)
    return found


def _manifest(ledger: Ledger, window: Times) -> Manifest:
    return ledger.pinned(ledger.window(window_id(*window))).manifest


def _pieces(manifest: Manifest, kept: Kept, rows: Offsets) -> Iterator[Piece]:
    """What a published window says. It should have no rows of partitions that aren't in its manifest."""
    output, lost = dict(rows), kept.lost
    for each in manifest.ranges:
        key = each.topic, each.partition
        gone = lost.pop(key, range(0))
        yield Piece(
            topic=each.topic,
            partition=each.partition,
            start_ms=manifest.start_ms,
            end_ms=manifest.end_ms,
            start_offset=each.start_offset + len(gone),
            end_offset=each.end_offset,
            lost_offsets=len(gone),
            end_evidence=str(each.end_evidence),
            published=tuple(output.pop(key, ())),
        )
        assert not gone or gone.start == each.start_offset, f"{gone} of {key} isn't where {each} starts"
    assert not lost, f"{lost} was lost of partitions that the manifest lacks"
    for (topic, partition), offsets in output.items():
        yield Piece(topic, partition, manifest.start_ms, manifest.end_ms, 0, 0, 0, "unknown", tuple(offsets))
