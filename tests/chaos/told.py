"""What a ledger reports about itself: the holes that its verification finds."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice, pairwise

from airflow_kafka_offsets.ledger.holes import Surroundings
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.verification import Claim
from airflow_kafka_offsets.offsets.instants import parse_instant
from airflow_kafka_offsets.offsets.windows.ledger_names import window_id
from tests.chaos.judge import Hole, Times

_SOME = 10
"""How many windows without a hole before them are verified too."""
_BETWEEN = re.compile(r"(?:no window|not published yet,) from (\S+) to (\S+?):? ")


def listed(claims: list[Claim]) -> list[Times]:
    """The holes that the verification of a whole ledger lists, and what isn't published yet.

    :raises AssertionError: the words have an unknown form.
    """
    between = [each for each in claims if each.claim == "hole" or (each.claim == "unpublished" and not _beside(each))]
    found = [(each, _BETWEEN.match(each.found)) for each in between]
    assert all(match for _, match in found), found
    return [(parse_instant(match[1]), parse_instant(match[2])) for _, match in found if match]


def _beside(claim: Claim) -> bool:
    """Whether it is about windows that aren't between published ones."""
    return claim.found.startswith("not published yet: ")


def complaints(claims: list[Claim]) -> list[str]:
    """What the verification finds wrong with the windows taken together, except holes."""
    return [f"{each.claim}: {each.found}" for each in claims if not each.holds and each.claim in ("tiling", "orphans")]


def told(ledger: Ledger, windows: list[Times]) -> Iterator[Hole]:
    """The holes before windows, as the verification of each window finds them. Verifies all windows that don't meet the
    one before, and some others.

    :param windows: times of the published windows, in order.
    """
    unmet = [other for one, other in pairwise(windows) if one[1] != other[0]]
    meeting = (other for one, other in pairwise(windows) if one[1] == other[0])
    for each in (*unmet, *islice(meeting, _SOME)):
        published = ledger.window_folders.publication(window_id(*each))
        assert published is not None
        pinned = ledger.pinned(window_id(*each), published.revision)
        hole = Surroundings(ledger, pinned.manifest).before()
        if hole is not None:
            whole = hole.whole
            offsets = {(gap.topic, gap.partition): range(gap.end_offset, gap.start_offset) for gap in whole.gaps}
            yield Hole(whole.start_ms, whole.end_ms, offsets)
