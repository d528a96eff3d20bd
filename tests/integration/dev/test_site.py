"""The site of the documentation is built without a warning, and loads nothing from elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zlib
from functools import cache
from pathlib import Path

import pytest
import yaml

from dev import ROOT

pytestmark = pytest.mark.nightly("builds the whole site; unit/test_docs.py reads each page and follows its links")

FROM_ELSEWHERE = re.compile(r"""<(?:script|img|link|iframe)[^>]*(?:src|href)=["']?(https?://[^"'\s>]+)""")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    built = subprocess.run(
        command, cwd=ROOT, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


def test_has_a_page_for_each_of_the_docs_and_the_api(site: Path) -> None:
    pages = {page.relative_to(ROOT / "docs").with_suffix("") for page in (ROOT / "docs").rglob("*.md")}
    wanted = {f"{page}.html".replace("README", "index") for page in pages}
    found = {str(page.relative_to(site)) for page in site.rglob("*.html")}
    assert wanted <= found
    assert "api/airflow_kafka_offsets/operators/resolve.html" in found
    assert (site / "pictures" / "windows-tile.svg").exists()


def test_says_where_each_public_name_is_as_sphinx_does(site: Path) -> None:
    """By which Airflow's Provider Registry links to classes."""
    head, _, rest = (site / "objects.inv").read_bytes().partition(b"zlib.\n")
    assert head.startswith(b"# Sphinx inventory version 2\n# Project: airflow-kafka-offsets\n# Version: ")
    lines = [line.split(" ") for line in zlib.decompress(rest).decode().splitlines()]
    places = {name: (role, address) for name, role, _, address, _ in lines}
    registry = yaml.safe_load((ROOT / ".airflow-registry.yaml").read_text(encoding="utf-8"))
    listed = {each["module"] for kind in registry.values() if isinstance(kind, list) for each in kind}
    assert listed <= places.keys()
    operator = "airflow_kafka_offsets.operators.resolve.KafkaResolveWindowOperator"
    page = "api/airflow_kafka_offsets/operators/resolve.html"
    assert places[operator] == ("py:class", f"{page}#KafkaResolveWindowOperator")
    assert places[f"{operator}.resolve"] == ("py:method", f"{page}#KafkaResolveWindowOperator.resolve")
    assert places["airflow_kafka_offsets.errors.DataLossError"][0] == "py:exception"
    for _, address in places.values():
        page, _, anchor = address.partition("#")
        assert not anchor or f'id="{anchor}"' in text_of(site / page)


@cache
def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def test_loads_nothing_from_elsewhere(site: Path) -> None:
    pages = [page for page in site.rglob("*.html") if "api" not in page.relative_to(site).parts]
    found = {page.name: FROM_ELSEWHERE.findall(page.read_text(encoding="utf-8")) for page in pages}
    assert {name: urls for name, urls in found.items() if urls} == {}
    asking = [page.name for page in pages if 'data-md-component="source"' in page.read_text(encoding="utf-8")]
    assert asking == [], "their script asks the repository's host"


def test_links_out_of_the_docs_lead_to_the_repository(site: Path) -> None:
    page = (site / "guides" / "submitters.html").read_text(encoding="utf-8")
    assert "/blob/main/dags/submitters/emr.py" in page
    assert "/tree/main/dags/submitters" in page
