"""The audit of a table that something else has written: by the operator and the command, with Spark's program."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from kafka import KafkaAdminClient, TopicPartition

from airflow_kafka_offsets.errors import IncompleteTableError, WindowsFailedError
from airflow_kafka_offsets.ledger import audits
from airflow_kafka_offsets.ledger.files import audit_file
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.offsets.audits.audited_table import AuditedTable
from airflow_kafka_offsets.operators.audit_table import KafkaAuditTableOperator
from dev.airflow_home import environment
from dev.kafka import Broker
from dev.spark_packages import jars_of
from tests.integration.airflow.conftest import Context, InSparksPlace, Resolve, Run, at, fails_with

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
        assert (of_table["found"], of_table["records"]) == (None, 7)
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
        assert f"FROM parquet.`{place}`" in claim["check"]
        public = folder / "public.pem"
        subprocess.run(["openssl", "pkey", "-in", key, "-pubout", "-out", public], check=True)
        assert signed["public_key"] == public.read_text()
        (check,) = [
            unescape(each) for each in re.findall("<pre>(.+?)</pre>", page.read_text(), re.S) if "openssl" in each
        ]

        def is_signed() -> bool:
            done = subprocess.run(["bash", "-c", check], cwd=folder, check=False, capture_output=True, text=True)
            return done.returncode == 0 and "Signature Verified Successfully" in done.stdout

        assert is_signed()
        assert (folder / "statement.json").read_text() == signed["statement"]
        page.write_text(page.read_text().replace("is complete", "is c0mplete"))
        assert not is_signed()


class TestSeveralWindows:
    def test_are_audited_by_one_application_and_one_commit_and_those_that_are_wrong_are_named(
        self, ten: str, resolve: Resolve, context: Context, ledger: Ledger, spark_submit: str, run: Run, tmp_path: Path
    ) -> None:
        windows = [resolve(ten, at(0), at(3)), resolve(ten, at(3), at(7))]
        place = write(tmp_path / "table", ten, (0, 1, 2, 3, 5, 6))
        table = AuditedTable(place, format="parquet", partition="kafka.part", offset="kafka.pos")
        before = ledger.read().number
        with pytest.raises(AirflowFailException) as failed:
            audit(windows, table).execute(context)
        assert fails_with(WindowsFailedError, failed)
        assert "1 of 2 windows failed; the other 1 did not." in str(failed.value)
        assert f"Missing: {ten}-0 at 4." in str(failed.value)
        state = ledger.read()
        assert state.number == before + 1
        kept = [window.audits[0] for window in state.windows.values()]
        assert [(dict(each.counts), each.rows) for each in kept] == [({}, 3), ({"missing": 1}, 3)]
        assert len({each.run for each in kept}) == 1

        # Something else submits a driver.
        for window in state.windows.values():
            report = audits.report_of(ledger, window, window.audits[0])
            later = replace(report, run="00000000", audited_ms=report.audited_ms + 1)
            ledger.files.create(audit_file(window.name, later.run), later.to_bytes())
        code, out, err = run("audit", "loads", *state.windows, "--run", "00000000")
        assert code == 1, err
        assert "missing" in out
        assert {window.audits[0].run for window in ledger.read().windows.values()} == {"00000000"}


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
