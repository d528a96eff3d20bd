"""The audit of a table that something else has written: by the operator and the command, with Spark's program."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from base64 import b64decode
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from kafka import KafkaAdminClient, TopicPartition

from airflow_kafka_offsets.errors import IncompleteTableError, NotWrittenYetError
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.offsets.audits.audited_table import AuditedTable
from airflow_kafka_offsets.operators.audit_table import KafkaAuditTableOperator
from dev.airflow_home import environment
from dev.kafka import Broker
from dev.spark_packages import jars_of
from tests.integration.airflow.conftest import Commit, Context, InSparksPlace, Resolve, Run, at, fails_with

KEPT = ("AIRFLOW_HOME", "AIRFLOW__CORE__DAGS_FOLDER", "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN")


@pytest.fixture
def spark_submit(broker: Broker, tmp_path: Path, ledger_root: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The program, with what tasks and commands need to run it."""
    for name, value in environment(tmp_path, broker.bootstrap_servers).items():
        if name not in KEPT and "LEDGER_ROOT" not in name:
            monkeypatch.setenv(name, value)
    found = shutil.which("spark-submit")
    assert found is not None
    return found


def write(folder: Path, topic: str, offsets: Iterable[int]) -> str:
    """A table of these offsets of partition 0, as something else writes it. Its URI."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    places = list(offsets)
    columns = {"topic": [topic] * len(places), "kafka": [{"part": 0, "pos": each} for each in places]}
    pq.write_table(pa.table(columns), folder / "part-0.parquet")
    return folder.as_uri()


def audit(window: Any, table: AuditedTable, **arguments: Any) -> KafkaAuditTableOperator:
    given = {"jars": jars_of("connector"), "conf": {"spark.ui.enabled": "false"}, "durable": False, **arguments}
    return KafkaAuditTableOperator(task_id="audit", window=window, table=table, **given)


class TestOneTable:
    def test_is_judged_by_the_task_and_again_by_the_command_and_the_ledger_keeps_the_verdict(
        self,
        ten: str,
        resolve: Resolve,
        context: Context,
        ledger: Ledger,
        spark_submit: str,
        run: Run,
        admin: KafkaAdminClient,
        tmp_path: Path,
    ) -> None:
        window = resolve(ten, at(0), at(7))
        place = write(tmp_path / "table", ten, (0, 1, 2, 4, 4, 5, 6, 9))
        table = AuditedTable(place, format="parquet", partition="kafka.part", offset="kafka.pos")
        with pytest.raises(AirflowFailException) as failed:
            audit(window, table, write_missing=(tmp_path / "missing").as_uri()).execute(context)
        assert fails_with(IncompleteTableError, failed)
        assert f"1 record missing, 1 row doubled. Missing: {ten}-0 at 3. Doubled: {ten}-0 at 4." in str(failed.value)
        (repaired,) = pq.read_table(tmp_path / "missing").to_pylist()
        assert (repaired["offset"], repaired["value"]) == (3, b"x")
        (kept,) = ledger.read().windows[window["window"]].audits
        assert (kept.table, dict(kept.counts), kept.rows) == (place, {"missing": 1, "doubled": 1}, 7)
        assert kept.who["task_id"] == "t"

        # Once its records are gone, the table's own sums still tell.
        write(tmp_path / "table", ten, range(10))
        admin.delete_records({TopicPartition(ten, 0): 10})
        words = ("audit", "loads", window["window"], "--path", place, "--format", "parquet")
        columns = ("--partition", "kafka.part", "--offset", "kafka.pos", "--spark-submit", spark_submit)
        code, out, err = run(*words, *columns, "--spark-args", f"--jars {jars_of('connector')}", "-o", "json")
        assert code == 0, err
        (told,) = json.loads(out)
        assert (told["complete"], told["rows"], told["records"], told["looked_at"]) == (True, 7, 7, 0)

        listed = json.loads(run("ledger", "list", "loads", "-o", "json")[1])
        assert [each["audits"] for each in listed] == [f"{place}: complete"]
        assert f"{place}: complete" in run("ledger", "find", "loads", ten, "0", "3", "-o", "json")[1]
        (shown,) = json.loads(run("ledger", "show", "loads", "-o", "json")[1])
        (of_table,) = shown["audits"]
        assert (of_table["found"], of_table["records"]) == ("complete", 7)
        self.is_certified(run, window["window"], place, tmp_path)

    def is_certified(self, run: Run, window: str, place: str, folder: Path) -> None:
        """Signed with a key of the user's, whose signature OpenSSL accepts."""
        key, page = folder / "key.pem", folder / "certificate.html"
        subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", key], check=True)
        words = ("ledger", "certificate", "loads", window, "--key", str(key), "--html", str(page), "-o", "json")
        code, out, err = run(*words)
        assert code == 0, err
        (signed,) = json.loads(out)
        statement = json.loads(signed["statement"])
        (claim,) = statement["claims"]
        assert (claim["claim"], claim["holds"], claim["tables"]) == ("audited", True, [place])
        assert "`partition`" in claim["check"]
        embedded = re.search(r'<script type="application/json" id="certificate">(.+)</script>', page.read_text())
        assert embedded is not None
        assert json.loads(embedded[1]) == signed
        for name, content in {
            "statement.json": signed["statement"].encode(),
            "signature": b64decode(signed["signature"]),
            "public.pem": signed["public_key"].encode(),
        }.items():
            (folder / name).write_bytes(content)
        check = "openssl pkeyutl -verify -pubin -inkey public.pem -rawin -in statement.json -sigfile signature"
        assert subprocess.run(check.split(), cwd=folder, check=False).returncode == 0
        (folder / "statement.json").write_bytes(signed["statement"].replace("complete", "c0mplete").encode())
        assert subprocess.run(check.split(), cwd=folder, check=False).returncode == 1

    @pytest.mark.nightly("a driver of its own; spark/test_audits.py has the comparison, and the test above the task")
    def test_of_a_writer_that_is_behind_is_audited_again_by_a_retry(
        self,
        ten: str,
        resolve: Resolve,
        context: Context,
        spark_submit: str,
        commit: Commit,
        tmp_path: Path,
        capfd: pytest.CaptureFixture[str],
    ) -> None:
        window = resolve(ten, at(0), at(7))
        place = write(tmp_path / "table", ten, range(5))
        table = AuditedTable(place, format="parquet", partition="kafka.part", offset="kafka.pos")
        commit("connect-orders", ten, 5)
        with pytest.raises(NotWrittenYetError, match="2 records not yet"):
            audit(window, table, writer_group="connect-orders").execute(context)
        capfd.readouterr()
        warned = audit(window, table, writer_group="connect-orders", on_incomplete="warn").execute(context)
        assert (warned["complete"], warned["counts"]) == (False, {"not_yet": 2})
        assert "2 records not yet" in "".join(capfd.readouterr())


class TestRefusals:
    def test_a_driver_that_leaves_no_report_fails_the_try_with_its_last_words(
        self, ten: str, resolve: Resolve, context: Context, in_sparks_place: InSparksPlace
    ) -> None:
        in_sparks_place("print('Error: no such class'); raise SystemExit(1)\n")
        with pytest.raises(Exception, match="has left no report: no such class"):
            audit(resolve(ten, at(0), at(7)), AuditedTable(table="lake.orders")).execute(context)
        in_sparks_place("print('kafka-offsets-load: ConfigurationError: no such table'); raise SystemExit(1)\n")
        with pytest.raises(AirflowFailException, match="no such table"):
            audit(resolve(ten, at(0), at(7)), AuditedTable(table="lake.orders")).execute(context)
