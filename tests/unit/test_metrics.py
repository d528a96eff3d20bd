"""The names of metrics: in the code, in the docs, and on the dashboard."""

from __future__ import annotations

import json
import re

from airflow_kafka_offsets.hooks.metrics import PREFIX
from airflow_kafka_offsets.offsets.measures import METRICS
from dev import ROOT

GUIDES = ROOT / "docs" / "guides"
ROW = re.compile(rf"^\| `{PREFIX}\.(\w+)` \| ([^|]+) \|", re.MULTILINE)


def test_the_docs_have_each_name_with_its_tags() -> None:
    found = {
        name: tuple(re.findall(r"`(\w+)`", tags)) for name, tags in ROW.findall((GUIDES / "metrics.md").read_text())
    }
    assert found == METRICS


def test_the_dashboard_shows_each_by_its_tags_and_no_other() -> None:
    panels = json.loads((GUIDES / "grafana-dashboard.json").read_text())["panels"]
    shown = {}
    for panel in panels:
        (target,) = panel["targets"]
        tags, name = re.fullmatch(rf"\w+ by \(([\w, ]+)\) \(airflow_{PREFIX}_(\w+)\)", target["expr"]).groups()
        shown[name] = tuple(tags.split(", "))
        assert re.findall(r"{{(\w+)}}", target["legendFormat"]) == list(shown[name])
    assert shown == METRICS
