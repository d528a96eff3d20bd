"""What a pipeline has published at one moment: the files of its ledger, and the rows in the outputs that they name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.verification import verify
from airflow_kafka_offsets.offsets.windows.ledger_names import window_id
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from tests.chaos import range_load, spark_load, told
from tests.chaos.judge import Piece, Times, judge_holes
from tests.chaos.ledger_files import lists, shelves
from tests.chaos.plan import SPARK, TWINS, Pipeline
from tests.chaos.publications import Holding, Shelf, judge_lists, judge_publications
from tests.chaos.ranges import Offsets
from tests.chaos.worker import Place

_BY_SPARK = {*SPARK, *(TWINS[each] for each in SPARK)}


@dataclass(frozen=True, slots=True)
class Standing:
    """The state of a pipeline's windows.

    :param shelves: their files.
    :param holding: the rows of every publication.
    :param pieces: the pieces of the publications that count.
    :param complaints: publications in a wrong order, with wrong contents, or whose files aren't listed.
    """

    shelves: Mapping[Times, Shelf]
    holding: Holding
    pieces: tuple[Piece, ...]
    complaints: tuple[str, ...]

    @classmethod
    def of(cls, pipeline: Pipeline, place: Place) -> Self:
        """The state now."""
        ledger, found = place.ledger(), shelves(place.path(place.root) / "loads")
        by = spark_load if pipeline.store in _BY_SPARK else range_load
        holding: Holding = {
            (window, number): by.published_offsets(says["output"])
            for window, shelf in found.items()
            for number, says in shelf.publications.items()
        }
        complaints = [
            f"window {window}: {words}"
            for window, shelf in found.items()
            for words in judge_publications(
                shelf, _told(ledger, window), {each: _count(holding[window, each]) for each in shelf.publications}
            )
        ]
        listed = {
            (window, found[window].counts): by.offsets_in(files)
            for window, files in lists(place.path(place.root) / "loads").items()
        }
        complaints += judge_lists(found, holding, listed)
        pieces = (
            piece
            for window, shelf in found.items()
            if shelf.counts is not None
            for piece in _pieces(
                ledger.pinned(window_id(*window), shelf.publications[shelf.counts]["revision"]).manifest,
                holding[window, shelf.counts],
            )
        )
        return cls(found, holding, tuple(pieces), tuple(complaints))

    @property
    def windows(self) -> set[Times]:
        """The published windows."""
        return {window for window, shelf in self.shelves.items() if shelf.counts is not None}


def judge_told(place: Place, pieces: Sequence[Piece]) -> list[str]:
    """What the ledger reports wrongly about holes and tiling.

    :param pieces: the pieces of the publications that count.
    """
    ledger = place.ledger()
    claims = verify(ledger)
    holes = told.told(ledger, sorted({each.window for each in pieces}))
    return [*told.complaints(claims), *judge_holes(pieces, told.listed(claims), holes)]


def _told(ledger: Ledger, window: Times) -> int | None:
    publication = ledger.window_folders.publication(window_id(*window))
    return None if publication is None else publication.number


def _count(rows: Offsets) -> int:
    return sum(map(len, rows.values()))


def _pieces(manifest: Manifest, rows: Offsets) -> Iterator[Piece]:
    """What a published window says. It should have no rows of partitions that aren't in its manifest."""
    output = dict(rows)
    for each in manifest.ranges:
        yield Piece(
            topic=each.topic,
            partition=each.partition,
            start_ms=manifest.start_ms,
            end_ms=manifest.end_ms,
            start_offset=each.start_offset,
            end_offset=each.end_offset,
            lost_offsets=each.lost_offsets,
            end_evidence=str(each.end_evidence),
            published=tuple(output.pop((each.topic, each.partition), ())),
        )
    for (topic, partition), offsets in output.items():
        yield Piece(topic, partition, manifest.start_ms, manifest.end_ms, 0, 0, 0, "unknown", tuple(offsets))
