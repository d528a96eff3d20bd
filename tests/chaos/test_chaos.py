"""Chaos: windows resolved and loaded by processes that die, on stores that fail, of topics that change meanwhile.

At the end every record that was in the log is in exactly one published window, and every offset that is in none is
reported as lost. ``CHAOS_WINDOWS=1000`` asks for so many windows in all; a failure names its seed, and
``CHAOS_SEED=17`` draws the same plan again.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace

import pytest

from dev.cluster import KafkaCluster
from tests.chaos import plan as plans
from tests.chaos.death import KINDS
from tests.chaos.judge import judge
from tests.chaos.plan import LOCAL, S3
from tests.chaos.run import Report, run
from tests.chaos.s3 import FAULTS
from tests.integration.client.cases.workload import coordinator_id, wait_until

WINDOWS = int(os.environ.get("CHAOS_WINDOWS", "60"))
SEED = int(os.environ.get("CHAOS_SEED", "1"))


WANTED = [
    *(f"died {fate} {file}" for fate in KINDS for file in ("attempts", "committed.json", "manifest.json", "snapshots")),
    *FAULTS,
    *(
        f"{store} done: {words}"
        for store in (LOCAL, S3)
        for words in ("pinned", "published", "published, clamped", "second", "stands, and reads the same again")
    ),
    "AddPartition",
    "Delete",
    "MoveLeader",
]
"""What a long run has to have seen to mean anything."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    with KafkaCluster(name="chaos", properties={"replica.fetch.wait.max.ms": "100"}, heap_mb=256) as running:
        wait_until(lambda: coordinator_id(running, "any"), "groups have coordinators")
        yield running


@pytest.fixture(scope="module")
def report(cluster: KafkaCluster, tmp_path_factory: pytest.TempPathFactory) -> Report:
    try:
        return run(plans.draw(SEED, WINDOWS), cluster.bootstrap_servers, tmp_path_factory.mktemp("chaos"))
    except Exception as error:
        error.add_note(f"CHAOS_SEED={SEED} CHAOS_WINDOWS={WINDOWS}")
        raise


class TestChaos:
    @pytest.mark.timeout(3600)
    def test_every_record_is_in_exactly_one_window_and_every_loss_is_reported(self, report: Report) -> None:
        print(*(f"{name}: {count}" for name, count in sorted(report.tally.items())), sep="\n")
        failures = report.failures()
        assert not failures, "\n\n".join([f"CHAOS_SEED={SEED} CHAOS_WINDOWS={WINDOWS}", *failures])
        if WINDOWS >= 1000:
            assert [each for each in WANTED if not report.tally[each]] == []

    def test_most_records_are_published(self, report: Report) -> None:
        """Windows that are all empty would tile as well."""
        for outcome in report.outcomes:
            published = sum(len(each.published) for each in outcome.pieces)
            visible = sum(len(each.visible) for each in outcome.seen.values())
            print(f"{outcome.pipeline.store}: {published} of {visible} records are published")
            assert published > visible / 2

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
        """But for the first window of all, before which nothing is anybody's."""
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
