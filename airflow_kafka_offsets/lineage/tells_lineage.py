"""The mixin that links a task to its window, and reports the window to OpenLineage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_kafka_offsets.lineage.links import WindowLink
from airflow_kafka_offsets.lineage.seen_window import SeenWindow

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage


class TellsLineage:
    """Mixin for operators that set :attr:`seen`: the link leads to that window, and OpenLineage, if installed, receives
    it. A failed task reports what it had seen until it failed."""

    operator_extra_links: Any = (WindowLink(),)
    seen: SeenWindow

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> OperatorLineage[Any, Any]:
        """The topics with their ranges, the output and the proof. Only OpenLineage's listener calls this."""
        from airflow_kafka_offsets.lineage.openlineage_facets import lineage_of

        return lineage_of(getattr(self, "seen", None))
