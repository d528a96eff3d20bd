"""A window without offsets: there is nothing to read, and nothing to write, so no job is needed to load it (S6)."""

from __future__ import annotations

from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.window_folder import PinnedManifest
from airflow_kafka_offsets.offsets.instants import now_ms
from airflow_kafka_offsets.offsets.proof.publication import NO_SINK
from airflow_kafka_offsets.offsets.proof.run_result import RunResult, Tally
from airflow_kafka_offsets.pipelines.publisher import CountedAttempt, store_result


def needs_no_job(pinned: PinnedManifest) -> bool:
    """Whether a window has no offsets, and never had any: then no output can hold rows of it.

    A later revision may take the place of one that had offsets. Rows of that one may be in a table, also if nobody has
    published them, and only a job can remove them.
    """
    return not pinned.manifest.span and pinned.manifest.revision == 1


def count_nothing(ledger: Ledger, pinned: PinnedManifest, attempt: str, *, allow_gaps: bool) -> CountedAttempt:
    """Store the counts of a recorded attempt at such a window: nothing was read, and nothing was written."""
    result = RunResult(
        attempt=attempt,
        manifest_sha256=pinned.sha256,
        application_id=None,
        output=None,
        sink=NO_SINK,
        apart=True,
        read=Tally(),
        written=(),
        seconds=0.0,
        started_ms=now_ms(),
        allow_gaps=allow_gaps,
    )
    return store_result(ledger, pinned, result)
