"""What ends before its test process does: with the last of the tests that share it. Idle, three brokers take a fifth of
a core and a whole Airflow a third."""

from __future__ import annotations

from collections.abc import Callable

import pytest

_ENDINGS = pytest.StashKey[dict[str, Callable[[], object]]]()


def end_with(session: pytest.Session, unit: str, close: Callable[[], object]) -> None:
    """Have something closed after the last test of a unit, such as ``cluster``.

    :param close: may be called again when the session ends.
    """
    session.stash.setdefault(_ENDINGS, {})[unit] = close


def end(session: pytest.Session, unit: str) -> None:
    """Close what a unit shares; nothing where nobody has asked for it."""
    close = session.stash.get(_ENDINGS, {}).pop(unit, None)
    if close is not None:
        close()
