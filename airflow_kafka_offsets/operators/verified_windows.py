"""What verify proves of published windows, and records in their ledgers."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.errors import KafkaOffsetsError, UnprovenError, or_error
from airflow_kafka_offsets.hooks.metrics import tell
from airflow_kafka_offsets.ledger import file_lists, load_decisions
from airflow_kafka_offsets.ledger.counted import Counted, published_counts
from airflow_kafka_offsets.ledger.entries import Published, Verified
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.storage import in_parallel, outcomes
from airflow_kafka_offsets.lineage.task_window import TaskWindow
from airflow_kafka_offsets.offsets.answers.records import GapCauses, LogContents
from airflow_kafka_offsets.offsets.instants import now_ms
from airflow_kafka_offsets.offsets.measures import Measure
from airflow_kafka_offsets.offsets.proof.audit import Verdict, explain, ranges_with_gaps
from airflow_kafka_offsets.offsets.windows.policies import HolePolicy
from airflow_kafka_offsets.offsets.windows.topic_identity import check_topics
from airflow_kafka_offsets.pipelines.attempts import Wanted
from airflow_kafka_offsets.pipelines.loads import by_ledger_of, commit_each
from airflow_kafka_offsets.pipelines.log_changes import changed_since_each
from airflow_kafka_offsets.runs.around import Around, is_backfill, refusal

if TYPE_CHECKING:
    from airflow.sdk import Context

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class VerifiedWindow:
    """What was found of a published window; short, as there may be a thousand.

    :param report: the XCom.
    :param seen: for links and lineage, also if it isn't proved.
    :param failure: why it can't be verified; None if it is.
    """

    report: Mapping[str, Any]
    seen: TaskWindow
    failure: KafkaOffsetsError | None


@dataclass(frozen=True, slots=True)
class _Found:
    """What was found of a published window, before it is recorded."""

    loaded: Counted
    published: Published
    verdict: Verdict
    around: Around
    source: str | None


@dataclass(frozen=True, slots=True)
class Verifier:
    """Verifies published windows.

    :param context: the task's.
    :param explain_gaps, on_hole: the task's arguments.
    """

    context: Context
    explain_gaps: bool
    on_hole: HolePolicy

    def verify(
        self, client: OffsetsClient, windows: Mapping[Wanted, Published]
    ) -> dict[Wanted, VerifiedWindow | KafkaOffsetsError]:
        """Verify windows: all verdicts in a ledger are recorded by one commit. One that fails doesn't hold up the
        others.

        :raises ClusterError: when no broker can be asked.
        """
        counts = outcomes(lambda each: published_counts(each.ledger, each.window, windows[each]), windows)
        loaded = {each: found for each, found in counts.items() if isinstance(found, Counted)}
        failed: dict[Wanted, VerifiedWindow | KafkaOffsetsError] = {
            each: found for each, found in counts.items() if not isinstance(found, Counted)
        }
        sources, found = _sources(client, loaded), {}
        for each, counted in loaded.items():
            verdict = or_error(partial(self._explained, client, counted))
            source = sources.get(each)
            if isinstance(verdict, KafkaOffsetsError):
                failed[each] = verdict
            elif isinstance(source, KafkaOffsetsError):
                failed[each] = source
            else:
                around = Around.of(each.ledger, counted.window)
                found[each] = _Found(counted, windows[each], verdict, around, source)
        return failed | self._recorded(found)

    def _recorded(self, found: Mapping[Wanted, _Found]) -> dict[Wanted, VerifiedWindow]:
        """Record the verdicts on the windows that are proved."""
        failures = {each: or_error(partial(self._refuse, each, what)) for each, what in found.items()}
        good = {each: what for each, what in found.items() if failures[each] is None}
        by_ledger = by_ledger_of(good)
        in_parallel(lambda ledger: _correct_lists(ledger, [good[each] for each in by_ledger[ledger]]), by_ledger)
        wishes = {each: partial(load_decisions.record_verdict, wish=_wish(what)) for each, what in good.items()}
        failures |= commit_each({each: (each.ledger, wish) for each, wish in wishes.items()})
        return {each: self._outcome(each, what, failures[each]) for each, what in found.items()}

    def _refuse(self, wanted: Wanted, found: _Found) -> None:
        """Refuse a window that isn't proved, or that comes after a hole."""
        if not found.verdict.proved:
            raise UnprovenError(
                f"Window {wanted.name} isn't proved: {found.verdict}. It stays published until it is loaded again: run "
                f"kafka-offsets ledger reload {wanted.ledger.pipeline} {wanted.name}, which names the command that "
                "clears its run."
            )
        if found.source:
            log.warning(
                "Window %s was read from the topics that were resolved, as Kafka confirmed to the driver. They have "
                "changed since: %s",
                wanted.name,
                found.source,
            )
        for line in found.around.told():
            log.warning("Window %s: %s", wanted.name, line)
        if found.around.skipped and self.on_hole == "fail" and not is_backfill(self.context):
            raise refusal(self.context, found.loaded.attempt.who, wanted.name, found.around.skipped)

    def _outcome(self, wanted: Wanted, found: _Found, failure: KafkaOffsetsError | None) -> VerifiedWindow:
        loaded, published, verdict, around = found.loaded, found.published, found.verdict, found.around
        seen = TaskWindow.of(loaded.pinned, outputs=published.outputs, verdict=verdict, holes=around.holes)
        report = _report(loaded, published, verdict)
        report |= {"source": found.source or "unchanged", "tiling": str(around)}
        if failure is None:
            rows = "" if loaded.result.derived else f", {published.rows} rows"  # for a job, the verdict has them
            log.info("Window %s: %s%s; %s", wanted.name, verdict, rows, around)
            tell(_measures(loaded))
        return VerifiedWindow(report, seen, failure)

    def _explained(self, client: OffsetsClient, loaded: Counted) -> Verdict:
        """The verdict, with its gaps explained from the logs if ``explain_gaps`` is set and the window is proved."""
        verdict = loaded.verdict
        if not self.explain_gaps or not verdict.proved:
            return verdict
        manifest = loaded.pinned.manifest
        ranges = ranges_with_gaps(manifest, loaded.result, loaded.attempt.lost)
        if not ranges:
            return replace(verdict, explained=GapCauses())
        span = sum(gaps.end_offset - gaps.start_offset for gaps in ranges)
        log.info("Explaining %s gaps: reading %s offsets in %s partitions", verdict.gaps, span, len(ranges))
        topics = client.topic_facts(sorted(manifest.topics))
        check_topics(manifest, client.cluster_id(), topics)
        contents = client.log_contents(ranges, isolation_level=manifest.isolation_level)
        LogContents(content for content in contents if not content.is_gone).raise_for_errors()
        facts = (*manifest.topics.values(), *topics.values())
        causes, problems = explain(loaded.result, contents, {topic.topic for topic in facts if topic.compacted})
        return replace(verdict, explained=causes, read_problems=problems)


def _sources(client: OffsetsClient, loaded: Mapping[Wanted, Counted]) -> dict[Wanted, str | KafkaOffsetsError | None]:
    """How the topics of windows with offsets have changed since they were loaded; None if they haven't. This doesn't
    affect the verdict: Kafka told the driver after the read that the window came from the resolved topics."""
    manifests = {each: counted.pinned.manifest for each, counted in loaded.items() if counted.window.offsets}
    return changed_since_each(client, manifests)


def _correct_lists(ledger: Ledger, found: Sequence[_Found]) -> None:
    # Whoever published may have died before it wrote the list.
    results = {each.loaded.window.name: each.loaded.result for each in found if each.published.verdict is None}
    right = in_parallel(lambda name: file_lists.correct(ledger, name, results[name]), results)
    file_lists.refresh(ledger, {name: results[name] for name, is_so in zip(results, right, strict=True) if not is_so})


def _wish(found: _Found) -> Verified:
    return Verified(found.loaded.window.name, found.loaded.attempt.number, _stored(found.verdict))


def _stored(verdict: Verdict) -> dict[str, Any]:
    """The verdict, as the ledger keeps it: short, as a checkpoint has those of all windows."""
    explained = {} if verdict.explained is None else {"explained": asdict(verdict.explained)}
    return {"verdict": str(verdict)} | explained


def _report(loaded: Counted, published: Published, verdict: Verdict) -> dict[str, Any]:
    result = loaded.result
    return {
        "window": loaded.window.name,
        "attempt": published.attempt,
        "output": published.output,
        "outputs": [each._asdict() for each in published.outputs],
        "rows": published.rows,
        "offsets": loaded.window.offsets,
        "lost": verdict.lost,
        "read": result.read.count,
        "written": result.rows_written,
        "gaps": verdict.gaps,
        "explained": None if verdict.explained is None else asdict(verdict.explained),
        "verdict": str(verdict),
    }


def _measures(loaded: Counted) -> Iterator[Measure]:
    """How large the window is, how long its load took, and how long ago it ended."""
    manifest, result = loaded.pinned.manifest, loaded.result
    tags = {"pipeline": manifest.pipeline}
    yield Measure("window_records", result.records, tags)
    yield Measure("window_seconds", result.seconds, tags)
    if manifest.timed:
        yield Measure("window_age", (now_ms() - manifest.end_ms) / 1000, tags)
