"""The page of one pipeline as a single file, which contains the answers that the page would request."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any
from urllib.parse import quote, urlencode

from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.offsets.instants import now_ms
from airflow_kafka_offsets.page.overview import overview
from airflow_kafka_offsets.page.timeline import timeline
from airflow_kafka_offsets.page.windows import window_panel, windows_table

MODULES = (
    "states.js",
    "asking.js",
    "elements.js",
    "lateness.js",
    "find.js",
    "kafka_now.js",
    "waits.js",
    "moments.js",
    "chart_marks.js",
    "offsets_chart.js",
    "over_time.js",
    "pipelines.js",
    "windows.js",
    "window.js",
    "pipeline.js",
    "page.js",
)
"""The page's own modules, each before those that import it."""
_UPLOT_FOLDER = "vendor/uplot"
UPLOT, UPLOT_CSS = f"{_UPLOT_FOLDER}/uPlot.iife.min.js", f"{_UPLOT_FOLDER}/uPlot.min.css"
"""The chart library. It declares one global name."""
UPLOT_LICENCE = f"{_UPLOT_FOLDER}/LICENSE"
"""The licence requires that it is part of every copy."""
MOST_WINDOWS = 100
"""How many windows, and how many snapshots, the file contains: as many as the page shows at once."""


def page_file(ledger: Ledger, window: str) -> str:
    """Self-contained HTML: the pipeline's newest windows, each with its panel, and its topics over time.

    :param window: the window to open first. It is included even if it isn't one of the newest.
    :raises LedgerError: when a file of the ledger can't be read or is damaged.
    """
    static = files("airflow_kafka_offsets.page") / "static"
    texts = ("page.css", "index.html", UPLOT_CSS, UPLOT, UPLOT_LICENCE, *MODULES)
    css, html, library_css, library, licence, *modules = ((static / name).read_text(encoding="utf-8") for name in texts)
    # A module that is inside an HTML file can't import another one.
    lines = (line for module in modules for line in module.splitlines() if not line.startswith("import "))
    page = "\n".join(line.removeprefix("export ") for line in lines)
    # No text may contain "</script>".
    kept = json.dumps(_answers(ledger, window), separators=(",", ":")).replace("<", "\\u003c")
    first = json.dumps(f"#/p/{quote(ledger.pipeline)}/w/{window}")
    opened = f"if (!location.hash) location.hash = {first};"
    script = f'<script>globalThis.kept = {kept};{opened}</script>\n<script type="module">\n{page}\n</script>'
    for name, part in {
        f'<link rel="stylesheet" href="static/{UPLOT_CSS}">': f"<style>\n{library_css}\n</style>",
        '<link rel="stylesheet" href="static/page.css">': f"<style>\n{css}\n</style>",
        f'<script src="static/{UPLOT}" defer></script>': f"<script>\n/*\n{licence}*/\n{library}\n</script>",
        '<script src="static/page.js" type="module"></script>': script,
        ' <a href="../">Airflow</a>': "",
        '<a href="#/waits">Waits</a>\n': "",
    }.items():
        before, found, after = html.partition(name)
        assert found, name
        html = before + part + after
    return html


def _answers(ledger: Ledger, window: str) -> dict[str, Any]:
    """The answers to the page's requests, by path."""
    now = now_ms()
    dates = {"read_ms": now, "now_ms": now}
    row = overview(ledger)
    windows = windows_table(ledger, None, MOST_WINDOWS)
    own = f"pipelines/{quote(ledger.pipeline)}"
    answers: dict[str, Any] = {
        "pipelines": {"now_ms": now, "pipelines": [row | {"read_ms": now}]},
        own: dates | windows | {"overview": row, "more": False},
    }
    shown = [each["window"] for each in windows["entries"] if each["kind"] == "window"]
    for name in dict.fromkeys([window, *shown]):
        answers[f"{own}/windows/{name}"] = dates | window_panel(ledger, ledger.window(name))
    for topic in row["topics"] if ledger.state.windows else ():
        query = urlencode({"topic": topic, "most": MOST_WINDOWS})
        answers[f"{own}/offsets?{query}"] = dates | timeline(ledger, topic, None, MOST_WINDOWS)
    return answers
