"""Commands find connections where Airflow's UI stores them, in its metadata database, as tasks do."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import boto3
import pytest
from airflow.models.connection import Connection
from airflow.models.crypto import get_fernet
from airflow.utils.session import create_session
from cryptography.fernet import Fernet
from moto.server import ThreadedMotoServer
from sqlalchemy import text

from dev.kafka import Broker
from tests.integration.airflow.conftest import Run, at, sasl, use_connection
from tests.integration.conftest import USERS

Store = Callable[..., str]


@pytest.fixture
def store(airflow_db: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """Store a connection as the form does, and forget what the environment says of it."""
    stored: list[str] = []
    monkeypatch.setenv("AIRFLOW__CORE__FERNET_KEY", Fernet.generate_key().decode())
    get_fernet.cache_clear()

    def keep(conn_id: str, conn_type: str, *, extra: dict[str, Any] | None = None, **fields: Any) -> str:
        monkeypatch.delenv(f"AIRFLOW_CONN_{conn_id.upper()}", raising=False)
        with create_session() as session:
            session.query(Connection).filter_by(conn_id=conn_id).delete()
            session.add(Connection(conn_id=conn_id, conn_type=conn_type, extra=json.dumps(extra or {}), **fields))
        stored.append(conn_id)
        return conn_id

    yield keep
    with create_session() as session:
        session.query(Connection).filter(Connection.conn_id.in_(stored)).delete()
    monkeypatch.undo()
    get_fernet.cache_clear()


@pytest.fixture
def made_in_the_form(store: Store, broker: Broker) -> str:
    return store("kafka_default", "kafka_offsets", host=broker.bootstrap_servers)


@pytest.mark.usefixtures("made_in_the_form")
class TestAConnectionOfTheForm:
    def test_list(self, run: Run, ten: str) -> None:
        code, out, err = run("list", ten, "-o", "json")
        assert (code, err) == (0, "")
        assert json.loads(out)[0]["offset"] == 10

    def test_ledger_resolve_and_begin(self, run: Run, ten: str) -> None:
        when = ("--start", "2026-11-20T06:00Z", "--end", "2026-11-20T07:00Z")
        code, out, err = run("ledger", "resolve", "loads", "--topics", ten, *when, "-o", "json")
        assert (code, err) == (0, "")
        window = json.loads(out)[0]
        assert window["offsets"] == 10
        code, out, _ = run("ledger", "begin", "loads", window["window"], "-o", "json")
        conf = json.loads(out)[0]["conf"]
        assert (code, conf["spark.kafkaOffsets.manifest"]) == (0, window["manifest"])
        assert "spark.kafkaOffsets.kafka.bootstrap.servers" in conf

    def test_the_environment_comes_first(self, run: Run, ten: str, monkeypatch: pytest.MonkeyPatch) -> None:
        use_connection(monkeypatch, "kafka_default", {"bootstrap.servers": "127.0.0.1:1"})
        monkeypatch.setenv("AIRFLOW__KAFKA_OFFSETS__CLIENT_TIMEOUT_S", "2")
        assert "127.0.0.1:1" in run("list", ten)[2]


class TestAPassword:
    @pytest.fixture
    def locked(self, store: Store, broker: Broker) -> str:
        extra = sasl(broker, "alice", USERS["alice"])
        password = extra.pop("sasl.password")
        return store("locked", "kafka_offsets", host=extra.pop("bootstrap.servers"), password=password, extra=extra)

    def test_it_is_decrypted(self, run: Run, locked: str, ten: str) -> None:
        with create_session() as session:
            kept = session.scalar(text("select password from connection where conn_id = 'locked'"))
        assert get_fernet().is_encrypted
        assert USERS["alice"] not in kept
        assert run("list", ten, "--conn-id", locked)[0] == 0

    def test_a_key_that_does_not_fit_is_no_missing_connection(
        self, run: Run, locked: str, ten: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("AIRFLOW__CORE__FERNET_KEY", Fernet.generate_key().decode())
        get_fernet.cache_clear()
        code, _, err = run("list", ten, "--conn-id", locked)
        assert code == 2
        assert err.count("\n") == 1
        assert "Connection locked can't be read" in err
        assert "AIRFLOW__CORE__FERNET_KEY" in err
        assert USERS["alice"] not in err


class TestALedgerOnS3:
    @pytest.fixture
    def bucket(self, store: Store) -> Iterator[str]:
        """A bucket that only the stored connection ``bucket_s3`` reaches."""
        server, name = ThreadedMotoServer(ip_address="127.0.0.1", port=0), f"ledger-{uuid4().hex[:8]}"
        server.start()
        endpoint = "http://{}:{}".format(*server.get_host_and_port())
        keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}
        boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1", **keys).create_bucket(Bucket=name)
        extra = {"endpoint_url": endpoint, "region_name": "us-east-1"}
        store("bucket_s3", "aws", login="test", password="test", extra=extra)
        yield name
        server.stop()

    def test_its_connection_is_found(self, run: Run, bucket: str, made_in_the_form: str, ten: str) -> None:
        root = f"s3://bucket_s3@{bucket}/ledgers"
        when = ("--start", at(0), "--end", "2026-11-20T07:00Z")
        assert run("ledger", "resolve", "loads", "--topics", ten, *when, "--ledger", root)[0] == 0
        code, out, err = run("ledger", "list", "loads", "--ledger", root, "-o", "json")
        assert (code, err) == (0, "")
        assert json.loads(out)[0]["offsets"] == 10

    def test_a_store_that_does_not_answer_is_one_line(self, run: Run, store: Store) -> None:
        extra = {"endpoint_url": "http://127.0.0.1:1", "region_name": "us-east-1"}
        store("away_s3", "aws", login="test", password="test-secret", extra=extra)
        code, out, err = run("ledger", "list", "loads", "--ledger", "s3://away_s3@lake/ledgers")
        assert (code, out) == (1, "")
        assert "The ledger's store failed: s3://away_s3@lake/ledgers: EndpointConnectionError: Could not connect" in err
        assert "Check the connection that the root names (s3://<connection id>@<bucket>/…)" in err
        assert err.count("\n") == 1
        assert "test-secret" not in err

    def test_a_connection_that_is_not_there_is_named(self, run: Run, bucket: str) -> None:
        code, out, err = run("ledger", "list", "loads", "--ledger", f"s3://no_such@{bucket}/ledgers")
        assert (code, out) == (2, "")
        assert "There is no connection no_such" in err
        assert err.count("\n") == 1


def test_a_database_that_can_not_be_asked_is_no_missing_connection(
    run: Run, made_in_the_form: str, ten: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error of the look-up isn't read as "nothing there"."""
    with create_session() as session:
        session.execute(text("alter table connection rename to connection_away"))
    try:
        code, _, err = run("list", ten)
    finally:
        with create_session() as session:
            session.execute(text("alter table connection_away rename to connection"))
    assert code == 2
    assert "no such table" in err
    assert "Connection kafka_default can't be read" in err
    assert "or set AIRFLOW_CONN_KAFKA_DEFAULT" in err
    assert err.count("\n") == 1
