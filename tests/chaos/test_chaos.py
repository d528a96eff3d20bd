"""Chaos: windows are resolved and loaded by processes that die, on stores that fail, from topics that change meanwhile.

At the end, every record that was in Kafka's log is in exactly one published window, and every other offset is reported
as lost, though windows were loaded again, taken away, attempted by drivers that came late, and everything after some
instant was taken away now and then. Windows that cross others were refused. What was left out until the end was told as
a hole, and nothing else was. Increments that were requested at the same time tile. A second ledger of the same name
changed nothing that the first one had published, nor the other way round. Nothing was published from a topic that was
re-created after its window was pinned; once the ledger was told, an increment has all of the new one. Each commit
of each ledger's log was allowed after those before it, however long its writer paused, and the rows that are there are
those of the publication.

There are two runs: windows on two stores, loaded by librdkafka into files and into a table; and windows loaded by Spark
on a cluster, whose drivers and executors are killed too.

``CHAOS_WINDOWS=1000`` sets the number of windows in each. A failure names its seed, and ``CHAOS_SEED=17`` draws the
same plan again.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from dev.cluster import KafkaCluster
from dev.spark_cluster import SparkCluster
from tests.chaos.death import KINDS
from tests.chaos.draw import draw
from tests.chaos.judge import judge
from tests.chaos.plan import INCREMENTS, LOCAL, S3, SPARK, TWINS, Moment
from tests.chaos.run import Report, run
from tests.chaos.s3 import FAULTS
from tests.chaos.topics import TRANSACTION_MS
from tests.integration.client.cases.workload import coordinator_id
from tests.patience import wait_until

WINDOWS = {by: int(os.environ.get("CHAOS_WINDOWS", some)) for by, some in (("librdkafka", "6"), ("spark", "6"))}
SEED = int(os.environ.get("CHAOS_SEED", "1"))


_FILES = ("commit", "manifest", "snapshot")
_DEATHS = [f"died {fate} {file}" for fate in KINDS for file in _FILES]
_DEATHS += [f"died {fate} {file}" for fate in ("before", "right after") for file in ("list", "checkpoint")]
_EVENTS = ["AddPartition", "Delete", "MoveLeader"]
_TAKEN_AWAY = ("void", "rewound")
_LOADS = (
    "pin pinned",
    "published",
    "published, the rest",
    "published, loaded before",
    "published, again",
    "stands",
    "second",
)
_LATE = ("begun", "published, by a late driver", "driver refused", "driver overtaken")
"""Seen on any store."""
_CUTS = ("cut refused", "cut pinned")
_CLEARED = ("again: WindowOverlapError of a cut", "again: LedgerConflictError")
_REMADE = ("remade refused by TopicChangedError", "published, after a restart")


def _wanted(stores: Sequence[str]) -> list[str]:
    """What must have happened to each store's windows."""
    done = (*_LOADS, *_CUTS, *_TAKEN_AWAY)
    return [
        *(f"{store} done: {words}" for store in stores for words in done),
        *(f"{store} {words}" for store in stores for words in (*_CLEARED, "holes told")),
        *(f"remade-{each} done: {words}" for each in range(len(Moment)) for words in _REMADE),
    ]


WANTED = {
    "librdkafka": [
        *_DEATHS,
        *_EVENTS,
        *(f"died {fate} result" for fate in KINDS),
        *FAULTS,
        *_wanted((LOCAL, S3)),
        *(f"{store} done: published" for store in INCREMENTS.values()),
    ],
    "spark": [
        *_DEATHS,
        *_EVENTS,
        *(f"died {fate} Spark's {file}" for fate in KINDS for file in ("rows", "note", "result")),
        "executor killed",
        *_wanted(SPARK),
        *(f"{store} done: published" for store in TWINS.values()),
    ],
}
"""What must have happened in a long run, or it proves nothing."""


_ON_A_CLUSTER = pytest.mark.nightly("drivers and executors on a cluster; the other run has windows on two stores")


@pytest.fixture(scope="module", params=["librdkafka", pytest.param("spark", marks=_ON_A_CLUSTER)])
def loaded_by(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def cluster(loaded_by: str) -> Iterator[KafkaCluster]:
    properties = {"replica.fetch.wait.max.ms": "100", "transaction.max.timeout.ms": str(TRANSACTION_MS)}
    with KafkaCluster(name=f"chaos-{loaded_by}", properties=properties, heap_mb=256) as running:
        wait_until(lambda: coordinator_id(running, "any"), "groups have coordinators")
        yield running


@pytest.fixture(scope="module")
def report(loaded_by: str, cluster: KafkaCluster, tmp_path_factory: pytest.TempPathFactory) -> Report:
    folder, windows = tmp_path_factory.mktemp("chaos"), WINDOWS[loaded_by]
    try:
        if loaded_by == "librdkafka":
            return run(draw(SEED, windows), cluster.bootstrap_servers, folder)
        with SparkCluster("chaos") as spark:
            return run(draw(SEED, windows, SPARK), cluster.bootstrap_servers, folder, spark)
    except Exception as error:
        error.add_note(f"CHAOS_SEED={SEED} CHAOS_WINDOWS={windows}")
        raise


class TestChaos:
    @pytest.mark.timeout(14_400)
    def test_every_record_is_in_exactly_one_window_and_every_loss_is_reported(
        self, loaded_by: str, report: Report
    ) -> None:
        print(*(f"{name}: {count}" for name, count in sorted(report.tally.items())), sep="\n")
        failures = report.failures()
        assert not failures, "\n\n".join([f"CHAOS_SEED={SEED} CHAOS_WINDOWS={WINDOWS[loaded_by]}", *failures])
        deaths = sum(count for name, count in report.tally.items() if name.startswith(("died", "executor killed")))
        assert deaths, "nobody was killed, which is too little trouble"
        if WINDOWS[loaded_by] >= 1000:
            seen = report.tally + Counter(words for name in report.tally if (words := name.partition(" done: ")[2]))
            assert [each for each in (*WANTED[loaded_by], *_LATE) if not seen[each]] == []

    def test_most_records_are_published(self, report: Report) -> None:
        """Empty windows would tile too. If there are few windows, many records are sent before the first one."""
        for outcome in report.outcomes:
            published = sum(len(each.published) for each in outcome.pieces)
            visible = sum(len(each.visible) for each in outcome.seen.values())
            print(f"{outcome.pipeline.store}: {published} of {visible} records are published")
            # If loads are slow (Spark, S3, a busy machine), more records are deleted before they are read.
            least = 6 if len(outcome.pipeline.windows) <= 10 else 5
            assert published > visible / least

    def test_a_window_more_or_less_would_have_been_noticed(self, report: Report) -> None:
        for outcome in report.outcomes:
            pieces = list(outcome.pieces)
            some = next(each for each in pieces if each.published and each.start_ms > pieces[0].start_ms)
            rest = [each for each in pieces if each is not some]
            halved = replace(some, published=some.published[1:])
            for wrong in (
                [*pieces, some],
                rest,
                [*rest, halved],
                [*rest, replace(some, start_offset=some.start_offset + 1)],
            ):
                (problem, *_) = judge(wrong, outcome.seen)
                assert (problem.topic, problem.partition) == (some.topic, some.partition)

    def test_a_loss_that_is_not_reported_would_have_been_noticed(self, report: Report) -> None:
        """Except before the first window of all, where no window is responsible."""
        pieces = [
            (outcome, each)
            for outcome in report.outcomes
            for each in outcome.pieces
            if each.lost_offsets and each.start_ms > min(other.start_ms for other in outcome.pieces)
        ]
        for outcome, some in pieces:
            silent = [replace(each, lost_offsets=0) if each is some else each for each in outcome.pieces]
            assert judge(silent, outcome.seen) != []
        assert pieces, "nothing was lost, which is too little trouble"
