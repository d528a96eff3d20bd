"""A window's listing: its state and its attempts, as the names of the files in its folder tell them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from airflow_kafka_offsets.offsets.proof.publication import OF_LOAD, Publication, counting
from airflow_kafka_offsets.offsets.windows.ledger_names import (
    APPLICATIONS,
    ATTEMPTS,
    FAILURES,
    LOSSES,
    RESULTS,
    VERDICTS,
)


class WindowState(StrEnum):
    """The state of a window, in order of its life."""

    PINNED = "pinned"
    LOADING = "loading"
    FAILED = "failed"
    COUNTED = "counted"
    LOST = "lost"
    PUBLISHED = "published"
    VERIFIED = "verified"


@dataclass(frozen=True, slots=True)
class WindowListing:
    """The files in a revision's folder, and the publications of its window, at one moment.

    :param files: the files' paths, relative to the folder, in order.
    :param revision: the revision's number.
    :param publications: the window's publications, of all revisions, oldest first.
    """

    files: tuple[str, ...]
    revision: int
    publications: tuple[Publication, ...]

    @property
    def publication(self) -> Publication | None:
        """The newest publication of the revision; None when there is none. Another revision's may count instead."""
        return counting(self.publications, [self.revision])

    @property
    def published(self) -> str | None:
        """The revision's last published attempt; None when there is none."""
        found = self.publication
        return None if found is None else found.attempt

    @property
    def state(self) -> WindowState:
        """The window's state."""
        if self.published:
            return WindowState.VERIFIED if self.published in self.verified else WindowState.PUBLISHED
        if self.losses:
            return WindowState.LOST
        if self.counted:
            return WindowState.COUNTED
        if not self.attempts:
            return WindowState.PINNED
        return WindowState.LOADING if self.unended else WindowState.FAILED

    @property
    def attempts(self) -> list[str]:
        """Names of all attempts, in order of submission. If a driver chose the name, only its application is noted."""
        return sorted({*self._named(ATTEMPTS), *self._named(APPLICATIONS)})

    @property
    def unended(self) -> list[str]:
        """Names of the attempts without a recorded failure: they may be running, unless they were killed. Empty for a
        published window."""
        loads = {failure.rpartition(OF_LOAD)[0] for failure in self.failures} - {*self._named(APPLICATIONS)}
        return [] if self.published else sorted({*self.attempts} - {*self.failures} - loads)

    @property
    def failures(self) -> list[str]:
        """Names of the attempts that are known to have failed."""
        return self._named(FAILURES)

    @property
    def results(self) -> list[str]:
        """Names of the attempts that have a result."""
        return self._named(RESULTS)

    @property
    def counted(self) -> list[str]:
        """Names of the attempts that have a result, and aren't known to have failed since."""
        return [attempt for attempt in self.results if attempt not in self.failures]

    @property
    def verified(self) -> list[str]:
        """Names of the attempts that verify has proved."""
        return self._named(VERDICTS)

    @property
    def losses(self) -> list[str]:
        """Names of the recorded losses."""
        return self._named(LOSSES)

    def _named(self, folder: str) -> list[str]:
        start = f"{folder}/"
        return [file.removeprefix(start).removesuffix(".json") for file in self.files if file.startswith(start)]
