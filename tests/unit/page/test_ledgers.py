"""What the page has read stands for a while, and one reader at a time reads a ledger."""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from threading import Barrier, Event
from weakref import ref

import pytest

from airflow_kafka_offsets.errors import LedgerCorruptError
from airflow_kafka_offsets.page.ledgers import Answer, Cache
from tests.patience import PATIENCE_S

KIB = 2**10


@pytest.fixture
def answers() -> Iterator[Answer]:
    return (Answer(str(number).encode()) for number in count())


def test_an_answer_stands_for_its_time_and_no_longer(answers: Iterator[Answer]) -> None:
    kept, passing = Cache(valid_ms=60_000), Cache(valid_ms=0)
    assert [kept.get("p", "q", lambda: next(answers)).answer.shown for _ in range(2)] == [b"0", b"0"]
    assert [passing.get("p", "q", lambda: next(answers)).answer.shown for _ in range(2)] == [b"1", b"2"]


def test_it_is_as_old_as_its_reading() -> None:
    cache = Cache()
    first = cache.get("p", "q", lambda: Answer(b"1"))
    time.sleep(0.01)
    assert cache.get("p", "q", lambda: Answer(b"2")).read_ms == first.read_ms


def test_each_pipeline_and_each_question_has_an_answer_of_its_own(answers: Iterator[Answer]) -> None:
    cache = Cache()
    asked = [("p", "q"), ("p", "other"), ("other", "q")]
    for _ in range(2):
        found = [cache.get(*each, lambda: next(answers)).answer.shown for each in asked]
        assert found == [b"0", b"1", b"2"]


def test_of_many_who_ask_at_once_one_reads() -> None:
    reads: list[int] = []

    def slowly() -> Answer:
        time.sleep(0.05)
        reads.append(1)
        return Answer(b"1")

    cache = Cache()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: cache.get("p", "q", slowly), range(8)))
    assert len(reads) == 1


def test_an_error_stands_as_an_answer_does() -> None:
    """Whoever waits for a store that fails after a while doesn't wait once more."""
    asked: list[int] = []

    def fail() -> Answer:
        asked.append(1)
        raise OSError("timed out")

    kept, passing = Cache(valid_ms=60_000), Cache(valid_ms=0)
    for _ in range(3):
        with pytest.raises(OSError, match="timed out"):
            kept.get("p", "q", fail)
    assert len(asked) == 1
    with pytest.raises(OSError, match="timed out"):
        passing.get("p", "q", fail)
    assert passing.get("p", "q", lambda: Answer(b"1")).answer.shown == b"1"


def test_an_error_keeps_nothing_of_what_was_read() -> None:
    """A parser's error has the whole text of the file, and a traceback has whatever stood in its functions."""

    class Text(str):
        __slots__ = ("__weakref__",)

    read = []

    def fail() -> Answer:
        text = Text("{" * KIB)
        read.append(ref(text))
        try:
            json.loads(text)
        except ValueError as error:
            raise LedgerCorruptError("damaged") from error
        raise AssertionError

    cache = Cache()
    with pytest.raises(LedgerCorruptError, match="damaged"):
        cache.get("p", "q", fail)
    gc.collect()
    assert read[0]() is None


def test_the_oldest_answer_goes_when_all_of_them_take_too_much(answers: Iterator[Answer]) -> None:
    cache = Cache(most_bytes=100 * KIB)
    for question in ("first", "second", "third"):
        cache.get("p", question, lambda: Answer(bytes(40 * KIB)))
    assert cache.size_bytes <= 100 * KIB
    assert len(cache.get("p", "third", lambda: next(answers)).answer.shown) == 40 * KIB
    assert cache.get("p", "first", lambda: next(answers)).answer.shown == b"0"


def test_many_questions_take_no_more_than_one_may(answers: Iterator[Answer]) -> None:
    """The windows before each window, so many of them: a question that one viewer can ask in any number."""
    cache = Cache(most_bytes=100 * KIB)
    for most in range(1_000):
        cache.get("p", ("windows", most), lambda: next(answers))
    assert 50 * KIB < cache.size_bytes <= 100 * KIB


def test_an_answer_that_takes_too_much_alone_is_given_and_not_kept() -> None:
    cache = Cache(most_bytes=100 * KIB)
    assert len(cache.get("p", "q", lambda: Answer(bytes(200 * KIB))).answer.shown) == 200 * KIB
    assert cache.size_bytes == 0


def test_what_does_not_stand_any_more_goes_when_something_is_kept() -> None:
    cache = Cache(valid_ms=50)
    for question in range(5):
        cache.get("p", question, lambda: Answer(bytes(100 * KIB)))
    time.sleep(0.06)
    cache.get("other", "q", lambda: Answer(b"1"))
    assert 0 < cache.size_bytes < 100 * KIB


def test_an_answer_that_is_read_again_takes_its_own_place() -> None:
    cache = Cache(valid_ms=0)
    sizes = set()
    for _ in range(3):
        cache.get("p", "q", lambda: Answer(bytes(10 * KIB)))
        sizes.add(cache.size_bytes)
    assert len(sizes) == 1


def test_a_kept_answer_is_given_while_another_question_is_read() -> None:
    cache, reading, goes_on = Cache(), Event(), Event()
    cache.get("p", "overview", lambda: Answer(b"1"))

    def slowly() -> Answer:
        reading.set()
        assert goes_on.wait(PATIENCE_S)
        return Answer(b"2")

    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(cache.get, "p", "record", slowly)
        assert reading.wait(PATIENCE_S)
        assert cache.get("p", "overview", lambda: Answer(b"3")).answer.shown == b"1"
        goes_on.set()
        assert other.result(PATIENCE_S).answer.shown == b"2"


def test_what_took_longer_than_an_answer_stands_is_not_asked_again_by_those_who_waited() -> None:
    reads: list[int] = []
    all_ask = Barrier(8)

    def hang() -> Answer:
        reads.append(1)
        time.sleep(1)
        raise OSError("read timed out")

    def ask(cache: Cache) -> str:
        all_ask.wait(PATIENCE_S)
        with pytest.raises(OSError) as raised:
            cache.get("p", "q", hang)
        return str(raised.value)

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(ask, [Cache(valid_ms=900)] * 8)) == {"read timed out"}
    assert len(reads) == 1


def test_who_wants_a_newer_one_has_it_read(answers: Iterator[Answer]) -> None:
    cache = Cache()
    asked = [cache.get("p", "q", lambda: next(answers), at_most_ms).answer.shown for at_most_ms in (None, 0, 60_000)]
    assert asked == [b"0", b"1", b"1"]
