"""The commands, as a person or a script calls them: rows, exit codes, and the same numbers as Kafka's own tools. What
tables look like is in ``docs/reference/cli.md``, whose blocks ``doc_commands`` runs."""

from __future__ import annotations

import json
import re
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer
from kafka import KafkaAdminClient, KafkaProducer, TopicPartition

from airflow_kafka_offsets.client.connection.settings import ClientSettings
from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.offsets.answers.groups import CommittedOffset, CommittedOffsets
from airflow_kafka_offsets.offsets.instants import now_ms
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from dev.kafka import Broker
from tests.integration.airflow.conftest import Commit, Publish, Resolve, Run, sasl, use_connection
from tests.integration.client.cases.workload import wait_until_known
from tests.integration.conftest import MakeTopic, Produce
from tests.integration.kafka_clients import connect
from tests.integration.ledger.loads import begin
from tests.patience import wait_until

T0_MS = 1_795_154_400_000
"""2026-11-20T06:00:00Z."""


@pytest.fixture
def messy(topic: MakeTopic, produce: Produce, admin: KafkaAdminClient) -> str:
    """Three partitions: ten records with the first two deleted, one record, none."""
    name = topic(partitions=3, config={"retention.ms": "-1"})
    produce(name, 0, [(T0_MS + n * 1000, None, b"x") for n in range(10)])
    produce(name, 1, [(T0_MS + 60_000, None, b"x")])
    admin.delete_records({TopicPartition(name, 0): 2})
    return name


class TestList:
    @pytest.mark.parametrize(
        ("at", "time"),
        [
            ("earliest", "earliest"),
            ("max-timestamp", "max-timestamp"),
            ("2026-11-20T06:00:05Z", str(T0_MS + 5000)),
        ],
    )
    def test_it_answers_what_kafka_get_offsets_answers(
        self, run: Run, broker: Broker, messy: str, at: str, time: str
    ) -> None:
        code, out, _ = run("list", messy, "--at", at, "-o", "json")
        ours = {(row["topic"], row["partition"]): row["offset"] for row in json.loads(out)}
        printed = broker.run_tool("org.apache.kafka.tools.GetOffsetShell", "--topic", messy, "--time", time)
        lines = [line.rsplit(":", 2) for line in printed.split()]
        theirs = {(name, int(partition)): int(offset) if offset else None for name, partition, offset in lines}
        assert code == 0
        assert {key: offset for key, offset in ours.items() if offset is not None} == {
            key: offset for key, offset in theirs.items() if offset is not None
        }

    def test_a_row_says_what_it_means(self, run: Run, messy: str) -> None:
        """E1: no record is not an offset, and unknown is null."""
        _, out, _ = run("list", messy, "--at", "2026-11-20T06:00:30Z", "-o", "json")
        rows = json.loads(out)
        assert [(row["partition"], row["offset"], row["outcome"]) for row in rows] == [
            (0, None, "all_older"),
            (1, 0, "found"),
            (2, None, "empty_log"),
        ]
        assert rows[1]["timestamp_ms"] == T0_MS + 60_000
        assert rows[1]["timestamp"] == "2026-11-20T06:01:00.000Z"
        fields = ["topic", "partition", "offset", "timestamp_ms", "timestamp", "leader_epoch", "outcome", "error"]
        assert list(rows[0]) == fields

    def test_partitions_can_be_chosen(self, run: Run, messy: str) -> None:
        _, out, _ = run("list", messy, "--partitions", "0,2-2", "-o", "json")
        assert [row["partition"] for row in json.loads(out)] == [0, 2]

    def test_an_unknown_topic_is_one_line_and_exit_1(self, run: Run) -> None:
        code, out, err = run("list", "no-such-topic")
        assert (code, out) == (1, "")
        assert "no-such-topic" in err
        assert err.count("\n") == 1

    @pytest.mark.parametrize(
        "words",
        [
            ("list", "t", "--at", "yesterday"),
            ("list", "t", "--at", "2026-11-20T06"),
            ("ledger", "show", "loads", "w", "--at", "06:00"),
            ("list",),
            ("list", "t", "--partitions", "x"),
            ("lag",),
            ("lag", "g", "--all-groups"),
            ("ledger", "list", "no-such-pipeline"),
            ("ledger", "list", "loads", "--ledger", "nowhere://bucket/ledgers"),
        ],
    )
    def test_wrong_usage_is_exit_2(self, run: Run, words: tuple[str, ...]) -> None:
        assert run(*words)[0] == 2

    def test_an_unknown_connection_is_one_line_and_exit_2(self, run: Run, airflow_db: Path) -> None:
        code, out, err = run("list", "t", "--conn-id", "no_such")
        assert (code, out) == (2, "")
        assert "AIRFLOW_CONN_NO_SUCH" in err
        assert err.count("\n") == 1

    def test_no_broker_is_one_line_and_exit_1(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        use_connection(monkeypatch, "nowhere", {"bootstrap.servers": "127.0.0.1:1"})
        monkeypatch.setenv("AIRFLOW__KAFKA_OFFSETS__CLIENT_TIMEOUT_S", "2")
        code, out, err = run("list", "t", "--conn-id", "nowhere")
        assert (code, out) == (1, "")
        assert "127.0.0.1:1" in err
        assert err.count("\n") == 1
        assert "Traceback" not in err


class TestLag:
    @pytest.fixture
    def group(self, broker: Broker, messy: str) -> str:
        commits = [CommittedOffset(messy, 0, 7), CommittedOffset(messy, 1, 1)]
        with OffsetsClient(ClientSettings.from_config({"bootstrap.servers": broker.bootstrap_servers})) as client:
            client.commit_offsets(f"g-{messy}", CommittedOffsets(commits)).raise_for_errors()
        return f"g-{messy}"

    def test_it_answers_what_kafka_consumer_groups_answers(
        self, run: Run, broker: Broker, messy: str, group: str
    ) -> None:
        code, out, _ = run("lag", group, "-o", "json")
        rows = json.loads(out)
        printed = broker.run_tool(
            "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", "--describe", "--group", group
        )
        table = [line.split() for line in printed.splitlines() if line.startswith(group)]
        theirs = {int(row[2]): (int(row[3]), int(row[4]), int(row[5])) for row in table}
        ours = {row["partition"]: (row["committed_offset"], row["high_watermark"], row["lag"]) for row in rows}
        assert code == 0
        assert {n: ours[n] for n in theirs} == theirs
        assert theirs == {0: (7, 10, 3), 1: (1, 1, 0)}

    def test_rows_are_left_out_by_their_lag_and_summed_up_and_what_is_unknown_never_hides(
        self, run: Run, messy: str, group: str
    ) -> None:
        def shown(*arguments: str) -> list[dict[str, Any]]:
            rows: list[dict[str, Any]] = json.loads(run("lag", group, "no-such", *arguments, "-o", "json")[1])
            return rows

        rows = shown()
        assert {row["lag"] for row in rows} > {None, 0}
        above = [row for row in rows if row["lag"] != 0]
        assert shown("--lag", ">0") == above
        total = sum(row["lag"] or 0 for row in rows)
        count = sum(row["group"] == group for row in rows)
        known = {"group": group, "topic": None, "partitions": count, "lag": total, "unknown": 0, "age_s": None}
        unknown = {"group": "no-such", "topic": None, "partitions": 0, "lag": None, "unknown": 1, "age_s": None}
        assert shown("--by", "group") == [known, unknown]
        assert shown("--by", "topic") == [known | {"topic": messy}, unknown]
        assert shown("--by", "group", "--lag", f">{total}") == [unknown]

    def test_the_age_of_the_first_unread_record_is_told_by_partition_and_by_group(
        self, run: Run, topic: MakeTopic, produce: Produce, commit: Commit
    ) -> None:
        name, now = topic(partitions=2, config={"retention.ms": "-1"}), now_ms()
        for partition in range(2):
            produce(name, partition, [(now - 7_200_000 + n * 1000, None, b"x") for n in range(5)])
        commit(f"g-{name}", name, 5)
        rows = json.loads(run("lag", f"g-{name}", "--age", "-o", "json")[1])
        assert [(row["partition"], row["lag"], row["age_s"] and row["age_s"] // 600) for row in rows] == [
            (0, 0, 0),
            (1, 5, 12),
        ]
        (total,) = json.loads(run("lag", f"g-{name}", "--age", "--by", "group", "-o", "json")[1])
        assert (total["lag"], total["age_s"] // 600) == (5, 12)
        assert "2 hours" in run("lag", f"g-{name}", "--age", "--by", "group")[1]
        unknown = json.loads(run("lag", "no-such", "--age", "-o", "json")[1])
        assert [row["age_s"] for row in unknown] == [None]

    def test_an_age_that_is_unknown_is_said_why(
        self,
        run: Run,
        topic: MakeTopic,
        produce: Produce,
        broker: Broker,
        admin: KafkaAdminClient,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """The codec of one is missing, one has no timestamp, and of one the first records were deleted."""
        name, now = topic(partitions=3, config={"retention.ms": "-1"}), now_ms()
        batches = {"compression_type": "lz4", "linger_ms": 10_000, "bootstrap_servers": broker.bootstrap_servers}
        with closing(connect(KafkaProducer, **batches)) as producer:
            for number in range(3):
                producer.send(name, partition=0, value=b"x" * 500, timestamp_ms=now - 7_200_000 + number)
        produce(name, 1, [(-1, None, b"x")])
        produce(name, 2, [(now, None, b"x"), (now, None, b"x")])
        zero = CommittedOffsets(CommittedOffset(name, partition, 0) for partition in range(3))
        with OffsetsClient(ClientSettings.from_config({"bootstrap.servers": broker.bootstrap_servers})) as client:
            client.commit_offsets(f"g-{name}", zero).raise_for_errors()
        admin.delete_records({TopicPartition(name, 2): 1})
        monkeypatch.setattr("kafka.codec.lz4", None)  # as where it isn't installed
        code, out, said = run("lag", f"g-{name}", "--age", "-o", "json")
        assert (code, [row["age_s"] for row in json.loads(out)]) == (0, [None, None, None])
        assert re.search(
            rf"unknown on .*{name}-0 \(it is compressed with lz4, .*airflow-kafka-offsets\[codecs\]'", said
        )
        assert f"{name}-1 (it has no timestamp)" in said
        assert f"{name}-2 (records were deleted before they were read)" in said

    def test_an_unknown_group_is_a_row_and_exit_1(self, run: Run) -> None:
        """E19: never zero."""
        code, out, _ = run("lag", "no-such-group", "-o", "json")
        row = json.loads(out)[0]
        assert code == 1
        assert (row["group"], row["status"], row["lag"], row["topic"]) == ("no-such-group", "unknown_group", None, None)

    def test_a_deleted_topic_that_members_still_read_is_a_row_of_the_group_and_exit_1(
        self, run: Run, broker: Broker, topic: MakeTopic, messy: str, group: str, admin: KafkaAdminClient
    ) -> None:
        """E25: partitions that are left keep their rows as they are. The group forgets the topic in a moment: on
        a busy machine before it is asked for it."""
        settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": group, "group.protocol": "consumer"}
        reader = Consumer(settings | {"enable.auto.commit": False})
        try:
            for _ in range(8):
                gone = topic(partitions=1)
                reader.subscribe([messy, gone])
                wait_until(lambda: reader.poll(0.5) is None and len(reader.assignment()) == 4, "the member reads both")
                admin.delete_topics([gone])
                wait_until_known(broker, gone, 0)
                code, out, _ = run("lag", group, "-o", "json")
                first = json.loads(out)[0]
                # Its partition has a row of its own where the topic went between two of the command's questions.
                if (first["topic"], first["status"]) == (None, "error"):
                    break
        finally:
            reader.close()
        first, *others = json.loads(out)
        assert code == 1
        assert (first["status"], first["lag"]) == ("error", None)
        assert "UNKNOWN_TOPIC_OR_PARTITION" in first["error"]
        assert gone in first["error"] if first["topic"] is None else first["topic"] == gone
        assert [(row["topic"], row["status"], row["lag"]) for row in others] == [
            (messy, "ok", 3),
            (messy, "ok", 0),
            (messy, "no_commit", 0),
        ]

    def test_it_answers_what_kafka_share_groups_answers(self, run: Run, broker: Broker, messy: str) -> None:
        """E33: the group has been moved to the log starts, and has finished nothing there."""
        group, tool = f"s-{messy}", "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
        broker.run_tool(tool, "--group", group, "--topic", messy, "--reset-offsets", "--to-earliest", "--execute")
        code, out, _ = run("lag", group, "-o", "json")
        ours = {row["partition"]: (row["committed_offset"], row["lag"], row["status"]) for row in json.loads(out)}
        printed = broker.run_tool(tool, "--describe", "--group", group)
        table = [line.split() for line in printed.splitlines() if line.startswith(group)]
        assert {int(row[2]): (int(row[3]), int(row[4]), "ok") for row in table} == ours
        assert (code, ours) == (0, {0: (2, 8, "ok"), 1: (0, 1, "ok"), 2: (0, 0, "ok")})

    def test_all_groups_includes_ours(self, run: Run, group: str) -> None:
        _, out, _ = run("lag", "--all-groups", "-o", "json")
        assert group in {row["group"] for row in json.loads(out)}

    def test_a_wrong_password_is_one_line_and_exit_1(
        self, run: Run, broker: Broker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        use_connection(monkeypatch, "locked", sasl(broker, "alice", "wr0ng"))
        code, _, err = run("lag", "g", "--conn-id", "locked")
        assert code == 1
        assert err.count("\n") == 1
        assert "wr0ng" not in err


class TestLedger:
    @pytest.fixture
    def windows(self, messy: str, resolve: Resolve) -> list[dict[str, Any]]:
        """Two hours, resolved in the wrong order."""
        later = resolve(messy, "2026-11-20T07:00:00Z", "2026-11-20T08:00:00Z")
        earlier = resolve(messy, "2026-11-20T06:00:00Z", "2026-11-20T07:00:00Z")
        return [earlier, later]

    def test_list_without_a_name_shows_pipelines_and_how_far_each_is_complete(
        self, run: Run, windows: list[dict[str, Any]], publish: Publish, ledger_root: Path
    ) -> None:
        publish(windows[0])
        (row,) = json.loads(run("ledger", "list", "-o", "json")[1])
        assert (row["pipeline"], row["windows"], row["loaded"], row["failed"]) == ("loads", 2, 1, 0)
        assert row["complete_up_to"] == "2026-11-20T08:00:00.000Z", "nothing was written in the second hour"
        assert row["late_s"] > 3_600, "it was due a long time ago"
        for commit in (ledger_root / "loads" / "log").glob("*/*.json"):
            commit.write_text("{")
        code, out, _ = run("ledger", "list", "-o", "json")
        (row,) = json.loads(out)
        assert (code, row["windows"], "loads" in row["error"]) == (1, None, True)
        code, out, err = run("ledger", "list", "--ledger", str(ledger_root / "nothing"))
        assert (code, out, "has no ledger yet" in err) == (0, "No data found\n", True)

    def test_a_window_is_named_by_a_time_in_it(self, run: Run, windows: list[dict[str, Any]], ledger: Ledger) -> None:
        def shown(at: str) -> str:
            return str(json.loads(run("ledger", "show", "loads", "--at", at, "-o", "json")[1])[0]["window"])

        assert shown("2026-11-20 06:59:59.999") == windows[0]["window"]
        assert shown("2026-11-20T07:00Z") == windows[1]["window"]
        code, _, err = run("ledger", "show", "loads", "--at", "2026-11-20 05:59")
        assert (code, f"has no window at 2026-11-20T05:59:00.000Z: the next is {windows[0]['window']}" in err) == (
            2,
            True,
        )
        code, _, err = run("ledger", "show", "loads", "--at", "2026-11-20 08:00")
        assert (code, f"the one before is {windows[1]['window']}" in err) == (2, True)
        assert run("ledger", "void", "loads")[0] == 2
        given = (windows[1]["window"], "--at", "2026-11-20 06:30", "--at", "2026-11-20 06:40")
        assert run("ledger", "void", "loads", *given)[0] == 0
        assert not ledger.read().windows

    def test_list_and_show_name_the_manifest_and_its_hash_for_a_job_by_hand(
        self, run: Run, windows: list[dict[str, Any]]
    ) -> None:
        listed = json.loads(run("ledger", "list", "loads", "-o", "json")[1])
        assert [row["sha256"] for row in listed] == [each["sha256"] for each in windows]
        (shown,) = json.loads(run("ledger", "show", "loads", windows[1]["window"], "-o", "json")[1])
        assert (shown["manifest"], shown["sha256"]) == (listed[1]["manifest"], listed[1]["sha256"])
        manifest = Manifest.from_bytes(Path(shown["manifest"].removeprefix("file://")).read_bytes())
        assert (manifest.window, manifest.sha256) == (windows[1]["window"], windows[1]["sha256"])

    def test_show_says_how_long_a_window_has_been_loading(
        self, run: Run, windows: list[dict[str, Any]], ledger: Ledger
    ) -> None:
        name = windows[0]["window"]
        begin(ledger, ledger.read().windows[name], begun_ms=now_ms() - 10 * 86_400_000)
        (shown,) = json.loads(run("ledger", "show", "loads", name, "-o", "json")[1])
        assert (shown["state"], shown["running_ms"] // 86_400_000) == ("loading", 10)
        assert shown["attempts"][0]["begun_ms"] < now_ms()
        assert "running for" in run("ledger", "show", "loads", name)[1]
        assert "running for" not in run("ledger", "show", "loads", windows[1]["window"])[1]

    def test_a_store_that_fails_is_one_line_and_exit_1(self, run: Run, ledger_root: Path) -> None:
        ledger_root.mkdir()
        (ledger_root / "loads").touch()
        code, out, err = run("ledger", "list", "loads")
        assert (code, out) == (1, "")
        assert f"The ledger's store failed: {ledger_root.as_uri()}: NotADirectoryError: " in err
        assert err.count("\n") == 1

    def test_a_hole_is_listed_and_verify_fails_on_it_once_nobody_loads_it(
        self, run: Run, messy: str, windows: list[dict[str, Any]], resolve: Resolve, publish: Publish
    ) -> None:
        publish(resolve(messy, "2026-11-20T05:00:00Z", "2026-11-20T06:00:00Z"))
        publish(windows[1])
        code, out, _ = run("ledger", "verify", "loads", "-o", "json")
        assert code == 0
        assert windows[0]["window"] in json.loads(out)[-1]["found"]
        assert run("ledger", "void", "loads", windows[0]["window"])[0] == 0
        code, out, _ = run("ledger", "verify", "loads", "-o", "json")
        assert code == 1
        assert "no window has 9 of the 9 offsets from 2026-11-20T06:00:00.000Z" in json.loads(out)[-1]["found"]
        assert run("ledger", "verify", "loads", "--on-hole", "warn")[0] == 0
        _, out, err = run("ledger", "list", "loads", "-o", "json")
        rows = json.loads(out)
        assert [(row["state"], row["offsets"]) for row in rows] == [("published", 0), ("hole", 9), ("published", 0)]
        assert rows[1]["remark"] == "9 offsets in no window"
        assert "airflow backfill create --dag-id " in err
