"""Who is told of the window that a task has seen: its link, and OpenLineage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_kafka_offsets.lineage.links import WindowLink
from airflow_kafka_offsets.lineage.seen_window import SeenWindow

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage


class TellsLineage:
    """Mixin of an operator that sets :attr:`seen`: the link to the window leads there, and OpenLineage, where it is
    installed, is told of it. Of a failed task it is told what had been seen by then."""

    operator_extra_links: Any = (WindowLink(),)
    seen: SeenWindow

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> OperatorLineage[Any, Any]:
        """Topics with their ranges, output and proof. Only OpenLineage's listener calls this."""
        from airflow_kafka_offsets.lineage.openlineage_facets import lineage_of

        return lineage_of(getattr(self, "seen", None))
