"""What is in the topic, and who writes to it: a month of records, late ones among them, and a producer that goes on.

Partition 0 is in order of time, every hour a record. Partition 1 is too, but every seventh record is up to four days
late. Partition 2 falls idle after a third of the time, and partition 3 is empty. While the backfill runs, all four are
written to: 0 and 1 as before, 2 and 3 with nothing but records that are days late.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import Producer

from tests.integration.conftest import Produce, Record

IN_ORDER, WITH_LATE_ONES, IDLE, EMPTY = range(4)
PARTITIONS = 4
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


def write_past(produce: Produce, topic: str, days: int) -> None:
    """A record an hour and partition, from so many days ago to now."""
    now_ms = time.time_ns() // 1_000_000
    stamps = range(now_ms - days * DAY_MS, now_ms, HOUR_MS)
    chance = random.Random(1)
    delayed = [each - chance.randrange(4 * DAY_MS) if n % 7 == 3 else each for n, each in enumerate(stamps)]
    produce(topic, IN_ORDER, map(_record, stamps))
    produce(topic, WITH_LATE_ONES, map(_record, delayed))
    produce(topic, IDLE, map(_record, stamps[: len(stamps) // 3]))


@contextmanager
def writing_on(bootstrap_servers: str, topic: str, days: int) -> Iterator[None]:
    """Write ten records a second and partition until the block ends.

    :param days: how late the latest of the late ones are.
    """
    over = threading.Event()
    producer = Producer({"bootstrap.servers": bootstrap_servers, "linger.ms": 0})

    def write() -> None:
        chance = random.Random(2)
        while not over.wait(0.1):
            now_ms = time.time_ns() // 1_000_000
            late_ms = now_ms - chance.randrange(days * DAY_MS)
            for partition, stamp in ((IN_ORDER, now_ms), (WITH_LATE_ONES, now_ms), (IDLE, late_ms), (EMPTY, late_ms)):
                producer.produce(topic, b"x", partition=partition, timestamp=stamp)
            producer.poll(0)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        producer.flush()


def _record(stamp_ms: int) -> Record:
    return stamp_ms, None, b"x"
