"""Fuzz: what conditions say about random histories, against what is really in the log.

A wait that ends too early loses records, and one that never ends stops a pipeline: on a real cluster, for every history
and at every look, condition and oracle have to agree. ``FUZZ_HISTORIES=5000`` draws more histories; a failure names
its seed, and ``FUZZ_SEED=17,170`` replays these alone.
"""

from __future__ import annotations

import itertools
import os
from contextlib import closing

import pytest

from airflow_kafka_offsets.conditions.groups_caught_up import GroupsCaughtUp
from airflow_kafka_offsets.conditions.new_data import NewData
from airflow_kafka_offsets.conditions.offsets_reached import OffsetsReached
from airflow_kafka_offsets.conditions.window_complete import WindowComplete
from dev.cluster import KafkaCluster
from tests.integration.client.cases.workload import new_name
from tests.integration.fuzz.bench import Bench
from tests.integration.fuzz.execution import Execution
from tests.integration.fuzz.history import ABORT, COMMIT, INSTANT_MS, OPEN, PLAIN, Commit, Delete, History, Send
from tests.integration.fuzz.oracle import COMMITTED, LEVELS, Oracle, PartitionLog, Verdict
from tests.integration.fuzz.topics import make_topics
from tests.integration.fuzz.worker import Tally, run

HISTORIES = int(os.environ.get("FUZZ_HISTORIES", "20"))
SEEDS = [int(each) for each in os.environ.get("FUZZ_SEED", "").split(",") if each]
WORKERS = 3


class TestFuzz:
    @pytest.mark.timeout(1800)
    def test_no_false_pass_and_no_missed_pass(self, cluster: KafkaCluster) -> None:
        seeds = SEEDS or range(1, HISTORIES + 1)
        tally = run(cluster, seeds, 1 if SEEDS else WORKERS, replay=bool(SEEDS))
        print(tally)
        if tally.failures:
            pytest.fail("\n\n".join(report for _, report in sorted(tally.failures)), pytrace=False)
        assert len(tally.spoiled) <= len(seeds) / 25, tally.spoiled
        if len(seeds) >= 500:
            assert rare(tally) == [], f"too seldom to mean anything:\n{tally}"


def rare(tally: Tally) -> list[str]:
    """What a run has to have seen, and hasn't."""
    kinds = (GroupsCaughtUp, OffsetsReached, NewData, WindowComplete)
    verdicts = [
        f"{kind.kind} {level}: {verdict}"
        for kind, level, verdict in itertools.product(kinds, LEVELS, (Verdict.DONE, Verdict.WAITING))
    ]
    wanted = [*verdicts, "tail marker", "tail hidden", "open transaction", "deleted records", "commit below log start"]
    return [each for each in wanted if tally.seen[each] < 20]


class TestOracle:
    """What the oracle reads, where everybody knows what was written."""

    def test_sees_markers_aborted_undecided_and_deleted_records(self, cluster: KafkaCluster) -> None:
        stamps = (INSTANT_MS, INSTANT_MS + 1)
        topic, history = new_name("oracle"), History(0, 2, 3, append_time=False, steps=())
        with (
            closing(Bench(cluster.bootstrap_servers, topic)) as bench,
            closing(Oracle(cluster.bootstrap_servers)) as oracle,
        ):
            make_topics(bench, {topic: history})
            execution = Execution(bench, history, topic)
            for fate in (PLAIN, COMMIT, ABORT, OPEN):
                execution.do(Send({0: stamps}, fate))
            execution.do(Delete(0, 0.1))
            execution.do(Commit((0,), "end", COMMITTED, 0))
            log, empty = oracle.logs(topic, 2).values()
            assert (log.log_start_offset, log.last_stable_offset, log.high_watermark) == (1, 8, 10)
            assert [each.offset for each in log.committed] == [1, 2, 3]
            assert [each.offset for each in log.every] == [1, 2, 3, 5, 6, 8, 9]
            assert [each.timestamp_ms for each in log.committed] == [INSTANT_MS + 1, *stamps]
            assert empty == PartitionLog(0, 0, 0, (), ())
            assert oracle.commits(execution.group, topic) == {0: 8}
            assert oracle.commits("nobody", topic) == {}
            execution.finish()
