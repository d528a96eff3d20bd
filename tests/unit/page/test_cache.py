"""What the page has read stands for a while, and one reader at a time reads a ledger."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from airflow_kafka_offsets.page.cache import Cache


def test_an_answer_stands_for_its_time_and_no_longer() -> None:
    answers = iter(range(10))
    kept, passing = Cache(stands_ms=60_000), Cache(stands_ms=0)
    assert [kept.get("p", "q", lambda: next(answers)).value for _ in range(2)] == [0, 0]
    assert [passing.get("p", "q", lambda: next(answers)).value for _ in range(2)] == [1, 2]


def test_each_pipeline_and_each_question_has_an_answer_of_its_own() -> None:
    cache = Cache()
    asked = [("p", "q"), ("p", "other"), ("other", "q")]
    assert [cache.get(*each, lambda each=each: each).value for each in asked] == asked  # type: ignore[misc]


def test_of_many_who_ask_at_once_one_reads() -> None:
    reads: list[int] = []

    def slowly() -> int:
        time.sleep(0.05)
        reads.append(1)
        return len(reads)

    cache = Cache()
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(lambda _: cache.get("p", "q", slowly).value, range(8))) == {1}


def test_an_error_stands_as_an_answer_does() -> None:
    """Whoever waits for a store that fails after a while doesn't wait once more."""
    asked: list[int] = []

    def fail() -> int:
        asked.append(1)
        raise OSError("timed out")

    kept, passing = Cache(stands_ms=60_000), Cache(stands_ms=0)
    for _ in range(3):
        with pytest.raises(OSError, match="timed out"):
            kept.get("p", "q", fail)
    assert len(asked) == 1
    with pytest.raises(OSError, match="timed out"):
        passing.get("p", "q", fail)
    assert passing.get("p", "q", lambda: 1).value == 1


def test_the_oldest_answer_goes_when_there_are_too_many() -> None:
    cache = Cache(most=2)
    answers = iter(range(10))
    for question in ("first", "second", "third"):
        cache.get("p", question, lambda: next(answers))
    assert cache.get("p", "third", lambda: next(answers)).value == 2
    assert cache.get("p", "first", lambda: next(answers)).value == 3
