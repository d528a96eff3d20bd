"""A window of five records, and what drivers have counted of it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from airflow_kafka_offsets.ledger.counted import Counted
from airflow_kafka_offsets.ledger.entries import Published
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.state import Window
from tests.integration.airflow.conftest import Resolve, at
from tests.integration.airflow.windows.conftest import XCom
from tests.integration.ledger.loads import begin, store_result
from tests.integration.ledger.results import result_of

Count = Callable[..., Counted]


@pytest.fixture
def window(ten: str, resolve: Resolve) -> XCom:
    """Five records, resolved and not loaded."""
    return resolve(ten, at(2), at(7))


@pytest.fixture
def pinned(window: XCom, ledger: Ledger) -> Window:
    """The same window, as the ledger has it."""
    ledger.read()
    return ledger.window(window["window"])


@pytest.fixture
def count(ledger: Ledger) -> Count:
    """As :func:`counted_in` the ledger."""
    return partial(counted_in, ledger)


def counted_in(ledger: Ledger, window: Window, who: Any = None, **fields: Any) -> Counted:
    """Begin an attempt, and leave in a ledger what a driver leaves that has read and written each offset once."""
    ledger.read()
    attempt = begin(ledger, window, who)
    return store_result(ledger, window, result_of(ledger, window, attempt, **fields))


def published(ledger: Ledger, window: Window) -> Published | None:
    """What counts of a window now."""
    ledger.read()
    return ledger.window(window.name).publication
