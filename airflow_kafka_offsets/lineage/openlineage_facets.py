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
from airflow_kafka_offsets.ledger.ledger import PinnedManifest
from airflow_kafka_offsets.lineage.task_window import TaskWindow

_SAME_SCHEME = {"": "file", "s3a": "s3", "s3n": "s3"}
_WINDOW = re.compile(r"/window=[^/]+/attempt=[^/]+/?$")
"""A window's folder, at the end of its table's."""
_WITH_ROOT = ("dbfs", "file", "hdfs")
"""Schemes whose dataset names keep the leading slash; names on object stores don't."""


def lineage_of(seen: TaskWindow | None) -> OperatorLineage[Any, Any]:
    """The lineage for OpenLineage; empty when the task has no window yet, so that OpenLineage uses its inlets and
    outlets."""
    if seen is None:
        return OperatorLineage()
    outputs = [(each.output, each.rows) for each in seen.outputs if each.output is not None]
    if seen.verdict is not None:
        return OperatorLineage(inputs=[_checked(seen, output) for output, _ in outputs])
    server = seen.bootstrap_servers[0]
    topics = [InputDataset(namespace=f"kafka://{server}", name=each) for each in sorted(seen.pinned.manifest.topics)]
    return OperatorLineage(inputs=topics, outputs=[_written(*output) for output in outputs])


def _written(output: str, rows: int | None) -> OutputDataset:
    namespace, name = dataset_name(output)
    statistics = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(rowCount=rows)
    folder = base_subset_dataset.LocationSubsetCondition(locations=[output])
    subset = base_subset_dataset.OutputSubsetOutputDatasetFacet(outputCondition=folder)
    return OutputDataset(
        namespace=namespace, name=name, outputFacets={"outputStatistics": statistics, "subset": subset}
    )


def _checked(seen: TaskWindow, output: str) -> InputDataset:
    """An output, with the claims that were checked on it."""
    assert seen.verdict is not None
    namespace, name = dataset_name(output)
    folder = base_subset_dataset.LocationSubsetCondition(locations=[output])
    found = {
        "read_is_manifest": seen.verdict.read_problems,
        "written_is_read": seen.verdict.written_problems,
        "window_tiles": seen.holes,
    }
    assertions = [_assertion(seen.pinned, claim, problems) for claim, problems in found.items()]
    return InputDataset(
        namespace=namespace,
        name=name,
        inputFacets={
            "dataQualityAssertions": data_quality_assertions_dataset.DataQualityAssertionsDatasetFacet(assertions),
            "subset": base_subset_dataset.InputSubsetInputDatasetFacet(inputCondition=folder),
        },
    )


def _assertion(
    pinned: PinnedManifest, claim: str, problems: Sequence[str]
) -> data_quality_assertions_dataset.Assertion:
    return data_quality_assertions_dataset.Assertion(
        assertion=claim,
        success=not problems,
        actual=shorten(problems) if problems else None,
        params={"window": pinned.manifest.window, "manifest": pinned.uri, "sha256": pinned.sha256},
    )


def dataset_name(output: str) -> tuple[str, str]:
    """Namespace and name of the table that a window's folder belongs to.

    :param output: URI of the folder, ``<table>/window=…/attempt=…``.
    """
    parts = urlsplit(_WINDOW.sub("", output), allow_fragments=False)
    path = f"{parts.path}?{parts.query}" if parts.query else parts.path
    scheme = _SAME_SCHEME.get(parts.scheme, parts.scheme)
    namespace = f"{scheme}://{parts.netloc}" if parts.netloc else scheme
    return namespace, path if scheme in _WITH_ROOT else path.strip("/") or "/"
