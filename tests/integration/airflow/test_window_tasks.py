"""Load and verify on a real broker, without Spark: what is refused before Spark would start, and after."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from kafka import KafkaAdminClient

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.errors import (
    ClusterUnreachableError,
    ConfigurationError,
    LedgerCorruptError,
    TopicChangedError,
    UnprovenError,
)
from airflow_kafka_offsets.ledger.counted import WindowStatus, status
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.offsets.windows.topic_identity import Source
from airflow_kafka_offsets.operators.spark_submit import KafkaSparkSubmitOperator
from airflow_kafka_offsets.operators.verify_window import KafkaVerifyWindowOperator
from airflow_kafka_offsets.references import WindowRefs
from tests.integration.airflow.conftest import (
    LOCAL_SPARK,
    T0_MS,
    Context,
    InSparksPlace,
    Publish,
    Resolve,
    at,
    fails_with,
    recreate,
    use_connection,
)
from tests.integration.airflow.loads import publish_counted
from tests.integration.conftest import Produce


class TestPreflight:
    """Refused on the worker, before a Spark cluster starts. ``spark_binary`` is one that would be noticed."""

    def load(
        self, window: dict[str, Any], spark_binary: str = "spark-submit", **arguments: Any
    ) -> KafkaSparkSubmitOperator:
        return KafkaSparkSubmitOperator(
            task_id="load",
            window=window,
            spark_binary=spark_binary,
            **({"application_args": ["--output", "file:///t"]} | arguments),
        )

    def test_a_deleted_topic_is_named(
        self, ten: str, resolve: Resolve, admin: KafkaAdminClient, context: Context
    ) -> None:
        window = resolve(ten, at(2), at(7))
        admin.delete_topics([ten])
        with pytest.raises(AirflowFailException, match="no longer exists") as failed:
            self.load(window).execute(context)
        assert fails_with(TopicChangedError, failed)

    def test_a_recreated_topic_is_named(
        self, ten: str, resolve: Resolve, admin: KafkaAdminClient, produce: Produce, context: Context
    ) -> None:
        """S16: Spark itself would read the wrong records."""
        window = resolve(ten, at(2), at(7))
        recreate(admin, ten)
        produce(ten, 0, [(T0_MS, None, b"other")] * 10)
        with pytest.raises(AirflowFailException, match="re-created") as failed:
            self.load(window).execute(context)
        assert fails_with(TopicChangedError, failed)

    def test_a_manifest_changed_after_it_was_hashed_is_refused(
        self, ten: str, resolve: Resolve, context: Context, ledger_root: Path
    ) -> None:
        window = resolve(ten, at(2), at(7))
        file = ledger_root / "loads" / "windows" / window["window"] / f"{window['sha256']}.json"
        file.write_bytes(file.read_bytes().replace(b",2,7,", b",2,9,"))
        with pytest.raises(AirflowFailException, match="was changed: its sha256 is") as failed:
            self.load(window).execute(context)
        assert fails_with(LedgerCorruptError, failed)

    @pytest.mark.parametrize("named", [{}, {"spark_binary": "spark3-submit"}, {"spark_binary": "/none/spark-submit"}])
    def test_a_missing_spark_submit_is_one_clear_line(
        self,
        ten: str,
        resolve: Resolve,
        context: Context,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        named: dict[str, str],
    ) -> None:
        """Airflow started by its path has not its own environment's programs on PATH. No attempt is begun for it."""
        window = resolve(ten, at(2), at(7))
        monkeypatch.setenv("PATH", str(tmp_path))
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", LOCAL_SPARK)
        with pytest.raises(AirflowFailException) as failed:
            self.load(window, **named).execute(context)
        assert fails_with(ConfigurationError, failed)
        said, program = str(failed.value), named.get("spark_binary", "spark-submit")
        where = "there" if "/" in program else f"on this worker's PATH ({tmp_path})"
        assert said.startswith(f"The load is run by {program}, but there is no such program {where}. PySpark's is /")
        advised = re.search(r"PySpark's is (\S+): put its folder on PATH, or give its path as spark_binary=", said)
        assert advised is not None
        assert os.access(advised[1], os.X_OK)
        assert WindowRefs.from_json(window).wanted()[0].window.attempts == ()

    def test_missing_java_is_one_clear_line(
        self,
        ten: str,
        resolve: Resolve,
        context: Context,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        in_sparks_place: InSparksPlace,
    ) -> None:
        window = resolve(ten, at(2), at(7))
        in_sparks_place("raise SystemExit(1)")
        monkeypatch.delenv("JAVA_HOME", raising=False)
        monkeypatch.setenv("PATH", str(tmp_path / "bin"))
        with pytest.raises(AirflowFailException, match=r"needs Java on this worker \(17"):
            self.load(window).execute(context)
        with pytest.raises(AirflowFailException, match="has no bin/java"):
            self.load(window, env_vars={"JAVA_HOME": str(tmp_path)}).execute(context)

    def test_a_java_that_is_too_old_is_one_clear_line(
        self, ten: str, resolve: Resolve, context: Context, in_sparks_place: InSparksPlace
    ) -> None:
        """What Java 11 says of Spark 4."""
        window = resolve(ten, at(2), at(7))
        in_sparks_place(
            "print('Error: LinkageError occurred while loading main class org.apache.spark.launcher.Main')\n"
            "print('\\tjava.lang.UnsupportedClassVersionError: org/apache/spark/launcher/Main has been compiled by a "
            "more recent version of the Java Runtime (class file version 61.0), this version only goes up to 55.0')\n"
            "raise SystemExit(1)"
        )
        with pytest.raises(AirflowFailException, match=r"too old for it\. Spark 4 needs Java 17") as failed:
            self.load(window).execute(context)
        assert fails_with(ConfigurationError, failed)

    def test_yarn_without_its_settings_asks_for_the_connection(
        self, ten: str, resolve: Resolve, context: Context, in_sparks_place: InSparksPlace
    ) -> None:
        """What Spark says of the master that Airflow's provider takes without a connection."""
        window = resolve(ten, at(2), at(7))
        in_sparks_place(
            "print('Exception in thread \"main\" org.apache.spark.SparkException: When running with master \\'yarn\\' "
            "either HADOOP_CONF_DIR or YARN_CONF_DIR must be set in the environment.')\n"
            "raise SystemExit(1)"
        )
        with pytest.raises(AirflowFailException, match="Is there a Spark connection 'spark_default'") as failed:
            self.load(window).execute(context)
        assert fails_with(ConfigurationError, failed)

    def test_the_connector_of_another_spark_is_refused_before_spark_starts(
        self, ten: str, resolve: Resolve, context: Context
    ) -> None:
        packages = "org.apache.spark:spark-sql-kafka-0-10_2.12:3.5.1"
        with pytest.raises(AirflowFailException, match=r"for Spark 3\.5 with Scala 2\.12, but the load") as failed:
            self.load(resolve(ten, at(2), at(7)), packages=packages).execute(context)
        assert fails_with(ConfigurationError, failed)

    @pytest.mark.parametrize("window", [None, {}, {"version": 9}])
    def test_something_that_is_no_window_is_refused(self, context: Context, window: Any) -> None:
        with pytest.raises(AirflowFailException, match=r"its \.output"):
            KafkaVerifyWindowOperator(task_id="v", window=window).execute(context)


class TestVerify:
    def verify(self, window: dict[str, Any]) -> KafkaVerifyWindowOperator:
        return KafkaVerifyWindowOperator(task_id="v", window=window)

    def test_a_published_window_is_proved_and_recorded(
        self, ten: str, resolve: Resolve, context: Context, publish: Publish, ledger: Ledger
    ) -> None:
        window = resolve(ten, at(2), at(7))
        publish(window)
        assert self.verify(window).execute(context)["verdict"] == "read = written = log"
        ledger.read()
        assert status(ledger, ledger.window(window["window"])) is WindowStatus.VERIFIED

    def test_damage_to_another_windows_files_takes_nothing_from_the_proof(
        self, ten: str, resolve: Resolve, context: Context, publish: Publish
    ) -> None:
        """Names say what windows share: nobody reads another one's manifest for that."""
        one, other = resolve(ten, at(0), at(3)), resolve(ten, at(3), at(6))
        for window in (one, other):
            publish(window)
        Path(one["manifest"].removeprefix("file://")).write_text("{}")
        assert self.verify(other).execute(context)["tiling"] == "tiles"

    def test_what_was_published_and_changed_since_is_not_proved(
        self, ten: str, resolve: Resolve, context: Context, publish: Publish
    ) -> None:
        """The publication has the hash of the result that it counts."""
        window = resolve(ten, at(2), at(7))
        publish(window)
        (result,) = Path(window["manifest"].removeprefix("file://")).parent.glob("*/*.result.json")
        result.write_text(result.read_text().replace('"count": 5', '"count": 6').replace('"count":5', '"count":6'))
        with pytest.raises(AirflowFailException, match="though it is published") as failed:
            self.verify(window).execute(context)
        assert fails_with(LedgerCorruptError, failed)

    def test_a_window_that_was_never_published_is_not_proved(
        self, ten: str, resolve: Resolve, context: Context
    ) -> None:
        with pytest.raises(AirflowFailException, match="never published") as failed:
            self.verify(resolve(ten, at(2), at(7))).execute(context)
        assert fails_with(UnprovenError, failed)

    def test_a_topic_that_is_recreated_later_takes_nothing_from_the_proof_and_is_told(
        self, ten: str, resolve: Resolve, context: Context, admin: KafkaAdminClient, publish: Publish
    ) -> None:
        window = resolve(ten, at(2), at(7))
        publish(window)
        assert self.verify(window).execute(context)["source"] == "unchanged"
        recreate(admin, ten)
        report = self.verify(window).execute(context)
        assert report["verdict"] == "read = written = log"
        assert "re-created" in report["source"]

    @pytest.mark.parametrize("asked", [False, True], ids=["nobody asked", "another topic answered"])
    def test_a_load_that_kafka_did_not_confirm_after_the_read_is_not_proved(
        self, ten: str, resolve: Resolve, context: Context, client: OffsetsClient, asked: bool
    ) -> None:
        """The message says how to load it again."""
        window = resolve(ten, at(2), at(7))
        source = Source(client.cluster_id(), {ten: "another"}, T0_MS) if asked else None
        publish_counted(window, source=source)
        why = f"topic {ten} was re-created" if asked else "nobody asked Kafka"
        with pytest.raises(AirflowFailException, match=rf"{why}.*ledger reload loads {window['window']}"):
            self.verify(window).execute(context)

    def test_a_window_is_not_proved_while_kafka_cannot_be_asked(
        self, ten: str, resolve: Resolve, context: Context, publish: Publish, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        window = resolve(ten, at(2), at(7))
        publish(window)
        use_connection(monkeypatch, "kafka_default", {"bootstrap.servers": "127.0.0.1:1"})
        monkeypatch.setenv("AIRFLOW__KAFKA_OFFSETS__CLIENT_TIMEOUT_S", "2")
        with pytest.raises(ClusterUnreachableError):
            self.verify(window).execute(context)
