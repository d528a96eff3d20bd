"""Settlement: whether a pinned revision counts.

``manifest.sha256`` decides: it contains the manifest's hash, or says that the revision was taken back. It is created
exclusively, so it is either, for good.

Revisions that may only count together leave the decision to another file, in the folder of one of them. Their own
files name that folder beside their hashes, and the decision comes last: so a crash leaves all of them settled, or none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from airflow_kafka_offsets.ledger.storage import StoragePath, create_exclusive, read

_TAKEN_BACK = b"taken back"
"""How a file begins, instead of with a hash, when it takes the revision back."""
_SETTLED = b"settled"
_DECISION = "settled-together"
_WITH = " with "


@dataclass(frozen=True, slots=True)
class Recorded:
    """What is recorded of a revision, if anything.

    :param sha256: the hash of its manifest; None when none is recorded.
    :param settled: whether it counts: no other window has its offsets, or the user allowed it.
    :param taken_back: whether it was taken back before it was settled.
    :param decider: the folder with the decision, if it is settled together with others.
    """

    sha256: str | None = None
    settled: bool = False
    taken_back: bool = False
    decider: str = ""


class Settlement:
    """The settlement of one revision.

    :param windows: the folder of all windows.
    :param place: the revision's folder in it.
    """

    def __init__(self, windows: StoragePath, place: str) -> None:
        self._windows = windows
        self._place = place

    def recorded(self) -> Recorded:
        """What is recorded now."""
        content = read(self._sha256)
        if content is None or content.startswith(_TAKEN_BACK):
            return Recorded(taken_back=content is not None)
        sha256, _, decider = content.decode().partition(_WITH)
        decision = read(self._decision(decider)) or b"" if decider else _SETTLED
        return Recorded(sha256, decision == _SETTLED, decision.startswith(_TAKEN_BACK), decider)

    def settle(self, sha256: str) -> bool:
        """Settle it, unless it is settled. If it was to be settled with others, and isn't yet, all are taken back.

        :param sha256: the hash of its manifest.
        :returns: False when it was taken back.
        """
        if create_exclusive(self._sha256, sha256.encode()):
            return True
        return not self.take_back("one of several windows that were resolved again was pinned alone")

    def take_back(self, why: str) -> bool:
        """Take it back, with all that were to be settled with it, unless it is settled.

        :returns: False when it is settled.
        """
        said = _TAKEN_BACK + f": {why}".encode()
        if create_exclusive(self._sha256, said):
            return True
        decider = self.recorded().decider
        if decider:
            create_exclusive(self._decision(decider), said)
        return self.recorded().taken_back

    @property
    def _sha256(self) -> StoragePath:
        return self._windows / self._place / "manifest.sha256"

    def _decision(self, decider: str) -> StoragePath:
        return self._windows / decider / _DECISION

    @classmethod
    def settle_together(cls, revisions: Sequence[tuple[Self, str]]) -> bool:
        """Settle all of some revisions, which come with the hashes of their manifests, or none.

        :returns: False when another task has settled one of them, or taken it back. The rest must be taken back then.
        """
        (first, sha256), *others = revisions
        if not others:
            return first.settle(sha256)
        decider = first._place
        joined = (create_exclusive(each._sha256, f"{sha256}{_WITH}{decider}".encode()) for each, sha256 in revisions)
        return all(joined) and create_exclusive(first._decision(decider), _SETTLED)
