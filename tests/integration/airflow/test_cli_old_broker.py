"""What brokers before Kafka 4.0 keep, from the command line: segment offsets, and commits in ZooKeeper."""

from __future__ import annotations

import json

import pytest

from airflow_kafka_offsets.offsets.partitions import TopicPartition
from dev.zookeeper_broker import ZooKeeperBroker
from tests.integration.airflow.conftest import Run, use_connection
from tests.integration.client.cases.test_old_broker import commit_to_zookeeper
from tests.integration.client.cases.workload import HOUR_MS, T0, delete_records, new_name, new_topic, produce
from tests.integration.doc_blocks import DOCS, blocks_of, words_of


@pytest.fixture
def old_topic(old_broker: ZooKeeperBroker, monkeypatch: pytest.MonkeyPatch) -> str:
    """Two partitions of the old broker: ten records in several segments, and none."""
    use_connection(monkeypatch, "kafka_default", {"bootstrap.servers": old_broker.bootstrap_servers})
    name = new_topic(old_broker, 2, config={"segment.bytes": "250"})
    produce(old_broker, name, timestamps=[T0 + number * HOUR_MS for number in range(10)])
    return name


class TestSegments:
    def test_their_starts_are_listed_newest_first(self, run: Run, old_topic: str) -> None:
        code, out, _ = run("list", old_topic, "--segments", "-o", "json")
        first, second = json.loads(out)
        assert code == 0
        assert first["offsets"][0] == 10
        assert first["offsets"][-1] == 0
        assert len(first["offsets"]) > 2
        assert (second["offsets"], second["error"]) == ([0], None)
        assert ", ".join(map(str, first["offsets"])) in run("list", old_topic, "--segments")[1]

    def test_the_reference_shows_them(
        self, run: Run, old_broker: ZooKeeperBroker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        use_connection(monkeypatch, "kafka_default", {"bootstrap.servers": old_broker.bootstrap_servers})
        name = new_topic(old_broker, 3, config={"segment.bytes": "2500"})
        for partition, count in ((0, 100), (1, 40)):
            produce(old_broker, name, partition, timestamps=[T0 + minute * 60_000 for minute in range(count)])
        delete_records(old_broker, {TopicPartition(name, 0): 2})
        (block,) = (each for each in blocks_of(DOCS / "reference" / "cli.md", "console") if "--segments" in each.code)
        ((command, shown),) = block.commands()
        _, out, _ = run(*words_of(command.replace("flights", name))[1:])
        assert out.replace(name, "flights").split() == shown.split()

    def test_a_broker_that_has_them_no_more_says_so(self, run: Run, ten: str) -> None:
        code, out, _ = run("list", ten, "--segments", "-o", "json")
        assert code == 1
        assert json.loads(out)[0]["error"].startswith("UNSUPPORTED_VERSION")

    def test_the_largest_timestamp_is_no_place_to_begin(self, run: Run, ten: str) -> None:
        assert run("list", ten, "--segments", "--at", "max-timestamp")[0] == 2


class TestCommitsInZooKeeper:
    def test_lag_is_measured_by_them(self, run: Run, old_broker: ZooKeeperBroker, old_topic: str) -> None:
        group = new_name("group")
        commit_to_zookeeper(old_broker, group, old_topic, 4)
        code, out, _ = run("lag", group, "--zookeeper", "--topics", old_topic, "-o", "json")
        assert code == 0
        assert [(row["committed_offset"], row["lag"], row["status"]) for row in json.loads(out)] == [
            (4, 6, "ok"),
            (None, 0, "no_commit"),
        ]
        assert json.loads(run("lag", group, "-o", "json")[1])[0]["status"] == "unknown_group", "Kafka has none"

    def test_a_broker_that_has_them_no_more_says_so(self, run: Run, ten: str) -> None:
        code, out, _ = run("lag", "g", "--zookeeper", "--topics", ten, "-o", "json")
        assert code == 1
        assert "UNSUPPORTED_VERSION" in json.loads(out)[0]["error"]

    @pytest.mark.parametrize("words", [("--all-groups", "--zookeeper", "--topics", "t"), ("g", "--zookeeper")])
    def test_groups_and_topics_have_to_be_named(self, run: Run, words: tuple[str, ...]) -> None:
        assert run("lag", *words)[0] == 2
