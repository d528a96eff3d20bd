"""The plugin by which Airflow finds the page. Every Airflow process loads it, so it imports little."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from airflow.plugins_manager import AirflowPlugin

from airflow_kafka_offsets.lineage import PREFIX

if TYPE_CHECKING:
    from fastapi import FastAPI
    from starlette.types import Receive, Scope, Send


@cache
def _app() -> FastAPI:
    from airflow_kafka_offsets.page.app import make_app

    return make_app()


async def page(scope: Scope, receive: Receive, send: Send) -> None:
    """The app, made on the first request, so only in the api-server."""
    await _app()(scope, receive, send)


class KafkaWindowsPlugin(AirflowPlugin):
    """The page "Kafka windows". It opens in its own tab, because links can't leave Airflow's iframe for plugins."""

    name = "kafka_windows"
    fastapi_apps = [{"app": page, "url_prefix": PREFIX, "name": "Kafka windows"}]
    # Relative, so that it works if Airflow is served below a path.
    external_views = [{"name": "Kafka windows", "href": f"{PREFIX[1:]}/", "destination": "nav", "category": "browse"}]
