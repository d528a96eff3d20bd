"""Lineage: a window as OpenLineage datasets. Inputs are topics with their ranges, the output is a table, with checks.

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
from attrs import define
from openlineage.client.event_v2 import InputDataset, OutputDataset
from openlineage.client.facet_v2 import (
    InputDatasetFacet,
    base_subset_dataset,
    data_quality_assertions_dataset,
    output_statistics_output_dataset,
)

from airflow_kafka_offsets.errors import shorten
from airflow_kafka_offsets.ledger.window_folder import PinnedManifest
from airflow_kafka_offsets.lineage.task_window import TaskWindow
from airflow_kafka_offsets.offsets.instants import iso_instant

FACET = "airflowKafkaOffsets_window"
"""Key of our own facet."""
MOST_RANGES = 100
"""Most ranges per topic in the facet: the first non-empty ones. The manifest has all of them."""
_SCHEMA = (
    "https://raw.githubusercontent.com/airflow-kafka-offsets/airflow-kafka-offsets/v0.1.0/docs/reference/openlineage/"
    "1-0-0/AirflowKafkaOffsetsWindowInputDatasetFacet.json#/$defs/AirflowKafkaOffsetsWindowInputDatasetFacet"
)
_SAME_SCHEME = {"": "file", "s3a": "s3", "s3n": "s3"}
_WINDOW = re.compile(r"/window=[^/]+/attempt=[^/]+/?$")
"""A window's folder, at the end of its table's."""
_WITH_ROOT = ("dbfs", "file", "hdfs")
"""Schemes whose dataset names keep the leading slash; names on object stores don't."""


@define
class AirflowKafkaOffsetsWindowInputDatasetFacet(InputDatasetFacet):
    """The offsets of a topic that a run was pinned to.

    :param pipeline: the pipeline's name.
    :param window: the window's name.
    :param revision: the window's revision.
    :param start: its start, inclusive, ISO-8601.
    :param end: its end, exclusive.
    :param manifest: URI of its manifest, which has the ranges of all partitions.
    :param sha256: the manifest's hash, in hex.
    :param clusterId: the cluster that the offsets belong to.
    :param isolationLevel: which records count.
    :param offsets: number of offsets in this topic's ranges.
    :param partitions: number of the topic's partitions with at least one of these offsets.
    :param ranges: ``partition``, ``startOffset`` (inclusive), ``endOffset`` (exclusive); at most :data:`MOST_RANGES`.
    """

    pipeline: str
    window: str
    revision: int
    start: str
    end: str
    manifest: str
    sha256: str
    clusterId: str
    isolationLevel: str
    offsets: int
    partitions: int
    ranges: list[dict[str, int]]

    @staticmethod
    def _get_schema() -> str:
        return _SCHEMA


def lineage_of(seen: TaskWindow | None) -> OperatorLineage[Any, Any]:
    """The lineage for OpenLineage; empty when the task has no window yet, so that OpenLineage uses its inlets and
    outlets."""
    if seen is None:
        return OperatorLineage()
    if seen.verdict is not None:
        return OperatorLineage(inputs=[_checked(seen, output) for output, _ in _outputs(seen)])
    topics = [_topic(seen.bootstrap_servers[0], seen.pinned, topic) for topic in sorted(seen.pinned.manifest.topics)]
    return OperatorLineage(inputs=topics, outputs=[_written(*output) for output in _outputs(seen)])


def _outputs(seen: TaskWindow) -> list[tuple[str, int | None]]:
    """The outputs, with their numbers of rows."""
    found = [(seen.output, seen.rows), *((output.output, output.rows) for output in seen.further)]
    return [(output, rows) for output, rows in found if output is not None]


def _topic(bootstrap_server: str, pinned: PinnedManifest, topic: str) -> InputDataset:
    manifest = pinned.manifest
    ranges = [records for records in manifest.non_empty() if records.topic == topic]
    facet = AirflowKafkaOffsetsWindowInputDatasetFacet(
        pipeline=manifest.pipeline,
        window=manifest.window,
        revision=manifest.revision,
        start=iso_instant(manifest.start_ms),
        end=iso_instant(manifest.end_ms),
        manifest=pinned.uri,
        sha256=pinned.sha256,
        clusterId=manifest.cluster_id,
        isolationLevel=str(manifest.isolation_level),
        offsets=sum(records.span for records in ranges),
        partitions=len(ranges),
        ranges=[
            {"partition": records.partition, "startOffset": records.start_offset, "endOffset": records.end_offset}
            for records in ranges[:MOST_RANGES]
        ],
    )
    return InputDataset(namespace=f"kafka://{bootstrap_server}", name=topic, inputFacets={FACET: facet})


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
    assert seen.verdict is not None and seen.tiling is not None
    namespace, name = dataset_name(output)
    folder = base_subset_dataset.LocationSubsetCondition(locations=[output])
    found = {
        "read_is_manifest": seen.verdict.read_problems,
        "written_is_read": seen.verdict.written_problems,
        "window_tiles": seen.tiling.problems,
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
