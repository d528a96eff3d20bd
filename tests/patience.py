"""How long tests wait: for an event, and until it has come, however busy the machine is.

A test never waits for a moment: what it waits for comes as soon as it can, and only a fault takes as long as this.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

PATIENCE_S = 150.0
"""How long to wait for what a busy machine does in a second."""
RUN_S = 800.0
"""How long a program that a test starts may take; less than the test itself, so that its output is shown."""
GRACE_S = 20.0
"""How much later than its deadline, or than at once, a call may end on a busy machine."""


def wait_until(holds: Callable[[], object], what: str) -> None:
    """Wait until something holds. Meanwhile there may be no leader, or no broker that says who leads."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        with suppress(LookupError):
            if holds():
                return
        time.sleep(0.05)
    raise TimeoutError(f"not within {PATIENCE_S:.0f} s: {what}")
