"""What ends before its test process does: with the tests that share it. Idle, three brokers take a fifth of a core
and a whole Airflow a third."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

_ENDINGS = pytest.StashKey[list[Callable[[], object]]]()


def end_with_unit(request: pytest.FixtureRequest) -> None:
    """Have a session's fixture end after the last test of the unit that asked for it first.

    A test of another unit that asks for it afterwards has it made anew, so that no order of tests is a wrong one.

    :param request: of the fixture itself.
    """
    finish = partial(request._fixturedef.finish, request)  # pytest has no public way to end a fixture early
    request.session.stash.setdefault(_ENDINGS, []).append(finish)


def end(session: pytest.Session) -> None:
    """End what the tests of a unit have shared."""
    endings = session.stash.get(_ENDINGS, [])
    while endings:
        endings.pop()()
