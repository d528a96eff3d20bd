"""Run all benchmarks, or those that are named, and print one table.

A missed target is noted in the table, and isn't a failure. A failure is, for example, when two clients answer
differently.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator, Mapping

from rich.console import Console

from tests.benchmarks.airflow_overhead import airflow_overhead
from tests.benchmarks.backfill import backfill
from tests.benchmarks.clusters import Clusters, Sizes
from tests.benchmarks.lag import far_poll, many_partitions, poll
from tests.benchmarks.ledger import ledger
from tests.benchmarks.many_windows import many_windows
from tests.benchmarks.report import Row, as_json, as_table, machine
from tests.benchmarks.small_window import small_window
from tests.benchmarks.snapshot import snapshots
from tests.benchmarks.spark_audit import spark_audit
from tests.benchmarks.spark_load import spark_load
from tests.benchmarks.spark_memory import spark_memory
from tests.benchmarks.spark_read import spark_hot_partition, spark_read
from tests.benchmarks.spark_scale import spark_scale
from tests.benchmarks.typed_values import typed_values
from tests.benchmarks.waits import waits

WORKS: Mapping[str, Callable[[Clusters], Iterator[Row]]] = {
    "poll": poll,
    "far-poll": far_poll,
    "many-partitions": many_partitions,
    "snapshots": snapshots,
    "backfill": backfill,
    "ledger": ledger,
    "waits": waits,
    "spark-read": spark_read,
    "spark-hot-partition": spark_hot_partition,
    "spark-load": spark_load,
    "typed-values": typed_values,
    "audit": spark_audit,
    "small-window": small_window,
    "many-windows": many_windows,
    "spark-memory": spark_memory,
    "airflow-overhead": airflow_overhead,
    "spark-scale": spark_scale,
}
"""Each benchmark by name, in the order in which they run."""


def main() -> None:
    arguments = _arguments()
    progress = Console(stderr=True)
    started = time.monotonic()

    def say(line: str) -> None:
        progress.print(f"{time.monotonic() - started:4.0f} s  {line}", highlight=False)

    rows: list[Row] = []
    with Clusters(say, Sizes(arguments.records, arguments.rounds)) as clusters:
        for name in arguments.works or WORKS:
            say(f"measuring {name}")
            rows += WORKS[name](clusters)
    if arguments.output == "json":
        print(json.dumps(as_json(rows), indent=2))
        return
    console = Console()
    console = console if console.is_terminal else Console(width=160)
    console.print(machine(), highlight=False)
    console.print(as_table(rows))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks", description="Measure this package and its peers."
    )
    parser.add_argument("works", nargs="*", metavar="work", help=f"one of {', '.join(WORKS)}; all when none is named")
    usual = Sizes()
    parser.add_argument("--records", type=int, default=usual.records, help="that Spark reads and loads (%(default)s)")
    parser.add_argument("--rounds", type=int, default=usual.rounds, help="that are counted of Spark (%(default)s)")
    parser.add_argument("-o", "--output", choices=["table", "json"], default="table")
    arguments = parser.parse_args()
    if unknown := [each for each in arguments.works if each not in WORKS]:
        parser.error(f"no benchmark is called {', '.join(unknown)}: there are {', '.join(WORKS)}")
    return arguments


if __name__ == "__main__":
    main()
