"""Progress: how far an application is with its windows, as lines on stderr now and then."""

from __future__ import annotations

import sys
import time

from airflow_kafka_offsets.errors import number_of
from airflow_kafka_offsets.offsets.instants import duration_text

EVERY_S = 10.0
"""Between two lines; the last one comes at once."""


class Progress:
    """How many windows have ended.

    :param windows: how many there are.
    """

    def __init__(self, windows: int) -> None:
        self._windows = windows
        self._done = self._failed = self._rows = 0
        self._began = self._told = time.monotonic()

    def ended(self, rows: int | None) -> None:
        """A window has ended.

        :param rows: how many rows were written; None if it has failed.
        """
        if rows is None:
            self._failed += 1
        else:
            self._done += 1
            self._rows += rows

    def tell(self, *, last: bool = False) -> None:
        """Print a line, unless the last one is recent.

        :param last: all windows have ended.
        """
        now = time.monotonic()
        if self._windows > 1 and (last or now - self._told >= EVERY_S):
            self._told = now
            print(f"kafka-offsets: {self._line(now - self._began)}", file=sys.stderr, flush=True)

    def _line(self, seconds: float) -> str:
        ended = self._done + self._failed
        left = self._windows - ended
        words = [f"{self._done} of {number_of(self._windows, 'window')} done"]
        words += [f"{self._failed} failed"] if self._failed else []
        words.append(f"{self._rows:,} rows")
        if not left:
            words.append(f"in {duration_text(seconds)}")
        elif ended:
            words.append(f"about {duration_text(seconds / ended * left)} left")
        return ", ".join(words)
