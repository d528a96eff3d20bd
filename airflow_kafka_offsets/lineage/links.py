"""Links of a task in Airflow's UI: to Spark's UI, and to the window in the ledger; and the mixin of tasks with links.

Airflow stores a link as an XCom, and asks for it only when the task has ended. While Spark runs, the operator pushes
it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from airflow.providers.common.compat.sdk import conf
from airflow.sdk import BaseOperatorLink

from airflow_kafka_offsets.hooks.ledger import ledger_of
from airflow_kafka_offsets.ledger.files import WINDOWS
from airflow_kafka_offsets.ledger.storage import uri_for_spark
from airflow_kafka_offsets.lineage import window_address
from airflow_kafka_offsets.lineage.task_window import TaskWindow

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey

_HISTORY_SERVER = "spark.yarn.historyServer.address"
"""The only Spark conf that holds the address of the history server."""
_WITHOUT_BASE_URL = "http://localhost:8080"
"""Where Airflow's own links, such as those in its emails, lead without ``base_url``."""


class SparkUILink(BaseOperatorLink):
    """The application's UI while it runs. Afterwards that UI is gone, and the link leads to the application's page on
    the history server, if the operator's ``conf`` names one (``spark.yarn.historyServer.address``)."""

    name = "Spark UI"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """The page of the ended application; empty without a history server."""
        application_id = getattr(operator, "application_id", None)
        return history_page(getattr(operator, "conf", None) or {}, application_id) if application_id else ""


class WindowLink(BaseOperatorLink):
    """The window on the page "Kafka windows", if ``[api] base_url`` is set and the page shows the window's ledger; for
    a ledger on a local disk without ``base_url``, the page at ``localhost``, like Airflow's own links. Otherwise there
    is no link: the folder's URI is in the log, and in resolve's XCom (``manifest``)."""

    name = "Window"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """The address of the task's window; empty if the task failed before it knew its window, or no page shows it."""
        seen = getattr(operator, "seen", ())
        return window_page(seen[0]) if seen else ""


class TellsLineage:
    """Mixin for operators that set :attr:`seen`: the link leads to the first of those windows, and OpenLineage, if
    installed, receives all. A failed task reports what it had seen until it failed."""

    operator_extra_links: Any = (WindowLink(),)
    seen: tuple[TaskWindow, ...] = ()

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> OperatorLineage[Any, Any]:
        """The topics, the outputs and the proof. Only OpenLineage's listener calls this."""
        from airflow_kafka_offsets.lineage.openlineage_facets import lineage_of

        return lineage_of(self.seen)


def window_page(seen: TaskWindow) -> str:
    """Address of the page that shows a window; empty when there is none."""
    airflow = str(conf.get("api", "base_url", fallback="") or "")
    if not airflow.startswith(("http://", "https://")):
        if not seen.uri.startswith("file:"):
            return ""
        airflow = _WITHOUT_BASE_URL
    return window_address(airflow, seen.pipeline, seen.window) if _is_on_page(seen) else ""


def _is_on_page(seen: TaskWindow) -> bool:
    """Whether the window's ledger is below the root in Airflow's settings: the page shows no others."""
    try:
        ledger = ledger_of(None, seen.pipeline)
        return seen.uri.startswith(f"{uri_for_spark(ledger.folder)}/{WINDOWS}/")
    except Exception:  # a task with its own ledger_root must not fail because the setting is wrong
        return False


def history_page(conf: dict[str, Any], application_id: str) -> str:
    """An application's page on the history server; empty when no conf names one."""
    address = str(conf.get(_HISTORY_SERVER) or "")
    if not address:
        return ""
    server = address if "://" in address else f"http://{address}"
    return f"{server.rstrip('/')}/history/{quote(application_id, safe='')}/"
