"""``airflow backfill create`` over a month, eight runs at once, beside the live schedule: LocalExecutor, PostgreSQL.

The Dag is in :mod:`tests.integration.airflow.backfill.daily`, the topic in
:mod:`tests.integration.airflow.backfill.writing`. The schedule ticks once a day, and today's tick is due during the
backfill: the live schedule takes the newest window at once and today's when it is due; the backfill takes the month
before, whose last window the live schedule has taken already.

And the backfill that verify asks for, where a schedule without catch-up has skipped runs: a Dag of
:mod:`tests.integration.airflow.backfill.loading`.
"""

from __future__ import annotations

import json
import re
import shlex
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from kafka import KafkaAdminClient

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.hooks.ledger import existing_ledger
from airflow_kafka_offsets.ledger.verification import verify
from airflow_kafka_offsets.offsets.windows.ledger_names import window_extent
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from dev.airflow_services import AirflowServices
from dev.kafka import Broker
from tests.integration.airflow.backfill.daily import DAG_ID, Row, manifest_of, read_exactly
from tests.integration.airflow.backfill.services import airflow_on_postgres
from tests.integration.airflow.backfill.writing import (
    EMPTY,
    IDLE,
    IN_ORDER,
    PARTITIONS,
    WITH_LATE_ONES,
    write_past,
    writing_on,
)
from tests.integration.airflow.conftest import COUNT, InSparksPlace, Publish, Resolve
from tests.integration.conftest import Produce
from tests.patience import RUN_S

DAYS = 31
TOPIC = "flights-of-a-month"
DAG_FILE = """
from tests.integration.airflow.backfill.daily import daily_dag

dag = daily_dag("{0.minute} {0.hour} * * * {0.second}", {1!r}, {2!r}, {3!r}, {4}, {5})
"""

SKIPPING = "skipping"
"""The Dag, its topic, its pipeline, and its group."""
SKIPPING_FILE = """
from tests.integration.airflow.backfill.loading import loading_dag

dag = loading_dag("skipping", "{} * * * *", "UTC", {!r}, {!r})
"""

# A hundred tasks, each a process: two minutes on two free cores.
pytestmark = [
    pytest.mark.nightly("minutes of an Airflow; ledger/test_contention.py has tasks side by side"),
    pytest.mark.timeout(900),
]


@dataclass(frozen=True, slots=True)
class Month:
    """What is left when the backfill and the live schedule are done.

    :param tick: today's tick; the last window ends there.
    :param output: folder of the published windows.
    :param log: every record of the topic, by partition and offset.
    """

    airflow: AirflowServices
    tick: datetime
    output: Path
    log: list[Row]

    def returned(self, task: str) -> dict[str, Any]:
        """What a task returned, by run."""
        statement = "SELECT run_id, value FROM xcom WHERE dag_id = ? AND task_id = ? AND key = 'return_value'"
        return dict(self.airflow.query(statement, DAG_ID, task))

    def manifests(self) -> list[Manifest]:
        """What was resolved, in order of time."""
        return sorted(map(manifest_of, self.returned("resolve").values()), key=lambda each: each.start_ms)

    def published(self) -> dict[str, list[Row]]:
        """Rows by window."""
        return {each.stem: [tuple(row) for row in json.loads(each.read_text())] for each in self.output.iterdir()}

    def files(self) -> dict[Path, int]:
        """Published files and when each was written, in ns."""
        return {each: each.stat().st_mtime_ns for each in self.output.iterdir()}

    def first_at(self, partition: int, instant_ms: int) -> int:
        """Offset of a partition's first record at or after an instant."""
        return min(offset for each, offset, stamp in self.log if each == partition and stamp >= instant_ms)

    def spans(self, run_type: str) -> list[tuple[datetime, datetime]]:
        """From a run's first task's start to its last one's end, for the runs of a type, oldest first."""
        return self.airflow.query(
            "SELECT min(task.start_date), max(task.end_date) FROM dag_run AS run"
            " JOIN task_instance AS task ON task.dag_id = run.dag_id AND task.run_id = run.run_id"
            " WHERE run.dag_id = ? AND run.run_type = ? GROUP BY run.run_id ORDER BY 1",
            DAG_ID,
            run_type,
        )


@pytest.fixture(scope="module")
def topic(broker: Broker, admin: KafkaAdminClient, produce: Produce) -> str:
    options = {"num_partitions": PARTITIONS, "replication_factor": 1, "configs": {"retention.ms": "-1"}}
    admin.create_topics({TOPIC: options}, wait_for_metadata=True)
    write_past(produce, TOPIC, days=DAYS + 3)
    return TOPIC


@pytest.fixture(scope="module")
def month(broker: Broker, topic: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Month]:
    """A month, backfilled while the live schedule runs and producers write."""
    home = tmp_path_factory.mktemp("backfill")
    (home / "output").mkdir()
    began = time.monotonic()
    with airflow_on_postgres(home, broker) as airflow:
        # As far ahead as the services took to start: the backfill is under way then, or its first run waits.
        tick = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=round(time.monotonic() - began))
        with writing_on(broker.bootstrap_servers, topic, days=DAYS):
            backfill(airflow, tick, dag_file(tick, broker.bootstrap_servers, topic, home / "output"))
        yield Month(airflow, tick, home / "output", whole_log(broker.bootstrap_servers, topic))


def dag_file(tick: datetime, bootstrap_servers: str, topic: str, output: Path) -> str:
    first_ms, last_ms = (int(each.timestamp() * 1000) for each in (tick - timedelta(days=DAYS + 1), tick))
    return DAG_FILE.format(tick, bootstrap_servers, topic, str(output), first_ms, last_ms)


def backfill(airflow: AirflowServices, tick: datetime, text: str) -> None:
    (airflow.dags_folder / "daily.py").write_text(text)
    airflow.unpause(DAG_ID)
    first, last = tick - timedelta(days=DAYS + 1), tick - timedelta(days=2)
    dates = ["--from-date", first.isoformat(), "--to-date", last.isoformat()]
    airflow.run_command("backfill", "create", "--dag-id", DAG_ID, *dates, "--max-active-runs", "8")
    airflow.wait_until(lambda: len(airflow.runs(DAG_ID)) > DAYS and ended(airflow), RUN_S)


def ended(airflow: AirflowServices, dag_id: str = DAG_ID) -> bool:
    return set(airflow.runs(dag_id).values()) <= {"success", "failed"}


def whole_log(bootstrap_servers: str, topic: str) -> list[Row]:
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "unused"})
    with closing(consumer):
        extents = [consumer.get_watermark_offsets(TopicPartition(topic, n)) for n in range(PARTITIONS)]
    return sorted(read_exactly(bootstrap_servers, topic, [(n, *extent) for n, extent in enumerate(extents)]))


class TestAMonthsBackfill:
    def test_every_run_of_backfill_and_schedule_succeeds(self, month: Month) -> None:
        assert Counter(month.airflow.runs(DAG_ID).values()) == {"success": DAYS + 1}
        backfilled, scheduled = month.spans("backfill"), month.spans("scheduled")
        assert (len(backfilled), len(scheduled)) == (DAYS - 1, 2)

    def test_a_backfill_reaches_further_back_than_the_dags_start_date(self, month: Month) -> None:
        """From which the schedule starts."""
        loaded, start_ms = month.returned("load"), int((month.tick - timedelta(days=2)).timestamp() * 1000)
        assert sum(window_extent(each["window"])[0] < start_ms for each in loaded.values()) == DAYS - 1

    def test_backfilled_runs_overlap_with_each_other_and_with_the_live_schedule(self, month: Month) -> None:
        backfilled, (_, live) = month.spans("backfill"), month.spans("scheduled")
        at_once = [sum(start <= moment < end for start, end in backfilled) for moment, _ in backfilled]
        assert max(at_once) >= 4
        assert any(start < live[1] and live[0] < end for start, end in backfilled)

    def test_every_window_is_resolved_once(self, month: Month) -> None:
        ticks = [month.tick - timedelta(days=n) for n in range(DAYS + 1, -1, -1)]
        edges = [int(each.timestamp() * 1000) for each in ticks]
        assert [(each.start_ms, each.end_ms) for each in month.manifests()] == list(pairwise(edges))

    def test_every_window_is_published_once(self, month: Month) -> None:
        loaded = month.returned("load").values()
        assert all(each["published"] for each in loaded)
        assert sorted(each["window"] for each in loaded) == sorted(month.published())
        assert {run: len(month.published()[each["window"]]) for run, each in month.returned("load").items()} == (
            month.returned("prove")
        )

    def test_ranges_meet_end_to_start_on_every_partition(self, month: Month) -> None:
        for window, following in pairwise(month.manifests()):
            assert ends(window) == starts(following)

    def test_the_first_and_the_last_boundary_are_where_the_records_say(self, month: Month) -> None:
        """Partitions that only late records reach end wherever their logs did at the time."""
        windows = month.manifests()
        first = {n: month.first_at(n, windows[0].start_ms) for n in range(PARTITIONS)}
        last = {n: month.first_at(n, windows[-1].end_ms) for n in (IN_ORDER, WITH_LATE_ONES)}
        assert starts(windows[0]) == first
        assert ends(windows[-1]) | last == ends(windows[-1])

    def test_every_record_is_in_exactly_one_output(self, month: Month) -> None:
        windows = month.manifests()
        first, last = starts(windows[0]), ends(windows[-1])
        wanted = [row for row in month.log if first[row[0]] <= row[1] < last[row[0]]]
        assert sorted(row for rows in month.published().values() for row in rows) == wanted

    def test_records_that_came_in_order_are_in_the_window_of_their_time(self, month: Month) -> None:
        published = month.published()
        for window in month.manifests():
            stamps = [stamp for partition, _, stamp in published[window.window] if partition == IN_ORDER]
            assert len(stamps) >= 24
            assert window.start_ms <= min(stamps) <= max(stamps) < window.end_ms

    def test_records_came_late_and_to_idle_partitions_while_it_ran(self, month: Month) -> None:
        """Without them the tests above would hold for less than they say."""
        windows = month.manifests()
        late = {
            partition
            for window in windows
            for partition, _, stamp in month.published()[window.window]
            if stamp < window.start_ms
        }
        assert late == {WITH_LATE_ONES, IDLE, EMPTY}

    def test_a_run_done_again_returns_the_same_window_and_publishes_nothing(self, month: Month) -> None:
        run_id = sorted(month.returned("resolve"))[DAYS // 2]
        window, before = month.returned("resolve")[run_id], month.files()
        month.airflow.clear(DAG_ID, run_id)
        month.airflow.wait_until(lambda: ended(month.airflow), RUN_S)
        assert month.airflow.runs(DAG_ID)[run_id] == "success"
        assert month.returned("resolve")[run_id] == window
        assert month.returned("load")[run_id] == {"window": window["window"], "published": False}
        assert month.files() == before


def starts(window: Manifest) -> dict[int, int]:
    return {each.partition: each.start_offset for each in window.ranges}


def ends(window: Manifest) -> dict[int, int]:
    return {each.partition: each.end_offset for each in window.ranges}


class TestSkippedRuns:
    def test_the_command_that_verify_prints_fills_the_hole(
        self,
        month: Month,
        admin: KafkaAdminClient,
        produce: Produce,
        resolve: Resolve,
        publish: Publish,
        in_sparks_place: InSparksPlace,
        client: OffsetsClient,
        ledger_root: Path,
        tmp_path: Path,
    ) -> None:
        """The hour before the outage is loaded; the scheduler goes on with the newest one, whose verify fails. What
        that prints is run as it is, which loads the hours between, and the failed tasks come through then."""
        airflow, tick = month.airflow, datetime.now(UTC).replace(second=0, microsecond=0) - timedelta(minutes=30)
        hours = [tick - timedelta(hours=ago) for ago in range(4, -1, -1)]
        options = {"num_partitions": 1, "replication_factor": 1, "configs": {"retention.ms": "-1"}}
        admin.create_topics({SKIPPING: options}, wait_for_metadata=True)
        produce(SKIPPING, 0, [(int(each.timestamp() * 1000), None, b"x") for each in hours])
        publish(resolve(SKIPPING, hours[0].isoformat(), hours[1].isoformat(), pipeline=SKIPPING))
        in_sparks_place(COUNT)
        names = (tick.minute, ledger_root.as_uri(), str(tmp_path / "bin"))
        (airflow.dags_folder / "skipping.py").write_text(SKIPPING_FILE.format(*names))
        airflow.unpause(SKIPPING)

        airflow.wait_until(lambda: airflow.runs(SKIPPING) and ended(airflow, SKIPPING), RUN_S)
        (newest,) = airflow.runs(SKIPPING)
        assert airflow.task_states(SKIPPING, newest) == {
            "window_load.resolve": "success",
            "window_load.load": "success",
            "window_load.verify": "failed",
            "commit": "upstream_failed",
        }
        told = airflow.home / f"airflow/logs/dag_id={SKIPPING}/run_id={newest}/task_id=window_load.verify/attempt=1.log"
        (command,) = set(re.findall(r"load what is missing: airflow (.+?), or a run of", told.read_text()))
        airflow.run_command(*shlex.split(command))
        airflow.wait_until(lambda: len(airflow.runs(SKIPPING)) == 3 and ended(airflow, SKIPPING), RUN_S)
        assert {state for run, state in airflow.runs(SKIPPING).items() if run != newest} == {"success"}
        if airflow.runs(SKIPPING)[newest] == "failed":  # the command's dates take it in, so it may have run it again
            airflow.clear(SKIPPING, newest, only_failed=True)
        airflow.wait_until(lambda: ended(airflow, SKIPPING), RUN_S)

        assert set(airflow.runs(SKIPPING).values()) == {"success"}
        ledger = existing_ledger(ledger_root.as_uri(), SKIPPING)
        assert [each.found for each in verify(ledger) if not each.holds] == []
        assert len(list(ledger.state.published)) == 4
        (committed,) = client.committed_offsets({SKIPPING: None}).raise_for_errors()
        assert [(each.topic, each.offset) for each in committed.offsets] == [(SKIPPING, 4)]
