"""How far a running Spark application has come with Kafka, as its UI tells it.

Spark's REST API says which query reads Kafka (``/sql``), and how many rows its scan gave once the query is over. While
it runs, no figure of that API is of use: the tasks' ``inputRecords`` stay 0 until a task ends, and always with Kafka's
source of version 1. The query's own page has the scan's count at any time, of version 1 and 2: executors tell it every
10 s (``spark.executor.heartbeatInterval``). It counts what comes from Kafka alone: not what is read of other tables,
nor of the output later.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import httpx

_TIMEOUT_S = 5.0
_QUERIES = "sql?details=true&planDescription=false&length=1000"
_SCANS = ("Scan KafkaRelation", "BatchScan Kafka")
"""How plans call a read of Kafka, by version 1 and 2 of the source."""
_ROWS = "number of output rows"
_ON_PAGE = re.compile(rf"(?:{'|'.join(_SCANS)})[^\n]*?{_ROWS}: ([\d,]+)")
"""A node of the page's graph is one line."""


@dataclass(frozen=True, slots=True)
class KafkaRead:
    """A query that reads Kafka.

    :param query: Spark's number of it (``executionId``).
    :param records: how many it has read so far. A task that is repeated counts again.
    :param running: whether it still runs.
    """

    query: int
    records: int
    running: bool


class SparkStatus:
    """The UI of one application. A context manager.

    :param ui: its address.
    :param application_id: Spark's own id of the application.
    :param redirected: follow it elsewhere. On YARN a driver sends whoever asks to the proxy of the ResourceManager;
        everywhere else an answer comes from the driver or not at all.
    """

    def __init__(self, ui: str, application_id: str, *, redirected: bool = False) -> None:
        self._api = f"api/v1/applications/{application_id}"
        # Nothing of the environment: no proxy and no .netrc, so that no credential is ever sent.
        self._client = httpx.Client(
            base_url=f"{ui.rstrip('/')}/", timeout=_TIMEOUT_S, follow_redirects=redirected, trust_env=False
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def kafka_read(self) -> KafkaRead | None:
        """The newest query that reads Kafka; None while there is none, and when it has failed.

        :raises httpx.HTTPError: when the UI isn't there, or doesn't answer with status 200.
        :raises ValueError: when the answer isn't JSON: a login page, or somebody else's.
        """
        query = newest_on_kafka(self._get(f"{self._api}/{_QUERIES}").json())
        if query is None or query["status"] not in ("RUNNING", "COMPLETED"):
            return None
        number, running = int(query["id"]), query["status"] == "RUNNING"
        records = rows_on_page(self._get(f"SQL/execution/?id={number}").text) if running else rows_in_api(query)
        return KafkaRead(number, records, running)

    def _get(self, path: str) -> httpx.Response:
        return self._client.get(path).raise_for_status()


def newest_on_kafka(queries: Iterable[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The newest query whose plan has a scan of Kafka. That of the output, which follows, has none."""
    on_kafka = [query for query in queries if any(_is_scan(node) for node in query["nodes"])]
    return max(on_kafka, key=lambda query: int(query["id"]), default=None)


def rows_in_api(query: Mapping[str, Any]) -> int:
    """Rows that the scans of a query that is over gave."""
    metrics = (metric for node in query["nodes"] if _is_scan(node) for metric in node["metrics"])
    return sum(_number(metric["value"]) for metric in metrics if metric["name"] == _ROWS)


def rows_on_page(page: str) -> int:
    """Rows that the scans of a query have given so far, by its page; 0 when the page doesn't say."""
    return sum(map(_number, _ON_PAGE.findall(html.unescape(page))))


def _is_scan(node: Mapping[str, Any]) -> bool:
    return str(node["nodeName"]).startswith(_SCANS)


def _number(text: str) -> int:
    return int(text.replace(",", ""))
