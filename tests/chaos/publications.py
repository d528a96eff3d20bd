"""The judge of publications: do each window's publications follow one another, and does the last one count?

It only compares the contents of files. It shares no code with what it judges: neither
:mod:`airflow_kafka_offsets.ledger.publications` nor :mod:`airflow_kafka_offsets.offsets.proof.publication`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from tests.chaos.judge import Key, Times


@dataclass(frozen=True, slots=True)
class Counted:
    """The file in which an attempt says what it has counted.

    :param sha256: of its bytes.
    :param rows: how many rows the attempt has written, over all partitions.
    :param output: where it has written them.
    :param manifest_sha256: the manifest that it has read.
    """

    sha256: str
    rows: int
    output: str | None
    manifest_sha256: str


@dataclass(frozen=True, slots=True)
class Shelf:
    """The files of one window, in all its revisions.

    :param publications: the contents of each, by the number in its file's name.
    :param results: what attempts have counted, by revision and attempt.
    :param manifests: the hash of each revision's manifest.
    :param forgotten: revisions that don't count anymore.
    """

    publications: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    results: Mapping[tuple[int, str], Counted] = field(default_factory=dict)
    manifests: Mapping[int, str] = field(default_factory=dict)
    forgotten: Collection[int] = ()

    @property
    def counts(self) -> int | None:
        """The number of the publication that counts; None if there is none."""
        return max(self._live(self.publications), default=None)

    def _live(self, numbers: Collection[int]) -> list[int]:
        return [each for each in numbers if self.publications[each]["revision"] not in self.forgotten]


def judge_publications(shelf: Shelf, told: int | None, held: Mapping[int, int]) -> list[str]:
    """Everything that is wrong with the publications of a window.

    :param told: the number of the one that counts, according to the ledger.
    :param held: how many rows each publication's output has, by number.
    """
    complaints = [*_misnumbered(shelf), *_out_of_order(shelf)]
    for number in sorted(shelf.publications):
        complaints += [f"publication {number} {words}" for words in _misstated(shelf, number, held.get(number, 0))]
    if told != shelf.counts:
        complaints.append(f"publication {shelf.counts} counts, and the ledger tells of {told}")
    return complaints


def _misnumbered(shelf: Shelf) -> Iterator[str]:
    numbers = sorted(shelf.publications)
    if numbers != list(range(1, len(numbers) + 1)):
        yield f"publications {numbers} aren't numbered from 1 on without a hole"
    yield from (
        f"publication {number} says that it is {says['number']}"
        for number, says in shelf.publications.items()
        if says["number"] != number
    )


def _out_of_order(shelf: Shelf) -> Iterator[str]:
    """Publications in a wrong order.

    The order is wrong if a revision follows a newer one or itself, if a publication doesn't replace the one that
    counted before it, or if what was left of a window replaces the whole window. In a table, a later attempt may
    overwrite the one before it.
    """
    publications = shelf.publications
    for one, other in pairwise(sorted(publications)):
        before, after = publications[one]["revision"], publications[other]["revision"]
        if after < before:
            yield f"publication {other} is of revision {after}, and the one before it of revision {before}"
        if after == before and not _wrote_over(publications[other], publications[one]):
            yield f"publications {one} and {other} are both of revision {after}"
    for number, says in sorted(publications.items()):
        earlier = [each for each in publications if each < number]
        # A publication that has been forgotten since may have counted then.
        counted = {max(earlier, default=None), max(shelf._live(earlier), default=None)}
        replaced = says["replaces"]
        if replaced not in counted:
            yield f"publication {number} replaces {replaced}, and {max(earlier, default=None)} counted before"
        whole = publications.get(replaced)
        if whole is not None and _snapshots(whole) == _snapshots(says) and not _wrote_over(says, whole):
            yield f"publication {number} has what was left of the window, and replaces the whole of it"


def _wrote_over(says: Mapping[str, Any], before: Mapping[str, Any]) -> bool:
    """Whether an attempt's rows have replaced another one's, as a later attempt's do in a table."""
    return not says.get("apart", True) and says["started_ms"] > before["started_ms"]


def _snapshots(says: Mapping[str, Any]) -> tuple[int, int]:
    return says["start_snapshot"], says["end_snapshot"]


def _misstated(shelf: Shelf, number: int, held: int) -> Iterator[str]:
    """Differences between a publication and the files that it refers to."""
    says = shelf.publications[number]
    counted = shelf.results.get((says["revision"], says["attempt"]))
    if counted is None:
        yield f"is of attempt {says['attempt']}, which has counted nothing"
        return
    if says["result_sha256"] != counted.sha256:
        yield f"was made of another result of attempt {says['attempt']} than there is"
    manifests = {says["manifest_sha256"], counted.manifest_sha256, shelf.manifests.get(says["revision"])}
    if len(manifests) > 1:
        yield f"is of another manifest than revision {says['revision']} or its attempt"
    if says["output"] != counted.output:
        yield f"is in {says['output']}, and its attempt has written to {counted.output}"
    if not says["rows"] == counted.rows == held:
        yield f"says {says['rows']} rows, of which its attempt has counted {counted.rows}, and there are {held}"


Holding = Mapping[tuple[Times, int | None], Mapping[Key, list[int]]]
"""Offsets in the outputs of publications, by topic and partition; all by window and number, None if there is none."""


def judge_kept(before: Holding, after: Holding) -> list[str]:
    """Publications that are gone, or whose rows have changed.

    :param before: the publications' rows at some time.
    :param after: the same at a later time.
    """
    gone = [f"publication {number} of window {window} is gone" for window, number in sorted(before.keys() - after)]
    changed = sorted(each for each in before.keys() & after if _sorted(before[each]) != _sorted(after[each]))
    return gone + [f"publication {number} of window {window} has other rows by now" for window, number in changed]


def _sorted(rows: Mapping[Key, list[int]]) -> dict[Key, list[int]]:
    return {key: sorted(offsets) for key, offsets in rows.items() if offsets}


def judge_lists(shelves: Mapping[Times, Shelf], holding: Holding, listed: Holding) -> list[str]:
    """Windows whose list names files with other rows than those published.

    :param holding: the rows of all publications.
    :param listed: the rows in the files that lists name, by window and the number that counts; absent if there is no
        list.
    """
    counting = {(window, shelf.counts) for window, shelf in shelves.items() if shelf.counts is not None}
    wrong = sorted(
        each
        for each in counting | listed.keys()
        if _sorted(listed.get(each, {})) != (_sorted(holding[each]) if each in counting else {})
    )
    return [f"the list of window {window} names other rows than publication {number} has" for window, number in wrong]


def judge_apart(one: Mapping[Times, Shelf], other: Mapping[Times, Shelf]) -> list[str]:
    """Outputs that two ledgers have both published."""
    places = [
        {says["output"] for shelf in each.values() for says in shelf.publications.values()} - {None}
        for each in (one, other)
    ]
    return [f"both ledgers have published {each}" for each in sorted(places[0] & places[1])]
