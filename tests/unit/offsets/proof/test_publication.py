"""Publications: what each says, and which one counts."""

from __future__ import annotations

import pytest

from airflow_kafka_offsets.errors import LedgerCorruptError
from airflow_kafka_offsets.offsets.proof.publication import Publication, counting, counts_over, publication_numbers
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.offsets.windows.ranges import window_between
from tests.unit.offsets.builders import T0, snapshot
from tests.unit.offsets.proof.results import publication

STRICT = publication(outside=7)


@pytest.mark.parametrize("one", [publication(), STRICT, publication(output=None, rows=0, replaces=4, number=5)])
def test_it_is_read_as_it_was_written(one: Publication) -> None:
    assert Publication.from_bytes(one.to_bytes()) == one


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b'{"format": 1, "attempt": "try-1"}', id="a field is missing"),
        pytest.param(STRICT.to_bytes().replace(b'"format":1', b'"format":9'), id="a format of the future"),
        pytest.param(STRICT.to_bytes().replace(b'"a-1"', b'"../a"'), id="an attempt that is another folder"),
        pytest.param(STRICT.to_bytes()[:-5], id="cut short"),
        pytest.param(b"[]", id="no object"),
    ],
)
def test_something_else_is_refused(content: bytes) -> None:
    with pytest.raises(LedgerCorruptError, match="not a publication"):
        Publication.from_bytes(content)


def test_files_are_told_by_their_numbers() -> None:
    assert publication_numbers(["00000010.json", "00000002.json", "00000003.json.tmp", "x.json"]) == [2, 10]


class TestWhatCounts:
    FIRST, SECOND, THIRD = (publication(number=number, revision=number) for number in (1, 2, 3))

    def test_it_is_the_newest_in_whatever_order_they_are_listed(self) -> None:
        assert counting([self.SECOND, self.THIRD, self.FIRST], [1, 2, 3]) == self.THIRD

    def test_one_of_a_forgotten_revision_gives_way_to_the_one_before(self) -> None:
        assert counting([self.FIRST, self.SECOND], [1]) == self.FIRST
        assert counting([self.FIRST], []) is None


def manifest() -> Manifest:
    """Of the snapshots 3 and 4."""
    return Manifest.of(
        "loads", "c" * 32, window_between(snapshot({0: 5}, number=3), snapshot({0: 9}, at_ms=T0 + 1, number=4))
    )


class TestWhatGoesOnCounting:
    @pytest.mark.parametrize("written_ms", [None, 1])
    def test_an_older_revision_never_takes_a_newer_ones_place(self, written_ms: int | None) -> None:
        assert counts_over(publication(revision=2, start_snapshot=9), manifest(), written_ms=written_ms)

    def test_of_one_revision_the_first_attempt_counts(self) -> None:
        assert counts_over(publication(revision=1), manifest())

    def test_in_a_table_the_one_whose_rows_are_there(self) -> None:
        assert counts_over(publication(revision=1, started_ms=5), manifest(), written_ms=5)
        assert not counts_over(publication(revision=1, started_ms=5), manifest(), written_ms=6)

    def test_what_was_resolved_anew_takes_the_place_of_the_older_one(self) -> None:
        assert not counts_over(publication(start_snapshot=9), manifest().revised(2))

    def test_what_a_loss_has_left_stands_back_where_the_whole_has_a_place_of_its_own(self) -> None:
        """In a table it has taken the whole one's place, and the ledger says so."""
        left = manifest().revised(2)
        whole = publication(start_snapshot=left.start_snapshot, end_snapshot=left.end_snapshot)
        assert counts_over(whole, left)
        assert not counts_over(whole, left, written_ms=1)
