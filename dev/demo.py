"""The demo: real flights through a real broker, Airflow and Spark, with proof. Run it with ``make demo``.

It starts a broker, produces a year of flights, has a sensor wait while a consumer group catches up, loads three days
with the example Dag, has one of them loaded again, and prints a table. ``make demo UI=1`` (:mod:`dev.demo_ui`) then
leaves Airflow and the broker running, with a fourth day waiting.
"""

from __future__ import annotations

import logging
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, time as time_of_day, timedelta
from typing import Any

from kafka import KafkaConsumer
from rich.box import SIMPLE
from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table

from airflow_kafka_offsets.cli import main as commands
from dev import LOCAL, ROOT, demo_ui, flights
from dev.airflow_home import environment, output_to, start_migration
from dev.class_archives import QUICK_START
from dev.kafka import Broker

HOME = LOCAL / "demo"
LOG = HOME / "airflow.log"
DAYS = (date(2013, 3, 9), date(2013, 3, 10), date(2013, 3, 11))
"""Three days around the night in which New York's clocks went forward."""
WAITING, NOON = date(2013, 3, 12), time_of_day(12)
"""Where the topic ends if a fourth day is to wait."""
PIPELINE = "flights_daily"
"""The example's Dag, and its pipeline."""
PROVED = "read = written = log"
READER = "flights-reader"
READER_S = 8.0
"""How long the trailing consumer group takes to catch up, seconds."""


@dataclass(frozen=True, slots=True)
class Day:
    """One loaded day.

    :param date: the day, in UTC.
    :param resolved: what the resolve task returned.
    :param verified: what the verify task returned.
    :param seconds: wall-clock time of the whole Dag run.
    :param again: whether it had been loaded before, and was to be loaded again.
    """

    date: date
    resolved: dict[str, Any]
    verified: dict[str, Any]
    seconds: float
    again: bool = False


def main(*, ui: bool) -> None:
    """Run the whole demo.

    :param ui: leave Airflow and the broker running.
    """
    console = Console(file=os.fdopen(os.dup(1), "w"), width=None if sys.stdout.isatty() else 110)
    # A new broker is a new cluster, so an old ledger's offsets would mean nothing.
    shutil.rmtree(HOME, ignore_errors=True)
    broker = Broker()
    variables = environment(HOME, broker.bootstrap_servers) | {"JDK_JAVA_OPTIONS": QUICK_START}
    migration = start_migration(variables)
    with broker:
        _stop_on_signals(console, broker)
        console.print(f"Kafka 4.3 listens on {broker.bootstrap_servers}")
        os.environ.update(variables)
        count = flights.load(broker.bootstrap_servers, until=datetime.combine(WAITING, NOON, UTC) if ui else None)
        console.print(f"Topic flights holds {count:,} records, stamped with their scheduled departure")
        if migration.wait() != 0:
            sys.exit(f"airflow db migrate failed; see {variables['AIRFLOW_HOME']}/migrate.log")
        _wait_for_group(console, broker.bootstrap_servers)
        days = [_load(console, each) for each in DAYS]
        _have_it_loaded_again(console, days[1])
        days.append(_load(console, DAYS[1], again=True))
        _report(console, days)
        if ui:
            demo_ui.serve(console, HOME, variables, WAITING)


def _stop_on_signals(console: Console, broker: Broker) -> None:
    """End at once on Ctrl-C. If it were raised as an exception, Airflow would take it for a failed task and go on."""

    def stop(*_: object) -> None:
        subprocess.run(["pkill", "-TERM", "-P", str(os.getpid())], check=False)
        broker.close()
        console.print("\nStopped, and the broker is gone. You can run make demo again.")
        console.file.flush()
        os._exit(130)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)


def _wait_for_group(console: Console, bootstrap_servers: str) -> None:
    """Run the sensor of ``dags/group_caught_up.py``, which waits while a consumer group catches up."""
    doing = "A consumer group reads the topic; a sensor waits until its lag is 0"
    with _reader(bootstrap_servers), _spinner(console, doing):
        seconds, _ = _run_dag("group_caught_up", datetime.now(UTC))
    console.print(
        f"Group {READER} has caught up; the Dag that waited for it took {seconds:.0f} s, including Airflow's start"
    )


def _spinner(console: Console, doing: str) -> Live:
    """Show that something is going on. Tasks' output isn't captured here: it goes to the log file, not the terminal."""
    spinner = Spinner("dots", doing)
    return Live(spinner, console=console, transient=True, redirect_stdout=False, redirect_stderr=False)


@contextmanager
def _reader(bootstrap_servers: str) -> Iterator[None]:
    """Read the whole topic in the background, with commits, over about ``READER_S`` seconds."""
    consumer = KafkaConsumer(
        "flights",
        bootstrap_servers=bootstrap_servers,
        group_id=READER,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        max_poll_records=20_000,
    )
    while not consumer.assignment():
        consumer.poll(timeout_ms=1_000)
    consumer.commit()
    thread = threading.Thread(target=_read_on, args=(consumer,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join()
        logging.getLogger("kafka").setLevel(logging.WARNING)  # Airflow, which is imported here, prints INFO messages
        consumer.close()


def _read_on(consumer: Any) -> None:
    ends = consumer.end_offsets(consumer.assignment())
    started, total, read = time.monotonic(), sum(ends.values()), 0
    while read < total:
        consumer.poll(timeout_ms=1_000)
        consumer.commit()
        read = sum(consumer.position(partition) for partition in ends)
        time.sleep(max(0.0, started + READER_S * read / total - time.monotonic()))


def _load(console: Console, day: date, *, again: bool = False) -> Day:
    """Run the example Dag for one day. The run's date is when the day is over, as the scheduler would have it."""
    # A minute later, because midnight itself is the logical date of the next day's own run.
    over = datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(days=1, minutes=1)
    with _spinner(console, f"{PIPELINE} for {day}{' again' if again else ''}: complete, resolve, load, verify, commit"):
        seconds, results = _run_dag(PIPELINE, over)
    console.print(f"{day}{' again' if again else ''}: {results['load']['rows']:,} rows, {results['verify']['verdict']}")
    return Day(day, results["resolve"], results["verify"], seconds, again)


def _have_it_loaded_again(console: Console, day: Day) -> None:
    """Otherwise a second run would find the day published, and start nothing."""
    window = day.resolved["window"]
    command = ["ledger", "reload", PIPELINE, window]
    with output_to(LOG):
        commands.main(command)
    console.print(f"kafka-offsets {' '.join(command)}", highlight=False, soft_wrap=True)


def _run_dag(dag_id: str, moment: datetime) -> tuple[float, dict[str, Any]]:
    """Run a Dag in this process, with tasks' logs in a file. Returns the seconds that it took, and each task's XCom."""
    started = time.monotonic()
    with output_to(LOG):
        from airflow.dag_processing.dagbag import DagBag

        dag = DagBag(str(ROOT / "dags" / f"{dag_id}.py"), bundle_name="dags-folder").dags[dag_id]
        for task in dag.tasks:
            task.retries = 0  # if the demo fails, it says so at once, not five minutes later
        run = dag.test(logical_date=moment)
        states = {ti.task_id: str(ti.state) for ti in run.get_task_instances()}
        results = {ti.task_id: ti.xcom_pull(task_ids=ti.task_id) for ti in run.get_task_instances()}
    failed = sorted(task for task, state in states.items() if state != "success")
    if failed:
        sys.exit(f"Dag {dag_id}: {', '.join(failed)} didn't succeed. The tasks' logs are in {LOG}.")
    return time.monotonic() - started, results


def table_of(days: list[Day]) -> Table:
    """A table with a row for each load."""
    table = Table(
        "window (UTC day)",
        title="Three days from Kafka in Parquet, one of them loaded twice",
        title_justify="left",
        box=SIMPLE,
    )
    for name in ("in range", "read", "written"):
        table.add_column(name, justify="right")
    table.add_column("checksums")
    table.add_column("tiling")
    table.add_column("seconds", justify="right")
    for each in days:
        table.add_row(
            f"{each.date}{' again' if each.again else ''}",
            *(f"{each.verified[name]:,}" for name in ("offsets", "read", "written")),
            "equal" if each.verified["verdict"] == PROVED else each.verified["verdict"],
            each.verified["tiling"],
            f"{each.seconds:.1f}",
        )
    return table


def _report(console: Console, days: list[Day]) -> None:
    console.print(table_of(days))
    _compare_with_source(console, days)
    first, again = days[1], days[-1]
    same = (
        first.resolved["sha256"] == again.resolved["sha256"] and first.verified["written"] == again.verified["written"]
    )
    console.print(
        f"{again.date} again: {'the same' if same else 'A DIFFERENT'} manifest {again.resolved['sha256'][:12]}, "
        f"{'the same rows' if same else 'DIFFERENT ROWS'}, published by attempt {again.verified['attempt']} after "
        f"attempt {first.verified['attempt']}",
        soft_wrap=True,
    )
    if not same or again.verified["attempt"] <= first.verified["attempt"]:
        sys.exit("The second load of a day differs from the first, or wasn't one.")
    _where_next(console)


def _compare_with_source(console: Console, days: list[Day]) -> None:
    """Count each day's rows in the CSV, without using this package."""
    source = flights.count_by_utc_day([each.date for each in days])
    wrong = [f"{each.date}: {source[each.date]}" for each in days if source[each.date] != each.verified["written"]]
    if wrong:
        sys.exit(f"The CSV has different counts: {', '.join(wrong)}.")
    console.print("The CSV of the flights has the same number of rows for each day, counted without this package")


def _where_next(console: Console) -> None:
    places = {
        "rows": str((HOME / "output" / "flights").relative_to(ROOT)),
        "ledger": str((HOME / "ledger").relative_to(ROOT)),
        "the Dag": "dags/flights_daily.py",
        "the tasks' logs": str(LOG.relative_to(ROOT)),
        "guides": "docs/",
    }
    ledger = os.environ["AIRFLOW__KAFKA_OFFSETS__LEDGER_ROOT"]
    places["look into it"] = f".venv/bin/kafka-offsets ledger verify {PIPELINE} --ledger {ledger}"
    for name, place in places.items():
        console.print(f"{name:>16}  {place}", highlight=False, soft_wrap=True)


if __name__ == "__main__":
    main(ui="--ui" in sys.argv[1:])
