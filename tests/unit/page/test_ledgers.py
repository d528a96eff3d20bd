"""What the page has read stands for a while, and one reader at a time reads a ledger."""

from __future__ import annotations

import gc
import json
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from threading import Barrier, Event
from weakref import ref

import pytest

from airflow_kafka_offsets.errors import LedgerCorruptError
from airflow_kafka_offsets.page.ledgers import Recent
from tests.patience import PATIENCE_S


def test_what_was_read_of_a_pipeline_stands_for_its_time_and_no_longer() -> None:
    kept, passing, numbers = Recent[int](valid_ms=60_000), Recent[int](valid_ms=0), count()
    assert [kept.get(key, lambda: next(numbers)).answer for key in ("p", "q", "p", "q")] == [0, 1, 0, 1]
    assert [passing.get("p", lambda: next(numbers)).answer for _ in range(2)] == [2, 3]


def test_it_is_as_old_as_its_reading() -> None:
    recent = Recent[int]()
    first = recent.get("p", lambda: 1)
    time.sleep(0.01)
    assert recent.get("p", lambda: 2).read_ms == first.read_ms


def test_who_wants_a_newer_one_has_it_read() -> None:
    recent, numbers = Recent[int](), count()
    asked = [recent.get("p", lambda: next(numbers), at_most_ms).answer for at_most_ms in (None, 0, 60_000)]
    assert asked == [0, 1, 1]


def test_what_does_not_stand_any_more_goes_when_something_is_read() -> None:
    recent = Recent[int](valid_ms=50)
    for number in range(5):
        recent.get(f"p{number}", lambda: 0)
    time.sleep(0.06)
    recent.get("other", lambda: 1)
    assert len(recent) == 1


def test_of_many_who_ask_at_once_one_reads_and_what_fails_is_not_asked_again_by_those_who_waited() -> None:
    """Also if that took longer than it stands: its age counts from its end."""
    reads: list[int] = []
    all_ask = Barrier(8)

    def hang() -> int:
        reads.append(1)
        time.sleep(1)
        raise OSError("read timed out")

    def ask(recent: Recent[int]) -> str:
        all_ask.wait(PATIENCE_S)
        with pytest.raises(OSError) as raised:
            recent.get("p", hang)
        return str(raised.value)

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(ask, [Recent[int](valid_ms=900)] * 8)) == {"read timed out"}
    assert len(reads) == 1


def test_an_error_stands_as_an_answer_does_and_no_longer() -> None:
    def fail() -> int:
        raise OSError("timed out")

    passing = Recent[int](valid_ms=0)
    with pytest.raises(OSError, match="timed out"):
        passing.get("p", fail)
    assert passing.get("p", lambda: 1).answer == 1


def test_an_error_keeps_nothing_of_what_was_read() -> None:
    """A parser's error has the whole text of the file, and a traceback has whatever stood in its functions."""

    class Text(str):
        __slots__ = ("__weakref__",)

    read = []

    def fail() -> int:
        text = Text("{" * 1024)
        read.append(ref(text))
        try:
            json.loads(text)
        except ValueError as error:
            raise LedgerCorruptError("damaged") from error
        raise AssertionError

    recent = Recent[int]()
    with pytest.raises(LedgerCorruptError, match="damaged"):
        recent.get("p", fail)
    gc.collect()
    assert read[0]() is None


def test_what_is_known_of_one_pipeline_is_given_while_another_one_is_read() -> None:
    recent, reading, goes_on = Recent[int](), Event(), Event()
    recent.get("p", lambda: 1)

    def slowly() -> int:
        reading.set()
        assert goes_on.wait(PATIENCE_S)
        return 2

    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(recent.get, "q", slowly)
        assert reading.wait(PATIENCE_S)
        assert recent.get("p", lambda: 3).answer == 1
        goes_on.set()
        assert other.result(PATIENCE_S).answer == 2
