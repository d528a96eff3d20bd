"""Lineage: a window as OpenLineage datasets. Inputs are topics, outputs are tables, with checks. Standard facets only.

The only module that imports OpenLineage, which is optional: only its listener loads this module. Dataset names follow
its rules (``spec/Naming.md``), so that they match those of Spark's and other integrations: the first bootstrap server
and the topic; the table's folder, without its windows' folders.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from airflow.providers.openlineage.extractors import OperatorLineage
from openlineage.client.event_v2 import InputDataset, OutputDataset
from openlineage.client.facet_v2 import (
    base_subset_dataset,
    data_quality_assertions_dataset,
    output_statistics_output_dataset,
)

from airflow_kafka_offsets.errors import shorten
from airflow_kafka_offsets.ledger.entries import Output
from airflow_kafka_offsets.lineage.task_window import TaskWindow
from airflow_kafka_offsets.offsets.proof.audit import Verdict

_SAME_SCHEME = {"": "file", "s3a": "s3", "s3n": "s3"}
_WINDOW = re.compile(r"/window=[^/]+/attempt=[^/]+/?$")
"""A window's folder, at the end of its table's."""
_WITH_ROOT = ("dbfs", "file", "hdfs")
"""Schemes whose dataset names keep the leading slash; names on object stores don't."""


def lineage_of(seen: Sequence[TaskWindow]) -> OperatorLineage[Any, Any]:
    """The lineage for OpenLineage: each table once, however many windows of it the task has. Empty when the task has no
    window yet, so that OpenLineage uses its inlets and outlets."""
    if not seen:
        return OperatorLineage()
    if any(each.verdict is not None for each in seen):
        return OperatorLineage(inputs=[_checked(*found) for found in _tables(seen).items()])
    topics = sorted({(each.bootstrap_servers[0], topic) for each in seen for topic in each.topics})
    inputs = [InputDataset(namespace=f"kafka://{server}", name=topic) for server, topic in topics]
    return OperatorLineage(inputs=inputs, outputs=[_written(*found) for found in _tables(seen).items()])


def _tables(seen: Sequence[TaskWindow]) -> dict[tuple[str, str], list[tuple[TaskWindow, Output]]]:
    """By namespace and name of each table, the windows that have rows there."""
    tables: dict[tuple[str, str], list[tuple[TaskWindow, Output]]] = {}
    for each in seen:
        for output in each.outputs:
            if output.output is not None:
                tables.setdefault(dataset_name(output.output), []).append((each, output))
    return tables


def _folders(found: Sequence[tuple[TaskWindow, Output]]) -> base_subset_dataset.LocationSubsetCondition:
    places = dict.fromkeys(str(output.output) for _, output in found)
    return base_subset_dataset.LocationSubsetCondition(locations=list(places))


def _written(table: tuple[str, str], found: Sequence[tuple[TaskWindow, Output]]) -> OutputDataset:
    rows = sum(output.rows for _, output in found)
    statistics = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(rowCount=rows)
    subset = base_subset_dataset.OutputSubsetOutputDatasetFacet(outputCondition=_folders(found))
    return OutputDataset(
        namespace=table[0], name=table[1], outputFacets={"outputStatistics": statistics, "subset": subset}
    )


def _checked(table: tuple[str, str], found: Sequence[tuple[TaskWindow, Output]]) -> InputDataset:
    """A table, with the claims that were checked on its windows."""
    assertions = [each for seen, _ in found if seen.verdict is not None for each in _claims(seen, seen.verdict)]
    return InputDataset(
        namespace=table[0],
        name=table[1],
        inputFacets={
            "dataQualityAssertions": data_quality_assertions_dataset.DataQualityAssertionsDatasetFacet(assertions),
            "subset": base_subset_dataset.InputSubsetInputDatasetFacet(inputCondition=_folders(found)),
        },
    )


def _claims(seen: TaskWindow, verdict: Verdict) -> list[data_quality_assertions_dataset.Assertion]:
    found = {
        "read_is_manifest": verdict.read_problems,
        "written_is_read": verdict.written_problems,
        "window_tiles": seen.holes,
    }
    return [
        data_quality_assertions_dataset.Assertion(
            assertion=claim,
            success=not problems,
            actual=shorten(problems) if problems else None,
            params={"window": seen.window, "manifest": seen.uri, "sha256": seen.sha256},
        )
        for claim, problems in found.items()
    ]


def dataset_name(output: str) -> tuple[str, str]:
    """Namespace and name of the table that a window's folder belongs to.

    :param output: URI of the folder, ``<table>/window=…/attempt=…``.
    """
    parts = urlsplit(_WINDOW.sub("", output), allow_fragments=False)
    path = f"{parts.path}?{parts.query}" if parts.query else parts.path
    scheme = _SAME_SCHEME.get(parts.scheme, parts.scheme)
    namespace = f"{scheme}://{parts.netloc}" if parts.netloc else scheme
    return namespace, path if scheme in _WITH_ROOT else path.strip("/") or "/"
