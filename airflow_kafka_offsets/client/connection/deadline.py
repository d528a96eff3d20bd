"""Deadlines: one point in time that a whole call has to meet, with connecting, retrying and every wait in between."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from typing import Self

_FIRST_BACKOFF_S = 0.1
_LONGEST_BACKOFF_S = 1.0
_SHORTEST_ATTEMPT_S = 0.1
"""An attempt that is cut off sooner would replace what the broker said last by a timeout, and cost the connection."""


@dataclass(frozen=True, slots=True)
class Deadline:
    """When an answer is due.

    :param at_s: seconds on the monotonic clock.
    :param timeout_s: how long the whole call was given, for messages.
    """

    at_s: float
    timeout_s: float

    @classmethod
    def after(cls, timeout_s: float) -> Self:
        """The deadline that many seconds from now."""
        return cls(time.monotonic() + timeout_s, timeout_s)

    def within(self, timeout_s: float) -> Deadline:
        """The deadline of one attempt: this one, or that many seconds from now if that is sooner."""
        return Deadline(min(self.at_s, time.monotonic() + timeout_s), self.timeout_s)

    def remaining_s(self) -> float:
        """Seconds left; 0 when it has passed."""
        return max(0.0, self.at_s - time.monotonic())

    def allows(self, pause_s: float) -> bool:
        """Whether there is time for another attempt after a pause."""
        return self.remaining_s() > pause_s + _SHORTEST_ATTEMPT_S

    def remaining_ms(self) -> int:
        """Milliseconds left; 0 when it has passed."""
        return int(self.remaining_s() * 1000)


def backoff_s(attempt: int) -> float:
    """How long to wait after an attempt: doubling, capped, and jittered so that clients don't march in step."""
    return min(_LONGEST_BACKOFF_S, _FIRST_BACKOFF_S * 2.0 ** min(attempt, 10)) * random.uniform(0.5, 1.0)
