"""Waits: a thousand deferred tasks for fifty groups on a real triggerer, compared with a thousand of Airflow's own that
only wait for the clock, and with waits as people write them, of which a sample is measured.
"""

from __future__ import annotations

import json
import os
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx

from airflow_kafka_offsets.conditions.groups_caught_up import GroupsCaughtUp
from airflow_kafka_offsets.offsets.answers.groups import CommittedOffset, CommittedOffsets
from dev.airflow_services import AirflowServices
from dev.deferred_waits import insert_waits, waits_taken_up
from dev.kafka import Broker
from tests.benchmarks import requests
from tests.benchmarks.clusters import WAITED, Clusters, client
from tests.benchmarks.report import Row
from tests.benchmarks.trigger_runner import Observed, memory_kib, observed

WAITS = 1_000
SAMPLE = 50
"""How many hand-written waits are measured: a thousand of them would take several cores."""
INTERVAL_S = 10
POLLS = 3
"""How many polls are observed."""
MOVING = WAITED.groups[:5]

_WORK = f"{WAITS:,} deferred waits, {len(WAITED.groups)} groups x {WAITED.partitions} partitions, each {INTERVAL_S} s"
_DEADLINE_S = 300.0
_SETTLE_S = INTERVAL_S / 2
"""How long to wait after a triggerer has picked up waits, so that only its steady state is measured."""
_CPU_PERCENT = 10.0
_CPU_RATIO = 0.1
_KIB_PER_WAIT = 20.0
_SEEN_FROM_S = 0.2
"""Airflow's watchdog reports blocks that are longer than this."""
_NOISE_S = 0.3
"""By how much Airflow's own longest block, during which it reads the triggers to pick up, varies."""
_FIND_COORDINATOR = 10

Arguments = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Taken:
    """What a thousand waits of a kind consume.

    :param kib_per_wait: memory of the runner per wait, beyond that for a single wait of the kind.
    :param start: what was observed while they were picked up.
    :param all_the_time: what was observed afterwards, over :data:`POLLS`.
    """

    kib_per_wait: float
    start: Observed
    all_the_time: Observed


def waits(clusters: Clusters) -> Iterator[Row]:
    """Requests, CPU, memory, and how long the event loop is blocked."""
    broker = clusters.proxied
    with tempfile.TemporaryDirectory(prefix="bench-airflow-") as folder:
        # This process imports Airflow too, to serialize triggers' arguments its way.
        os.environ["AIRFLOW_HOME"] = f"{folder}/own"
        connection = {"conn_type": "kafka", "extra": {"bootstrap.servers": broker.proxied_bootstrap_servers}}
        clusters.say("starting Airflow")
        with AirflowServices(Path(folder) / "services", {"AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps(connection)}) as it:
            clusters.say(f"{SAMPLE} waits written by hand")
            usual = _sample_usual(it, broker)
            clusters.say(f"{WAITS:,} waits for the clock")
            clock = _take(it, broker, "clock", "airflow.providers.standard.triggers.temporal.DateTimeTrigger", _clock())
            clusters.say(f"{WAITS:,} waits of ours")
            with _moving(broker):
                path = "airflow_kafka_offsets.triggers.wait.KafkaWaitTrigger"
                ours = _take(it, broker, "ours", path, _ours())
    yield from _requests(ours.all_the_time, _requests_of_one_wait(broker), usual)
    yield from _cpu(ours.all_the_time, clock.all_the_time, usual)
    yield from _memory(ours, clock)
    yield from _blocks(ours, clock)


def _ours() -> Arguments:
    groups = [WAITED.groups[number % len(WAITED.groups)] for number in range(WAITS)]
    return [
        {
            "kafka_conn_id": "kafka_default",
            "condition": GroupsCaughtUp((group,)).to_json(),
            "poll_interval_s": INTERVAL_S,
        }
        for group in groups
    ]


def _clock() -> Arguments:
    return [{"moment": datetime.now(UTC) + timedelta(days=1)}] * WAITS


def _take(airflow: AirflowServices, broker: Broker, name: str, class_path: str, arguments: Arguments) -> Taken:
    """Have a new triggerer pick up one wait, and then all."""
    _defer(airflow, f"{name}-first", class_path, arguments[:1])
    before_kib = memory_kib(airflow)
    with observed(airflow, broker) as start:
        _defer(airflow, name, class_path, arguments)
    with observed(airflow, broker) as all_the_time:
        time.sleep(POLLS * INTERVAL_S)
    kib_per_wait = (memory_kib(airflow) - before_kib) / len(arguments)
    _forget(airflow, f"{name}-first", name)
    return Taken(kib_per_wait, start, all_the_time)


def _sample_usual(airflow: AirflowServices, broker: Broker) -> Observed:
    arguments = [
        {
            "bootstrap_servers": broker.proxied_bootstrap_servers,
            "group": group,
            "topic": WAITED.name,
            "poll_interval_s": INTERVAL_S,
        }
        for group in WAITED.groups[:SAMPLE]
    ]
    _defer(airflow, "usual", "tests.benchmarks.usual_wait.UsualWait", arguments)
    with observed(airflow, broker) as found:
        time.sleep(2 * INTERVAL_S)
    _forget(airflow, "usual")
    return found


def _defer(airflow: AirflowServices, dag_id: str, class_path: str, arguments: Arguments) -> None:
    """Insert waits, and wait until they have been picked up and polled once; it is then the middle of an interval."""
    insert_waits(airflow, class_path, arguments, dag_id=dag_id)
    airflow.wait_until(lambda: waits_taken_up(airflow, dag_id) == len(arguments), _DEADLINE_S)
    time.sleep(_SETTLE_S)
    # Our waits are polled at multiples of their interval, by the clock that all processes of a machine share.
    time.sleep((INTERVAL_S / 2 - time.monotonic()) % INTERVAL_S)


def _forget(airflow: AirflowServices, *dag_ids: str) -> None:
    """Delete Dags with their waits, and start a new triggerer."""
    airflow.kill_triggerer()
    for dag_id in dag_ids:
        (airflow.dags_folder / f"{dag_id}.py").unlink()
        httpx.delete(f"{airflow.url}/api/v2/dags/{dag_id}", timeout=_DEADLINE_S).raise_for_status()
    airflow.start_triggerer()


@contextmanager
def _moving(broker: Broker) -> Iterator[None]:
    """Some groups commit continuously, and always lag."""
    over = threading.Event()

    def work() -> None:
        with client(broker.bootstrap_servers) as ours:
            offset = 0
            while not over.wait(INTERVAL_S / 4):  # 4 steps modulo 3 between polls: each sees another offset
                offset = (offset + 1) % (WAITED.records - 1)
                commits = CommittedOffsets(CommittedOffset(*key, offset) for key in WAITED.pieces())
                for group in MOVING:
                    ours.commit_offsets(group, commits).raise_for_errors()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _requests_of_one_wait(broker: Broker) -> Counter[int]:
    """The requests of a check of one condition on all groups, once coordinators are known."""
    union = GroupsCaughtUp(tuple(WAITED.groups))
    with client(broker.proxied_bootstrap_servers) as ours:
        union.check(ours)
        broker.proxy.reset_counts()
        union.check(ours)
        return broker.proxy.requests


def _requests(ours: Observed, union: Counter[int], usual: Observed) -> Iterator[Row]:
    """A poll, compared with one wait on all groups and with a thousand pokes. Groups that moved need a Fetch."""
    a_poll, a_poke = ours.requests.total() / POLLS, usual.requests.total() / _pokes(usual)
    sent = f"{_each(ours.requests, POLLS)}; one wait on all groups: {requests.words(union)}"
    yield Row.absolute(f"requests a poll, {_WORK}", a_poll, "requests", limit=union.total() + 1, requests=sent)
    theirs = f"{_each(usual.requests, _pokes(usual))}: {WAITS * a_poke / a_poll:,.0f} times as many"
    yield Row.noted("… a KafkaConsumer for each wait and poke", theirs)


def _cpu(ours: Observed, clock: Observed, usual: Observed) -> Iterator[Row]:
    """CPU of the runner. What the clock's waits take is Airflow's own share."""
    airflows = f"Airflow's own {clock.cpu_percent:.1f} %"
    yield Row.absolute("… CPU of the runner", ours.cpu_percent, "%", limit=_CPU_PERCENT, requests=airflows)
    ours_s, theirs_s = ours.cpu_s / POLLS, WAITS * usual.cpu_s / _pokes(usual)
    remark = f"theirs: {theirs_s / ours_s:.0f} times as much, judging by {_pokes(usual)} pokes of {SAMPLE} waits"
    yield Row.ratio("… CPU a poll", ours_s, "KafkaConsumer a poke", theirs_s, limit=_CPU_RATIO, requests=remark)


def _memory(ours: Taken, clock: Taken) -> Iterator[Row]:
    beyond = ours.kib_per_wait - clock.kib_per_wait
    remark = f"{ours.kib_per_wait:.0f} KiB in all, DateTimeTrigger {clock.kib_per_wait:.0f} KiB"
    yield Row.absolute(
        "… memory for each wait, beyond a DateTimeTrigger's", beyond, "KiB", limit=_KIB_PER_WAIT, requests=remark
    )


def _blocks(ours: Taken, clock: Taken) -> Iterator[Row]:
    """Blocks of the event loop, from 0.2 s on, while waits are polled and while they are picked up."""
    for when, mine, airflows, limit_s in (
        ("", ours.all_the_time, clock.all_the_time, 0.0),
        (", while waits are taken up", ours.start, clock.start, _NOISE_S),
    ):
        remark = f"ours {_said_of_blocks(mine)}; DateTimeTrigger {_said_of_blocks(airflows)}"
        longer_s = max(0.0, mine.longest_block_s - max(airflows.longest_block_s, _SEEN_FROM_S))
        yield Row.absolute(
            f"… event loop blocked, beyond a DateTimeTrigger's{when}", longer_s, "s", limit=limit_s, requests=remark
        )


def _said_of_blocks(found: Observed) -> str:
    longest = f", longest {found.longest_block_s:.2f} s" if found.blocks_s else ""
    return f"{len(found.blocks_s)}{longest}, without a core {found.starved_s:.1f} of {found.taken_s:.0f} s"


def _each(counts: Counter[int], times: float) -> str:
    return requests.words(+Counter({key: round(number / times) for key, number in counts.items()}))


def _pokes(usual: Observed) -> int:
    """How many consumers they created, each of which looks up its coordinator."""
    return usual.requests[_FIND_COORDINATOR]
