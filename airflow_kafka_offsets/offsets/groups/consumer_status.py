"""Consumer status: whether a group gets on, from what its commits and the log ends were over the last while.

The rules are those of Burrow (linkedin/Burrow, its wiki's "Consumer Lag Evaluation Rules"), which need no threshold to
tell a slow consumer from a stuck one. Burrow reads the commits themselves; we ask for the last one now and then, so
that its STOP (no commits) and STALL (commits of the same offset) are one here.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from itertools import pairwise
from typing import NamedTuple


class Sample(NamedTuple):
    """One partition at one time.

    :param committed_offset: what the group had committed.
    :param end_offset: where the log ended.
    """

    committed_offset: int
    end_offset: int

    @property
    def lag(self) -> int:
        """Offsets behind."""
        return max(0, self.end_offset - self.committed_offset)


class ConsumerStatus(IntEnum):
    """How a group gets on, from good to bad."""

    OK = 0
    """It is not behind, or getting nearer."""
    BEHIND = 1
    """It commits, and its lag never fell (Burrow's WARN)."""
    STUCK = 2
    """It is behind, and its commit hasn't moved (Burrow's STALL and STOP)."""
    REWOUND = 3
    """Its commit went back, and has not caught up with where it was (Burrow's REWIND)."""


def judge_partition(samples: Sequence[Sample], allowed_lag: int = 0) -> ConsumerStatus:
    """How a group gets on with one partition.

    :param samples: the last while, oldest first; one alone is no while, and OK.
    :param allowed_lag: a lag of so many offsets is none.
    """
    if len(samples) < 2 or samples[-1].lag <= allowed_lag:
        return ConsumerStatus.OK
    commits = [sample.committed_offset for sample in samples]
    if commits[-1] < max(commits):
        return ConsumerStatus.REWOUND
    lags = [sample.lag for sample in samples]
    if min(lags) <= allowed_lag:
        return ConsumerStatus.OK
    if commits[0] == commits[-1]:
        return ConsumerStatus.STUCK
    falling = any(later < earlier for earlier, later in pairwise(lags))
    return ConsumerStatus.OK if falling else ConsumerStatus.BEHIND
