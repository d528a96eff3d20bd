"""The script ``kafka-offsets`` where Airflow isn't asked: it isn't even imported, and needn't be set up."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dev.kafka import Broker
from tests.integration.airflow.conftest import at
from tests.patience import PATIENCE_S

SCRIPT = """
import sys
from airflow_kafka_offsets.cli.main import main
main(sys.argv[1:])
"""
WITHOUT_AIRFLOW = f"import sys; sys.modules['airflow'] = None{SCRIPT}"
Script = Callable[..., tuple[int, str, str]]


@pytest.fixture
def script(tmp_path: Path) -> Script:
    """Run it in a process where ``import airflow`` fails; environment variables as keywords."""

    def call(*words: str, program: str = WITHOUT_AIRFLOW, **variables: str) -> tuple[int, str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW_")}
        command = [sys.executable, "-c", program, *words]
        done = subprocess.run(
            command, env=kept | variables, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
        return done.returncode, done.stdout, done.stderr

    return call


class TestBundle:
    def test_writes_what_a_driver_needs_and_asks_nobody(self, script: Script, tmp_path: Path) -> None:
        code, out, err = script("bundle", str(tmp_path), "-o", "json")
        assert (code, err) == (0, "")
        written = {row["file"]: row["sha256"] for row in json.loads(out)}
        assert {Path(file).suffix for file in written} == {".zip", ".py"}
        for file, sha256 in written.items():
            assert hashlib.sha256(Path(file).read_bytes()).hexdigest() == sha256


class TestBootstrapServers:
    def test_list(self, script: Script, broker: Broker, ten: str) -> None:
        code, out, err = script("list", ten, "--bootstrap-servers", broker.bootstrap_servers, "-o", "json")
        assert (code, err) == (0, "")
        assert json.loads(out)[0]["offset"] == 10

    def test_lag_and_reset(
        self, script: Script, broker: Broker, commit: Callable[[str, str, int], None], ten: str
    ) -> None:
        commit(f"g-{ten}", ten, 4)
        there = "--bootstrap-servers", broker.bootstrap_servers
        assert json.loads(script("lag", f"g-{ten}", *there, "-o", "json")[1])[0]["lag"] == 6
        code, _, err = script("reset", f"g-{ten}", "--to", "latest", "--execute", *there)
        assert (code, err) == (0, f"kafka-offsets: group g-{ten}: commits on 1 of 1 partitions written.\n")
        assert json.loads(script("lag", f"g-{ten}", *there, "-o", "json")[1])[0]["lag"] == 0

    def test_keys_beside_it(self, script: Script, broker: Broker, ten: str, tmp_path: Path) -> None:
        keys = tmp_path / "client.properties"
        keys.write_text("# who asks\nclient.id = me\n\nsecurity.protocol=PLAINTEXT\n")
        there = "--bootstrap-servers", broker.bootstrap_servers, "--config", str(keys)
        assert script("list", ten, *there, "--config", "socket.timeout.ms=5000")[0] == 0
        code, _, err = script("list", ten, *there, "--config", "ssl.ca.loction=x")
        assert (code, "Did you mean ssl.ca.location?" in err) == (2, True)

    @pytest.mark.parametrize(
        ("given", "said"),
        [("no-such-file", "neither KEY=VALUE nor a file: No such file"), ("bad", "has a line without a =")],
    )
    def test_what_is_no_key(self, script: Script, tmp_path: Path, given: str, said: str) -> None:
        (tmp_path / "bad").write_text("client.id\n")
        code, _, err = script("list", "t", "--bootstrap-servers", "x:1", "--config", str(tmp_path / given))
        assert (code, said in err) == (2, True), err

    def test_keys_alone_name_no_broker(self, script: Script) -> None:
        code, _, err = script("list", "t", "--config", "client.id=me")
        assert (code, "kafka-offsets: --config replaces the connection, and has no bootstrap.servers" in err) == (
            2,
            True,
        )


class TestALedgerOfThisMachine:
    """Its commands import neither Airflow nor Kafka's client, each of which takes longer than all else they do."""

    ALONE = f"import sys; sys.modules['airflow'] = sys.modules['kafka'] = sys.modules['boto3'] = None{SCRIPT}"

    @pytest.mark.parametrize("named", ["option", "setting"])
    def test_is_read_without_airflow_and_without_kafka(
        self, script: Script, loaded: dict[str, Any], ledger_root: Path, ten: str, named: str
    ) -> None:
        option = ("--ledger", str(ledger_root)) if named == "option" else ()
        setting = {} if named == "option" else {"AIRFLOW__KAFKA_OFFSETS__LEDGER_ROOT": ledger_root.as_uri()}
        for words in (
            ("list",),
            ("list", "loads"),
            ("show", "loads", "--at", at(3)),
            ("verify", "loads"),
            ("find", "loads", ten, "0", "4"),
            ("files", "loads"),
        ):
            code, out, err = script("ledger", *words, *option, "-o", "json", program=self.ALONE, **setting)
            assert (code, err) == (0, ""), words
            assert words[0] == "files" or loaded["window"] in out or ten in out, words


class TestVariables:
    def test_a_wait_that_is_no_number(self, script: Script) -> None:
        code, _, err = script(
            "list", "t", "--bootstrap-servers", "x:1", AIRFLOW__KAFKA_OFFSETS__CLIENT_TIMEOUT_S="soon"
        )
        assert (code, "CLIENT_TIMEOUT_S is 'soon', which isn't a whole number of seconds" in err) == (2, True)
