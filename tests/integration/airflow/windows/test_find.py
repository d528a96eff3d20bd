"""``ledger find`` by key and by time: what it prints, and that keys are where producers have put them."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from confluent_kafka import Producer
from kafka import KafkaProducer

from dev.kafka import Broker
from tests.integration.airflow.conftest import Publish, Resolve, Run, at
from tests.integration.airflow.windows.conftest import HOUR_S, XCom, stamped
from tests.integration.conftest import MakeTopic, Produce
from tests.integration.kafka_clients import connect
from tests.patience import PATIENCE_S

PARTITIONS = 7
KEYS = ["", "a", "customer-4711", "ключ", "0" * 300, *map(str, range(20))]

Find = Callable[..., tuple[int, list[dict[str, Any]], str]]


@pytest.fixture
def find(run: Run) -> Find:
    """Returns exit code, rows and what stands beside them."""

    def ask(*words: str) -> tuple[int, list[dict[str, Any]], str]:
        code, out, err = run("ledger", "find", "loads", *words, "-o", "json")
        return code, json.loads(out or "[]"), err

    return ask


@pytest.fixture
def wide(topic: MakeTopic) -> str:
    return topic(partitions=PARTITIONS)


@pytest.fixture
def hours(topic: MakeTopic, produce: Produce, resolve: Resolve, publish: Publish) -> tuple[str, list[XCom]]:
    """A topic with a record every half an hour on each of two partitions, and three hours, of which the second one is
    left out."""
    name = topic(partitions=2)
    for partition in range(2):
        produce(name, partition, stamped(*(half * HOUR_S / 2 for half in range(8))))
    windows = [resolve(name, at(hour * HOUR_S), at((hour + 1) * HOUR_S)) for hour in (0, 2)]
    publish(windows[0])
    return name, windows


def by_kafka_python(broker: Broker, topic: str) -> dict[str, int]:
    with closing(connect(KafkaProducer, bootstrap_servers=broker.bootstrap_servers)) as producer:
        sent = {key: producer.send(topic, key=key.encode(), value=b"x") for key in KEYS}
        return {key: each.get(timeout=PATIENCE_S).partition for key, each in sent.items()}


def by_librdkafka(broker: Broker, topic: str, **config: str) -> dict[str, int]:
    written: dict[str, int] = {}

    def note(error: Any, message: Any) -> None:
        assert error is None, error
        written[message.key().decode()] = message.partition()

    producer = Producer({"bootstrap.servers": broker.bootstrap_servers} | config)
    for key in KEYS:
        producer.produce(topic, key=key.encode(), value=b"x", on_delivery=note)
    assert producer.flush(20) == 0
    return written


def by_java(broker: Broker, topic: str) -> dict[str, int]:
    """Keys are numbers, counted up."""
    words = ("--topic", topic, "--max-messages", "50", "--repeating-keys", "50")
    printed = broker.run_tool("org.apache.kafka.tools.VerifiableProducer", *words)
    told = [json.loads(line) for line in printed.splitlines()]
    return {each["key"]: each["partition"] for each in told if each["name"] == "producer_send_success"}


class TestByKey:
    @pytest.mark.parametrize(
        "written_by",
        [
            pytest.param(by_java, id="java"),
            pytest.param(by_kafka_python, id="kafka-python"),
            pytest.param(
                lambda broker, topic: by_librdkafka(broker, topic, partitioner="murmur2_random"),
                id="librdkafka-murmur2",
            ),
        ],
    )
    def test_it_is_where_the_producer_has_put_it(
        self,
        find: Find,
        broker: Broker,
        wide: str,
        resolve: Resolve,
        written_by: Callable[[Broker, str], dict[str, int]],
    ) -> None:
        written = written_by(broker, wide)
        resolve(wide, at(0), at(HOUR_S))
        assert len(written) >= 25
        found = {key: find(wide, "--key", key)[1] for key in written}
        assert {key: [row["partition"] for row in rows] for key, rows in found.items()} == {
            key: [partition] for key, partition in written.items()
        }

    def test_it_is_not_where_librdkafkas_default_puts_it_which_is_said(
        self, find: Find, broker: Broker, wide: str, resolve: Resolve
    ) -> None:
        written = by_librdkafka(broker, wide)
        resolve(wide, at(0), at(HOUR_S))
        found = {key: find(wide, "--key", key) for key in written if key}
        assert any(rows[0]["partition"] != written[key] for key, (_, rows, _) in found.items())
        assert all("CRC32 by default" in beside for _, _, beside in found.values())

    def test_a_key_says_its_partition_and_the_count_that_it_is_for(
        self, find: Find, wide: str, resolve: Resolve
    ) -> None:
        resolve(wide, at(0), at(HOUR_S))
        code, (row,), beside = find(wide, "--key", "customer-4711")
        assert code == 0
        assert list(row) == ["topic", "key", "partition", "partition_count", "since"]
        assert (row["key"], row["partition_count"]) == ("customer-4711", PARTITIONS)
        assert f"All snapshots have {PARTITIONS} partitions." in beside

    def test_its_bytes_can_be_given_in_hex(self, find: Find, wide: str, resolve: Resolve) -> None:
        resolve(wide, at(0), at(HOUR_S))
        key = "ключ"
        (of_text,), (of_bytes,) = (
            find(wide, *words)[1] for words in (("--key", key), ("--key-hex", key.encode().hex()))
        )
        assert of_text["partition"] == of_bytes["partition"]
        assert find(wide, "--key-hex", "ff00")[0] == 0

    @pytest.mark.parametrize("key", ["", "<script>alert(1)</script>", "k" * 10_000, "\x1b[31m"])
    def test_any_text_is_a_key(self, find: Find, run: Run, wide: str, resolve: Resolve, key: str) -> None:
        resolve(wide, at(0), at(HOUR_S))
        assert find(wide, "--key", key)[1][0]["key"] == key
        assert "\x1b" not in run("ledger", "find", "loads", wide, "--key", key, "--wide")[1]

    def test_with_an_offset_the_record_is_looked_up(self, find: Find, hours: tuple[str, list[XCom]]) -> None:
        name, windows = hours
        partition = find(name, "--key", "a")[1][0]["partition"]
        code, (row,), _ = find(name, "--key", "a", "--offset", "1")
        (same,) = find(name, str(partition), "1")[1]
        assert (code, row) == (0, {"topic": name, "key": "a"} | same)
        assert row["window"] == windows[0]["window"]
        assert find(name, "--key", "a", "--offset", "99")[0] == 1


class TestByTime:
    def test_a_row_a_partition_names_window_range_and_output(self, find: Find, hours: tuple[str, list[XCom]]) -> None:
        name, windows = hours
        code, rows, beside = find(name, "--at", at(0.5 * HOUR_S))
        assert code == 0
        assert [(row["partition"], row["start_offset"], row["end_offset"]) for row in rows] == [(0, 0, 2), (1, 0, 2)]
        assert {row["window"] for row in rows} == {windows[0]["window"]}
        assert {(row["found"], row["state"], row["output"]) for row in rows} == {
            ("published", "published", "file:/out")
        }
        assert rows[0]["at"] == "2026-11-20T06:30:00.000Z"
        assert f"{windows[0]['window']}: Late records of that time are in later windows" in beside

    def test_a_partition_or_a_key_leaves_one_of_them(self, find: Find, hours: tuple[str, list[XCom]]) -> None:
        name, windows = hours
        (row,) = find(name, "1", "--at", at(2.5 * HOUR_S))[1]
        assert (row["partition"], row["start_offset"], row["end_offset"]) == (1, 4, 6)
        assert (row["window"], row["found"], row["state"]) == (
            windows[1]["window"],
            "pinned, not published",
            "pinned",
        )
        (row,) = find(name, "--key", "a", "--at", at(2.5 * HOUR_S))[1]
        assert row["partition"] == find(name, "--key", "a")[1][0]["partition"]

    @pytest.mark.parametrize(
        ("when", "said"),
        [(-1, "the first one"), (1.5, "and 4 offsets of"), (3, "the last one"), (99_999, "the last one")],
    )
    def test_where_no_window_has_it_the_row_says_why(
        self, find: Find, hours: tuple[str, list[XCom]], when: float, said: str
    ) -> None:
        name, _ = hours
        code, (row,), _ = find(name, "--at", at(when * HOUR_S))
        assert (code, row["window"]) == (1, None)
        assert said in row["found"]
        assert list(row) == list(find(name, "--at", at(0))[1][0]), "the fields are the same"

    def test_a_table_has_a_row_a_partition(self, run: Run, hours: tuple[str, list[XCom]]) -> None:
        name, windows = hours
        lines = run("ledger", "find", "loads", name, "--at", at(0))[1].splitlines()
        assert lines[0].split() == ["window", "state", "part", "from", "to"]
        assert [line.split() for line in lines[1:]] == [
            [windows[0]["window"], "published", partition, "0", "2"] for partition in "01"
        ]


class TestRefused:
    @pytest.mark.parametrize(
        ("words", "said"),
        [
            ([], "Which record? Give an offset, an instant (at), or a key."),
            (["0"], "Which record of t-0?"),
            (["--offset", "1"], "give the partition, or the record's key"),
            (["0", "--key", "a", "--offset", "1"], "Leave the partition out"),
            (["0", "1", "--at", "2026-11-20T06:00:00Z"], "Leave the instant out"),
            (["0", "1", "--offset", "1"], "Leave --offset out"),
            (["--key", "a", "--key-hex", "61"], "not both"),
            (["--key-hex", "6"], "isn't bytes in hex"),
            (["--key-hex", "<script>"], "isn't bytes in hex"),
            (["--key", "\udcff"], "--key-hex"),
            (["--at", "yesterday"], "is not an instant"),
            (["--at", "2026-11-20T06:00:00"], "has no time zone"),
            (["--at", "10000-01-01T00:00:00Z"], "is not an instant"),
            (["--at", "0001-01-01T00:00:00Z"], "lies before 1970"),
        ],
    )
    def test_a_question_that_makes_no_sense_is_answered_with_what_to_do(
        self, run: Run, words: list[str], said: str
    ) -> None:
        code, out, err = run("ledger", "find", "loads", "t", *words)
        assert (code, out) == (2, "")
        assert said in err
        assert len(err.splitlines()) == 1
