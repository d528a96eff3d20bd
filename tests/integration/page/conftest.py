"""The page's app with Airflow's own log-in in front, and ledgers with trouble to show."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from airflow.sdk import ObjectStoragePath
from starlette.testclient import TestClient

from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.offsets.partitions import LogRange
from airflow_kafka_offsets.offsets.proof.driver_notes import FailureNote
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from tests.integration.ledger.loads import AT_T0, OFFSETS, begin, load, publish, resolve
from tests.integration.page.auth_manager import SECRET

As = Callable[[str | None], TestClient]
MakePipeline = Callable[[str], Ledger]
OF_SECRET = {"dag_id": f"{SECRET}_loads", "run_id": "secret-run", "task_id": "load"}
"""Who makes an attempt that few may read about."""
RECORD_CONTENT = "card number 4111"
"""In the message of a driver that failed over a record."""


def open_pipeline(root: str, pipeline: str, topics: Collection[str] = ("t",), cluster_id: str = "cluster-1") -> Ledger:
    """A new ledger."""
    ledger = Ledger(ObjectStoragePath(root), pipeline)
    ledger.create(topics, cluster_id, IsolationLevel.READ_COMMITTED)
    return ledger


def make_trouble(root: str) -> None:
    """``troubled`` has a hole in hour 2, a loss in hour 5, a load that failed in hour 6 and a pinned window; others are
    a pipeline of a Dag that few may read, one that no Dag has loaded yet, two that are damaged; and a file beside."""
    troubled = open_pipeline(root, "troubled")
    for hour in (0, 1, 3, 4):
        load(troubled, hour)
    start = AT_T0 + 5 * OFFSETS
    publish(troubled, resolve(troubled, 5), lost=[LogRange("t", 0, start, start + 3)])
    failed = resolve(troubled, 6)
    attempt = begin(troubled, failed)
    troubled.attempt(failed.name, attempt.number).record_failure(FailureNote("UnprovenError", RECORD_CONTENT))
    resolve(troubled, 7)
    secret = open_pipeline(root, "secret")
    begin(secret, resolve(secret, 0), OF_SECRET)
    resolve(open_pipeline(root, "unloaded"), 0)
    for name, content in (("damaged", '{"format": 3}'), ("torn", '{"format": 1, "id')):
        folder = ObjectStoragePath(root) / name / "log" / "00000"
        folder.mkdir(parents=True)
        (folder / "00000001.json").write_text(content)
    (ObjectStoragePath(root) / "README.md").write_text("Ledgers.")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> str:
    place = tmp_path_factory.mktemp("page") / "ledgers"
    make_trouble(place.as_uri())
    return place.as_uri()


@pytest.fixture
def make_pipeline(root: str) -> Iterator[MakePipeline]:
    """Make a pipeline of the test's own."""
    made: list[str] = []

    def make(name: str) -> Ledger:
        made.append(name)
        return open_pipeline(root, name)

    yield make
    for name in made:
        shutil.rmtree(Path(urlsplit(root).path) / name)


@pytest.fixture(scope="module")
def log_in(root: str, airflow_db: Path) -> Iterator[As]:
    """A browser of a user with a role: ``viewer``, ``admin``; without one for "", and without a cookie for None."""
    settings = {
        "AIRFLOW__CORE__AUTH_MANAGER": "tests.integration.page.auth_manager.DagsByName",
        "AIRFLOW__API_AUTH__JWT_SECRET": "of the tests alone, and as long as its algorithm wants it: 0123456789abcdef",
        "AIRFLOW__KAFKA_OFFSETS__LEDGER_ROOT": root,
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in settings.items():
            patch.setenv(name, value)
        from airflow.api_fastapi.app import create_auth_manager, purge_cached_app
        from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

        from airflow_kafka_offsets.page.app import make_app

        purge_cached_app()
        manager, app = create_auth_manager(), make_app()
        _store_dag(f"{SECRET}_loads")

        def browser(role: str | None) -> TestClient:
            user: Any = SimpleAuthManagerUser(username="u", role=(role or "").upper() or None)
            cookies = {} if role is None else {"_token": manager.generate_jwt(user)}
            return TestClient(app, cookies=cookies, raise_server_exceptions=False)

        yield browser
        purge_cached_app()


def _store_dag(dag_id: str) -> None:
    from airflow.models.dag import DagModel
    from airflow.models.dagbundle import DagBundleModel
    from airflow.utils.session import create_session

    with create_session() as session:
        session.merge(DagBundleModel(name="page"))
        session.flush()
        session.merge(DagModel(dag_id=dag_id, bundle_name="page"))
