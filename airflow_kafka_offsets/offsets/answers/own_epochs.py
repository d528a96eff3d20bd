"""Own epochs: the leader epoch of an offset, which is the one to commit with it (KIP-101, KIP-320).

An offset is of the newest epoch that had begun by then: inside the log, that of its record; at the log's end, that of
the leader. An older one makes consumers believe that the log was truncated, a newer one is of a record further on.

Nobody can be asked for it. ListOffsets answers it for a record that was looked up (Redpanda answers the leader's
current epoch instead), and for other offsets not at all. But where epochs end tells it, for any offset that was seen
under an epoch: it is that one or an older one. No I/O here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from airflow_kafka_offsets.compat.python_versions import Self
from airflow_kafka_offsets.offsets.answers.logs import EpochEnd

_NONE = -1
"""Below all epochs."""


@dataclass(frozen=True, slots=True)
class OwnEpoch:
    """What is known so far of an offset's own epoch.

    :param at_most: the own epoch isn't newer: the epoch that the offset was seen under, or one before it that the log
        has.
    :param above: the own epoch is newer than this one, which ends at the offset or before it.
    """

    offset: int
    at_most: int
    above: int = _NONE

    @property
    def is_known(self) -> bool:
        """Whether only ``at_most`` is left."""
        return self.at_most == self.above + 1

    def questions(self) -> set[int]:
        """The epochs whose ends to ask for next: whether the newest one is the own, and the middle of the rest."""
        return set() if self.is_known else {self.at_most - 1, (self.at_most + self.above) // 2}

    def told(self, asked: int, end: EpochEnd) -> Self | None:
        """What is known once a leader has answered where an epoch ends; None when that makes no sense: the leader
        doesn't remember the epochs, or the log has changed in between."""
        if end.end_offset is None or end.leader_epoch is None or end.leader_epoch > asked:
            return None
        if end.end_offset > self.offset:
            found = replace(self, at_most=min(self.at_most, end.leader_epoch))
        else:
            found = replace(self, above=max(self.above, asked))
        return found if found.above < found.at_most else None
