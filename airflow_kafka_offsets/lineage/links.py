"""Links beside a task in Airflow's UI: to Spark's UI, and to the window in the ledger.

Airflow keeps a link as an XCom, and asks for it when the task has ended. While Spark runs the operator pushes it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from airflow.providers.common.compat.sdk import conf
from airflow.sdk import BaseOperatorLink

from airflow_kafka_offsets.hooks.ledger import open_ledger
from airflow_kafka_offsets.ledger.storage import plain_uri
from airflow_kafka_offsets.ledger.window_folder import PinnedManifest
from airflow_kafka_offsets.lineage.page_address import window_address

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey

_HISTORY_SERVER = "spark.yarn.historyServer.address"
"""The one conf in which Spark itself keeps the address of its history server."""
_WITHOUT_BASE_URL = "http://localhost:8080"
"""Where Airflow's own links lead then, such as those in its mails."""
_CONSOLES = {
    "s3": "https://console.aws.amazon.com/s3/buckets/{bucket}?prefix={prefix}/",
    "gs": "https://console.cloud.google.com/storage/browser/{bucket}/{prefix}",
}


class SparkUILink(BaseOperatorLink):
    """The application's UI while it runs. It is gone afterwards: then the application's page on the history server,
    where the operator's ``conf`` names one (``spark.yarn.historyServer.address``)."""

    name = "Spark UI"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """The page of the ended application; empty without a history server."""
        application_id = getattr(operator, "application_id", None)
        return history_page(getattr(operator, "conf", None) or {}, application_id) if application_id else ""


class WindowLink(BaseOperatorLink):
    """The window on the page "Kafka windows", where ``[api] base_url`` says Airflow's address and the window's ledger
    is one that the page shows. Otherwise the window's folder in the ledger: on S3 and GCS the console's page, as other
    providers link to objects. Other stores have no page that a browser opens, and Airflow shows no link but to
    ``http``, ``https`` and ``mailto``: there it is the page at ``localhost``, where Airflow's own links lead without
    ``base_url``; for a ledger that the page doesn't show, the folder's URI is in the log, and in resolve's XCom
    (``manifest``)."""

    name = "Window"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """The window that the task has seen; empty when it failed before it saw one, and where nothing shows it."""
        seen = getattr(operator, "seen", None)
        return "" if seen is None else window_page(seen.pinned)


def window_page(pinned: PinnedManifest) -> str:
    """Where a browser shows a window; empty where nothing does."""
    airflow = str(conf.get("api", "base_url", fallback="") or "")
    console = folder_page(pinned.uri.rpartition("/")[0])
    if not airflow.startswith(("http://", "https://")):
        if console:
            return console
        if not pinned.uri.startswith("file:"):
            return ""
        airflow = _WITHOUT_BASE_URL
    if _is_on_page(pinned):
        return window_address(airflow, pinned.manifest.pipeline, pinned.manifest.window)
    return console


def _is_on_page(pinned: PinnedManifest) -> bool:
    """Whether the window's ledger is below the setting's root: the page shows no others."""
    try:
        ledger = open_ledger(None, pinned.manifest.pipeline)
        return pinned.uri.startswith(f"{plain_uri(ledger.folder)}/windows/")
    except Exception:  # a task with a root of its own doesn't fail over what is wrong with the setting
        return False


def history_page(conf: dict[str, Any], application_id: str) -> str:
    """An application's page on the history server; empty when no conf names one."""
    address = str(conf.get(_HISTORY_SERVER) or "")
    if not address:
        return ""
    server = address if "://" in address else f"http://{address}"
    return f"{server.rstrip('/')}/history/{quote(application_id, safe='')}/"


def folder_page(uri: str) -> str:
    """The page of a folder on its store's console; empty where a store has none."""
    scheme, _, rest = uri.partition("://")
    bucket, _, prefix = rest.partition("/")
    console = _CONSOLES.get(scheme)
    return "" if console is None else console.format(bucket=bucket, prefix=quote(prefix))
