"""Every block of commands that the README, the guides and the reference show, run on real parts; where a page shows
what a command prints, it prints that.

``kafka-offsets`` runs in this process, as in a terminal of 100 columns, and so does ``airflow backfill``. All else runs
in Bash.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import boto3
import pytest
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.providers.common.compat.sdk import BaseHook

from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook
from airflow_kafka_offsets.hooks.ledger import ledger_of
from airflow_kafka_offsets.hooks.schema_registry import registry_options
from airflow_kafka_offsets.ledger.entries import Restarted, Snapshotted
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.windows.snapshots import AsOf, AsOfKind
from tests.integration.airflow.conftest import DagFrom
from tests.integration.airflow.doc_commands.conftest import KafkaOffsets, LedgerOf, Shell, ms
from tests.integration.doc_blocks import PAGES, Block, blocks_of, name_of, replaced, words_of

Key = tuple[str, str, int]

CLI, QUICKSTART = "docs/reference/cli.md", "docs/guides/quickstart.md"
FROM_AN_INDEX = "installs from a package index; tests/integration/test_wheel.py installs the package"

NOT_RUN = {
    (QUICKSTART, "sh", 1): FROM_AN_INDEX,
    (QUICKSTART, "sh", 2): FROM_AN_INDEX,
    ("CONTRIBUTING.md", "sh", 4): "writes into the tree; client/test_golden_frames_are_kafkas.py compares",
    ("docs/guides/clusters.md", "sh", 1): "needs a Kubernetes cluster",
    ("docs/guides/sinks.md", "sh", 1): "needs PostgreSQL; the sink is one of spark/sinks/test_every_sink.py",
    ("docs/guides/auditing.md", "sh", 1): "needs a table; airflow/test_audit_table.py audits one by the command",
    ("docs/guides/auditing.md", "sh", 2): "needs a catalog; as above",
    (CLI, "console", 2): "needs a broker before Kafka 4.0; test_cli_old_broker.py has it",
}
"""Blocks whose syntax alone is checked: why, and which test runs the same."""

OTHERWISE = {
    ("CONTRIBUTING.md", "sh", 2): {"format .": "format --check .", "check --fix .": "check ."},
    ("docs/guides/backfill.md", "sh", 1): {"2026-01-01T00:00Z": "2025-01-03T00:00Z"},
    ("docs/guides/backfill.md", "sh", 2): {"2025-12-31T23:00Z": "2025-01-01T02:00Z"},
    (CLI, "console", 17): {"/srv/spark": "spark"},
}
"""What else stands for words of a block: what leaves the tree as it is, or ends sooner."""

HOURS = "flights_hourly", "flights", "1h", "2026-11-20T06:00Z", "2026-11-20T08:00Z"
DAYS = "flights_daily", "flights", "1d", "2013-03-09T00:00Z", "2013-03-12T00:00Z"
ORDERS = "orders_hourly", "orders", "1h"
FRIDAY, TODAY = ("2026-11-20T06:00Z", "2026-11-20T08:00Z"), ("2026-11-26T00:00Z", "2026-11-26T02:00Z")

NUMBERS_VARY = {(CLI, "console", 16), (CLI, "console", 17)}
"""With the partitions of records without a key; with each change of the package."""

WITHOUT_LEDGER = {("docs/guides/backfill.md", "sh", 1), (CLI, "console", 10)}
"""They make it."""
UNPUBLISHED = {(CLI, "console", 12)}
"""The windows are counted, but not published."""

BLOCKS = [block for page in PAGES for block in blocks_of(page, "sh", "console")]


def key_of(block: Block) -> Key:
    return block.page, block.language, block.number


def code_of(block: Block) -> str:
    """What is run."""
    return replaced(block.code, OTHERWISE.get(key_of(block), {}))


RUN = [block for block in BLOCKS if key_of(block) not in NOT_RUN]
OURS = [block for block in RUN if all(command.startswith("kafka-offsets ") for command, _ in block.commands())]
BACKFILL = [block for block in RUN if block.code.startswith("airflow backfill ")]
EXPORTS = [block for block in RUN if block.code.startswith("export AIRFLOW_")]
IN_BASH = [block for block in RUN if block not in (*OURS, *BACKFILL, *EXPORTS)]


@pytest.fixture
def with_a_clock_ahead(open_pipeline: LedgerOf) -> None:
    """A worker whose clock was a year ahead has stored a snapshot."""
    ledger = open_pipeline("flights_hourly")
    newest = ledger.state.newest_snapshot
    assert newest is not None
    ahead = Snapshotted(ms("2027-11-22T07:03:11.042Z"), newest.offsets)
    ledger.change(lambda _: (ahead,))


@pytest.fixture
def of_a_topic_that_was_deleted(open_pipeline: LedgerOf) -> None:
    """The newest snapshots are of topics that had the same names, and ten more records on each partition."""
    for ledger in map(open_pipeline, ("flights_daily", "orders_hourly")):
        if ledger.exists:
            _see_another_topic(ledger)


def _see_another_topic(ledger: Ledger) -> None:
    newest = ledger.state.newest_snapshot
    assert newest is not None
    stored, at_ms = ledger.contents.snapshot(newest.offsets), newest.at_ms + 1
    facts = {name: replace(each, topic_id="5f1e") for name, each in stored.topics.items()}
    boundaries = {key: replace(each, high_watermark=each.offset + 10) for key, each in stored.boundaries.items()}
    latest = AsOf(AsOfKind.LATEST)
    before = replace(stored, as_of=latest, resolved_at_ms=at_ms, topics=facts, boundaries=boundaries)
    restart = Restarted(at_ms, tuple(facts), "re-created")
    entry = Snapshotted(at_ms, ledger.contents.add_snapshot(before))
    ledger.change(lambda _: (restart,))
    ledger.change(lambda _: (entry,))


BEFORE: dict[Key, str] = {
    (CLI, "console", 15): "with_a_clock_ahead",
    (CLI, "console", 16): "of_a_topic_that_was_deleted",
    ("docs/guides/disasters.md", "sh", 4): "of_a_topic_that_was_deleted",
}
"""What else a block finds."""


@pytest.fixture
def prepare(loaded: Callable[..., None], request: pytest.FixtureRequest) -> Callable[[Block], None]:
    """Make the ledger that a block's pipeline has on its page, and what else it needs."""

    def make(block: Block) -> None:
        if key_of(block) in WITHOUT_LEDGER:
            return
        if "flights_daily" in block.code:
            loaded(*DAYS, published=key_of(block) not in UNPUBLISHED)
        if "flights_hourly" in block.code:
            loaded(*HOURS, count=1)
        if "orders_hourly" in block.code:
            loaded(*ORDERS, *(TODAY if block.page == QUICKSTART else FRIDAY))
        if key_of(block) in BEFORE:
            request.getfixturevalue(BEFORE[key_of(block)])

    return make


@pytest.mark.parametrize("block", OURS, ids=name_of)
def test_our_commands_print_what_the_page_shows(
    block: Block,
    cluster: Callable[[str], str],
    prepare: Callable[[Block], None],
    kafka_offsets: KafkaOffsets,
    ledger_root: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    cluster(block.code)
    prepare(block)
    for command, shown in replace(block, code=code_of(block)).commands():
        code, screen = kafka_offsets(command)
        if block.language == "sh":
            assert code == 0, screen
        else:
            printed = screen.replace(ledger_root.as_uri(), "file:///data/ledger")
            assert like(shown, printed, numbers_vary=key_of(block) in NUMBERS_VARY), printed


def like(shown: str, printed: str, *, numbers_vary: bool) -> bool:
    """Whether an output is what a page shows, which leaves out what an ellipsis stands for.

    :param numbers_vary: any number, or none, is as good as another.
    """
    if numbers_vary:
        shown, printed = (re.sub(r" +", " ", re.sub(r"(?<= )-?[\d.]+\b", "-", each)) for each in (shown, printed))
    pattern = re.escape(shown).replace("…", ".*?").replace(re.escape("...\n"), "(?s:.*)")
    return re.fullmatch(pattern, printed) is not None


@pytest.mark.nightly("what Bash runs, of make, Kafka and Spark; the commands of the package are run above")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("block", IN_BASH, ids=name_of)
def test_other_commands_succeed(block: Block, cluster: Callable[[str], str], shell: Shell) -> None:
    address = cluster(block.code)
    for command, shown in [(code_of(block), "")] if block.language == "sh" else block.commands():
        printed = shell(replaced(command, {"broker-1:9092": address}))
        assert block.language == "sh" or printed == shown


@pytest.mark.parametrize("block", BACKFILL, ids=name_of)
def test_airflow_makes_the_runs_of_a_backfill(block: Block, dag_from: DagFrom) -> None:
    """Of the quickstart's Dag, which reaches as far back."""
    from airflow.cli.cli_parser import get_parser
    from airflow.dag_processing.bundles.manager import DagBundlesManager
    from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db
    from airflow.models.dagrun import DagRun

    (source, *_) = blocks_of(PAGES[0])
    dag = dag_from("orders_hourly", source.code.replace("2026, 11, 26", "2025, 1, 1"))
    DagBundlesManager().sync_bundles_to_db()
    sync_bag_to_db(DagBag(str(Path(dag.fileloc).parent), bundle_name="dags-folder"), "dags-folder", None)
    ((command, _),) = replace(block, code=code_of(block)).commands()
    arguments = get_parser().parse_args(words_of(command)[1:])
    arguments.func(arguments)
    starts = [run.data_interval_start.isoformat() for run in DagRun.find(dag_id="orders_hourly")]
    assert sorted(starts) == [f"2025-01-01T0{hour}:00:00+00:00" for hour in range(3)]


@pytest.mark.parametrize("block", EXPORTS, ids=name_of)
def test_what_is_exported_is_a_connection_or_a_setting_of_airflows(
    block: Block, shell: Shell, s3_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = shell(f"{block.code}\npython -c 'import json, os; print(json.dumps(dict(os.environ)))'")
    names = re.findall(r"^export (\w+)=", block.code, re.MULTILINE)
    for name in names:
        monkeypatch.setenv(name, json.loads(told)[name].replace("http://minio:9000", s3_endpoint))
    assert names[-1] in CHECKS
    CHECKS[names[-1]]()


def _kafka() -> None:
    assert KafkaOffsetsHook().settings().bootstrap_servers[0].startswith("broker-1:")


def _root() -> None:
    assert ledger_of(None, "orders_hourly").uri == "file:///data/kafka-ledger/orders_hourly"


def _spark() -> None:
    assert SparkSubmitHook(conn_id="spark_default")._connection["master"] == "local[2]"


def _s3() -> None:
    """A ledger is made there."""
    connection = BaseHook.get_connection("aws_default")
    endpoint, region = (connection.extra_dejson[name] for name in ("endpoint_url", "region_name"))
    keys = {"aws_access_key_id": connection.login, "aws_secret_access_key": connection.password}
    boto3.client("s3", endpoint_url=endpoint, region_name=region, **keys).create_bucket(Bucket="my-bucket")
    ledger = ledger_of(None, "flights_daily")
    ledger.create(["flights"], "cluster-1", IsolationLevel.READ_COMMITTED)
    assert ledger.exists


def _registry() -> None:
    assert registry_options("schema_registry").plain["registry.url"] == "https://registry:8081"


CHECKS = {
    "AIRFLOW_CONN_SCHEMA_REGISTRY": _registry,
    "AIRFLOW_CONN_KAFKA_DEFAULT": _kafka,
    "AIRFLOW_CONN_SPARK_DEFAULT": _spark,
    "AIRFLOW__KAFKA_OFFSETS__LEDGER_ROOT": _root,
    "AIRFLOW_CONN_AWS_DEFAULT": _s3,
}
"""By the variable that a block exports last."""


@pytest.mark.parametrize("block", [block for block in BLOCKS if key_of(block) in NOT_RUN], ids=name_of)
def test_what_is_not_run_is_bash(block: Block) -> None:
    code = "\n".join(command for command, _ in block.commands())
    assert subprocess.run(["bash", "-n", "-c", code], check=False).returncode == 0


def test_what_is_said_of_blocks_is_said_of_those_of_the_pages() -> None:
    assert {*NOT_RUN, *OTHERWISE, *NUMBERS_VARY, *WITHOUT_LEDGER, *UNPUBLISHED, *BEFORE} <= set(map(key_of, BLOCKS))
