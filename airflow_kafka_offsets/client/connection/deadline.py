"""Deadlines: the point in time by which a whole call must end, including connecting, retries and every wait."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from typing import Self

_FIRST_BACKOFF_S = 0.1
_LONGEST_BACKOFF_S = 1.0
_SHORTEST_ATTEMPT_S = 0.1
"""A shorter attempt would only replace the broker's last answer with a timeout, and cost the connection."""


@dataclass(frozen=True, slots=True)
class Deadline:
    """When an answer is due.

    :param at_s: seconds on the monotonic clock.
    :param timeout_s: time limit of the whole call, for messages.
    """

    at_s: float
    timeout_s: float

    @classmethod
    def after(cls, timeout_s: float) -> Self:
        """A deadline this many seconds from now."""
        return cls(time.monotonic() + timeout_s, timeout_s)

    def within(self, timeout_s: float) -> Deadline:
        """The deadline of one attempt: this one, or this many seconds from now, whichever is sooner."""
        return Deadline(min(self.at_s, time.monotonic() + timeout_s), self.timeout_s)

    def remaining_s(self) -> float:
        """Seconds left; 0 if the deadline has passed."""
        return max(0.0, self.at_s - time.monotonic())

    def allows(self, pause_s: float) -> bool:
        """Whether a pause leaves time for another attempt."""
        return self.remaining_s() > pause_s + _SHORTEST_ATTEMPT_S

    def remaining_ms(self) -> int:
        """Milliseconds left; 0 if the deadline has passed."""
        return int(self.remaining_s() * 1000)


def backoff_s(attempt: int) -> float:
    """Seconds to wait after an attempt: doubling, capped, and jittered so that clients don't retry in step."""
    return min(_LONGEST_BACKOFF_S, _FIRST_BACKOFF_S * 2.0 ** min(attempt, 10)) * random.uniform(0.5, 1.0)
