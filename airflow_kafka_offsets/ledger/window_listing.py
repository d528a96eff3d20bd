"""A window's listing: what the names of the files in its folder say, of how far it has come and of its attempts."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from airflow_kafka_offsets.offsets.proof.driver_notes import FAILURES
from airflow_kafka_offsets.offsets.proof.publication import OF_LOAD, Publication, counting

VERDICTS = "verified"


class WindowState(StrEnum):
    """How far a window has come."""

    RESOLVED = "resolved"
    SUBMITTED = "submitted"
    COUNTED = "counted"
    LOST = "lost"
    PUBLISHED = "published"
    VERIFIED = "verified"


@dataclass(frozen=True, slots=True)
class WindowListing:
    """What is in a revision's folder, and what was published of its window by then.

    :param files: the files' paths from the folder on, in order.
    :param revision: which revision of the window.
    :param publications: those of the window, in any revision, the oldest first.
    """

    files: tuple[str, ...]
    revision: int
    publications: tuple[Publication, ...]

    @property
    def publication(self) -> Publication | None:
        """The newest publication of the revision; None when none was published. Another revision's may count."""
        return counting(self.publications, [self.revision])

    @property
    def published(self) -> str | None:
        """The attempt that was published of the revision last; None when none was."""
        found = self.publication
        return None if found is None else found.attempt

    @property
    def state(self) -> WindowState:
        """How far the window has come."""
        if self.published:
            return WindowState.VERIFIED if self.published in self.verified else WindowState.PUBLISHED
        if self.losses:
            return WindowState.LOST
        if self.counted:
            return WindowState.COUNTED
        return WindowState.SUBMITTED if self.attempts else WindowState.RESOLVED

    @property
    def attempts(self) -> list[str]:
        """Names of all attempts, in order of submission. A driver that named its own notes the application alone."""
        return sorted({*self._named("attempts"), *self._named("applications")})

    @property
    def unended(self) -> list[str]:
        """Names of the attempts of which no failure was noted: they may be running, unless they were killed. None in a
        window that is published."""
        loads = {failure.rpartition(OF_LOAD)[0] for failure in self.failures} - {*self._named("applications")}
        return [] if self.published else sorted({*self.attempts} - {*self.failures} - loads)

    @property
    def failures(self) -> list[str]:
        """Names of the attempts that are known to have failed."""
        return self._named(FAILURES)

    @property
    def results(self) -> list[str]:
        """Names of the attempts that got as far as counting."""
        return self._named("results")

    @property
    def counted(self) -> list[str]:
        """Names of the attempts that have counted, and aren't known to have failed since."""
        return [attempt for attempt in self.results if attempt not in self.failures]

    @property
    def verified(self) -> list[str]:
        """Names of the attempts that were proved when they were published."""
        return self._named(VERDICTS)

    @property
    def losses(self) -> list[str]:
        """Names of the losses that were noted."""
        return self._named("losses")

    def _named(self, folder: str) -> list[str]:
        start = f"{folder}/"
        return [file.removeprefix(start).removesuffix(".json") for file in self.files if file.startswith(start)]
