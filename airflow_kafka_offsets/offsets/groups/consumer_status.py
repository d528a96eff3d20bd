"""Consumer status: whether a group makes progress, judged by its commits and the log ends over a recent period.

The rules are Burrow's (linkedin/Burrow, "Consumer Lag Evaluation Rules" in its wiki), which tell a slow consumer from a
stuck one without a threshold. Burrow reads every commit; this package asks for the latest one now and then, so Burrow's
STOP (no commits) and STALL (commits of the same offset) are one status here.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from itertools import pairwise
from typing import NamedTuple


class Sample(NamedTuple):
    """One partition at one time.

    :param committed_offset: the group's committed offset.
    :param end_offset: the log end.
    """

    committed_offset: int
    end_offset: int

    @property
    def lag(self) -> int:
        """Offsets behind."""
        return max(0, self.end_offset - self.committed_offset)


class ConsumerStatus(IntEnum):
    """How a group is doing, from good to bad."""

    OK = 0
    """It isn't behind, or is catching up."""
    BEHIND = 1
    """It commits, but its lag never fell (Burrow's WARN)."""
    STUCK = 2
    """It is behind, and its commit hasn't moved (Burrow's STALL and STOP)."""
    REWOUND = 3
    """Its commit went back, and hasn't returned to where it was (Burrow's REWIND)."""


def judge_partition(samples: Sequence[Sample]) -> ConsumerStatus:
    """How a group is doing on one partition.

    :param samples: a recent period, oldest first; a single sample is OK.
    """
    if len(samples) < 2 or not samples[-1].lag:
        return ConsumerStatus.OK
    commits = [sample.committed_offset for sample in samples]
    if commits[-1] < max(commits):
        return ConsumerStatus.REWOUND
    lags = [sample.lag for sample in samples]
    if not all(lags):
        return ConsumerStatus.OK
    if commits[0] == commits[-1]:
        return ConsumerStatus.STUCK
    falling = any(later < earlier for earlier, later in pairwise(lags))
    return ConsumerStatus.OK if falling else ConsumerStatus.BEHIND
