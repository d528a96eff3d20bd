"""Publishes windows that are loaded, proves what is published, and records that in their ledgers."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_kafka_offsets.arguments import HolePolicy
from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.errors import KafkaOffsetsError, UnprovenError, or_error
from airflow_kafka_offsets.hooks.metrics import tell
from airflow_kafka_offsets.ledger import file_lists, load_decisions
from airflow_kafka_offsets.ledger.counted import Counted, left_to_publish, published_counts
from airflow_kafka_offsets.ledger.entries import Published, Verified
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.storage import in_parallel, outcomes
from airflow_kafka_offsets.lineage.task_window import TaskWindow
from airflow_kafka_offsets.offsets.instants import now_ms
from airflow_kafka_offsets.offsets.measures import Measure
from airflow_kafka_offsets.offsets.proof.audit import Verdict
from airflow_kafka_offsets.offsets.proof.run_result import RunResult
from airflow_kafka_offsets.pipelines.attempts import Wanted
from airflow_kafka_offsets.pipelines.loads import by_ledger_of, commit_each, in_turn, publish_each, take_over
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
    """Publishes windows that are loaded, and verifies what is published.

    :param context: the task's.
    :param results: what drivers have handed over, by the hash of its manifest; None if results are in the ledger.
    :param on_hole: the task's argument.
    """

    context: Context
    results: Mapping[str, RunResult] | None
    on_hole: HolePolicy

    def verify(
        self, client: OffsetsClient, windows: Sequence[Wanted]
    ) -> dict[Wanted, VerifiedWindow | KafkaOffsetsError]:
        """Publish what isn't published yet, and verify all that is. One that fails doesn't hold up the others.

        :raises ClusterError: when no broker can be asked.
        """
        found: dict[Wanted, VerifiedWindow | KafkaOffsetsError] = {}
        published: dict[Wanted, Published] = {}
        for some in in_turn(windows):
            for each, outcome in self._published(client, some).items():
                if isinstance(outcome, Published):
                    published[each] = outcome
                else:
                    found[each] = outcome
        # All are published before one is verified: each looks at its neighbours.
        for some in in_turn(list(published)):
            found |= self._verified(client, {each: published[each] for each in some})
        return found

    def _published(
        self, client: OffsetsClient, windows: Sequence[Wanted]
    ) -> dict[Wanted, Published | KafkaOffsetsError]:
        """The publication of each window, also if it isn't published yet; or why there is none."""
        looked = {each: or_error(partial(self._left, client, each)) for each in windows}
        new = publish_each(
            lambda: nullcontext(client), {each: left for each, left in looked.items() if isinstance(left, Counted)}
        )
        for each, outcome in new.items():
            if isinstance(outcome, Published):
                log.info("Window %s is published: %s rows of attempt %s", each.name, outcome.rows, outcome.attempt)
        return {each: left for each, left in looked.items() if not isinstance(left, Counted)} | new

    def _left(self, client: OffsetsClient, wanted: Wanted) -> Published | Counted:
        """The publication; or what is to be published first, as a driver's counts aren't yet.

        :raises UnprovenError: when nothing is published, and nothing can be.
        """
        window = wanted.window
        if window.loaded is not None:
            return window.loaded
        result = (self.results or {}).get(wanted.manifest)
        if result is not None:
            return take_over(client, wanted.ledger, window, result)
        counted = left_to_publish(wanted.ledger, window) if self.results is None else None
        if counted is None:
            raise wanted.unpublished()
        return counted

    def _verified(
        self, client: OffsetsClient, windows: Mapping[Wanted, Published]
    ) -> dict[Wanted, VerifiedWindow | KafkaOffsetsError]:
        """Verify published windows: all verdicts in a ledger are recorded by one commit."""
        counts = outcomes(lambda each: published_counts(each.ledger, each.window, windows[each]), windows)
        loaded = {each: found for each, found in counts.items() if isinstance(found, Counted)}
        failed: dict[Wanted, VerifiedWindow | KafkaOffsetsError] = {
            each: found for each, found in counts.items() if not isinstance(found, Counted)
        }
        # That topics have changed since doesn't affect the verdict: Kafka told the driver after the read that the
        # window came from the resolved ones.
        sources = changed_since_each(
            client, {each: counted.pinned.manifest for each, counted in loaded.items() if counted.window.offsets}
        )
        found = {}
        for each, counted in loaded.items():
            source = sources.get(each)
            if isinstance(source, KafkaOffsetsError):
                failed[each] = source
            else:
                around = Around.of(each.ledger, counted.window)
                found[each] = _Found(counted, windows[each], counted.verdict, around, source)
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


def _correct_lists(ledger: Ledger, found: Sequence[_Found]) -> None:
    # Whoever published may have died before it wrote the list.
    results = {each.loaded.window.name: each.loaded.result for each in found if each.published.verdict is None}
    right = in_parallel(lambda name: file_lists.correct(ledger, name, results[name]), results)
    file_lists.refresh(ledger, {name: results[name] for name, is_so in zip(results, right, strict=True) if not is_so})


def _wish(found: _Found) -> Verified:
    """The verdict, as the ledger keeps it: short, as a checkpoint has those of all windows."""
    return Verified(found.loaded.window.name, found.loaded.attempt.number, {"verdict": str(found.verdict)})


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
