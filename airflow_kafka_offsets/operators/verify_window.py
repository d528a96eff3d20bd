"""Prove windows: read = written = log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, get_args

from airflow.providers.common.compat.sdk import AirflowFailException, BaseOperator, conf

from airflow_kafka_offsets.arguments import as_milliseconds, check_choice
from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.compat.airflow_versions import deferral_timeout
from airflow_kafka_offsets.errors import (
    CommitConflictError,
    ConfigurationError,
    FailedWindow,
    KafkaOffsetsError,
    UnprovenError,
    WindowsFailedError,
    or_error,
)
from airflow_kafka_offsets.ledger.counted import Counted, left_to_publish
from airflow_kafka_offsets.ledger.entries import Published
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.storage import in_parallel, outcomes
from airflow_kafka_offsets.lineage.links import TellsLineage
from airflow_kafka_offsets.lineage.task_window import note_outlets
from airflow_kafka_offsets.offsets.instants import duration_text, now_ms
from airflow_kafka_offsets.offsets.proof.run_result import RunResult
from airflow_kafka_offsets.offsets.windows.policies import HolePolicy
from airflow_kafka_offsets.operators.pipeline_operator import failing_fast
from airflow_kafka_offsets.operators.verified_windows import VerifiedWindow, Verifier
from airflow_kafka_offsets.pipelines.attempts import Wanted
from airflow_kafka_offsets.pipelines.loads import (
    handed_over,
    in_turn,
    publish_each,
    take_over,
)
from airflow_kafka_offsets.references.window_ref import WindowRef, WindowRefs
from airflow_kafka_offsets.submission.prepared_load import PreparedLoad
from airflow_kafka_offsets.triggers.window_loaded import KafkaWindowLoadedTrigger, is_loaded

if TYPE_CHECKING:
    from airflow.sdk import Context


class KafkaVerifyWindowOperator(TellsLineage, BaseOperator):
    """
    Publishes a loaded window, unless it is published already; checks the published attempt against the manifest, and
    looks for holes beside the window.

    ``KafkaSparkSubmitOperator`` publishes what it loads. If something else submits Spark (the classic operator,
    ``@task.pyspark``, a notebook), this operator publishes: after the driver has counted, the counts are proved, and
    Kafka has confirmed that the topics are still those that were resolved.

    It proves three claims: the rows read fit the manifest; the rows written are the rows read; and the window meets
    the nearest published windows on both sides. The verdict is recorded in the ledger.

    Offsets between two windows that no window has are a hole. A window answers for the holes that it skipped when it
    was pinned: from the last window that was there before it. A window that was pinned when a later one was there fills
    a hole itself, and answers for none. Neither does one of a backfill, whose runs pin their windows in any order:
    Airflow shows those that fail. What no window answers for is logged, and so is what is pinned, but not loaded yet.

    Offsets without a record pass if the load was given ``allow_gaps``, and on compacted topics. ``explain_gaps``
    explains them: it reads the log again, with all its bytes, where rows are missing. The number of written rows must
    equal the number of records there; all other offsets must be markers, aborted or compacted records.

    :param window: what ``KafkaResolveWindowOperator`` returned; or a list of it, of one Kafka connection. Each window
        is verified, whatever becomes of the others. (templated)
    :param result: what ``PinnedWindow.write(...)`` returned, as JSON (``.to_json()``), if the driver can't reach the
        ledger, such as a Spark Connect client, or a list of it; by default the result in the ledger. (templated)
    :param load: what ``KafkaPrepareLoadOperator`` returned, if it prepared the load. A failure that a driver recorded
        then fails the try, once all drivers that started have ended, or fails the task if a retry can't help.
        (templated)
    :param explain_gaps: explain offsets without a record from the log, or fail. Needs the ACL Read on the topics, and
        must run before retention reaches the window.
    :param on_hole: what to do about a hole that this window answers for: ``fail`` (default), naming it and the command
        that loads it, so that a retry succeeds once it is pinned; or ``warn``.
    :param deferrable: wait on the triggerer for a window that isn't loaded yet, because its load runs elsewhere;
        default ``[operators] default_deferrable``. Without it, such a window fails the task.
    :param poke_interval: time between checks of the ledger, a timedelta or seconds.
    :param timeout: longest wait, a timedelta or seconds; then the task fails without retries. None waits forever.

    XCom: ``{"window", "attempt", "output", "outputs", "rows", "offsets", "lost", "read", "written", "gaps",
    "explained", "verdict", "source", "tiling"}``; ``source`` is ``"unchanged"``, or how the topics have changed since
    they were loaded; ``explained`` is ``{"markers", "aborted", "compacted", "removed_since"}``, or ``None`` without
    ``explain_gaps``. Of a list of windows, a list of that, in the order given.
    """

    template_fields: Sequence[str] = ("window", "result", "load")
    ui_color = "#e8f4e0"

    def __init__(
        self,
        *,
        window: Any,
        result: Any = None,
        load: Any = None,
        explain_gaps: bool = False,
        on_hole: HolePolicy = "fail",
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        poke_interval: timedelta | float = 60,
        timeout: timedelta | float | None = timedelta(days=7),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.window = window
        self.result = result
        self.load = load
        self.explain_gaps = explain_gaps
        self.on_hole = on_hole
        self.deferrable = deferrable
        self.poke_interval = poke_interval
        self.timeout = timeout
        WindowRef.check(window)
        check_choice("on_hole", on_hole, *get_args(HolePolicy))
        as_milliseconds(poke_interval, "poke_interval")
        as_milliseconds(timeout, "timeout")

    @failing_fast()
    def execute(self, context: Context) -> Any:
        """Verify the windows, after waiting for them if necessary; fail unless they are proved."""
        refs = WindowRefs.from_json(self.window)
        if not refs.refs:
            self.log.info("There are no windows to verify")
            return []
        return self._verify_loaded(context, refs, None)

    def _verify_loaded(self, context: Context, refs: WindowRefs, until_ms: int | None) -> Any:
        """Verify the windows that are loaded, or wait for them. Wait too if verifying fails because another attempt has
        begun meanwhile, whose rows replace the ones to publish.

        :param until_ms: when a wait that has already begun ends, Unix milliseconds; None when none has, or it has no
            end.
        """
        windows = {
            Wanted(ledger, ref.window, ref.sha256): ref for ref, ledger in zip(refs.refs, refs.ledgers(), strict=True)
        }
        attempts = self._attempts(refs)
        failed = self._wait_unless_loaded(refs, windows, attempts, until_ms)
        outcomes = self._verify(refs, windows, failed, context)
        again = {
            each: ref
            for each, ref in windows.items()
            if each not in failed and isinstance(outcomes[each], UnprovenError | CommitConflictError)
        }
        if again:
            in_parallel(Ledger.read, dict.fromkeys(each.ledger for each in again))
            outcomes |= self._wait_unless_loaded(refs, again, attempts, until_ms)
        return self._report(context, refs, [outcomes[each] for each in windows])

    def _attempts(self, refs: WindowRefs) -> dict[WindowRef, int | None] | None:
        """The attempt of the prepared load at each window; None when there is no such load."""
        if self.load is None:
            return None
        prepared = PreparedLoad.from_json(self.load)
        numbers = {ref.identity: number for ref, number in zip(prepared.refs.refs, prepared.attempts, strict=True)}
        other = next((ref for ref in refs.refs if ref.identity not in numbers), None)
        if other is not None:
            first = prepared.refs.refs[0]
            raise ConfigurationError(
                f"load= is for window {first.window} of {first.pipeline}, but window= is {other.window} of "
                f"{other.pipeline}: give both from the same run."
            )
        return {ref: numbers[ref.identity] for ref in refs.refs}

    def _wait_unless_loaded(
        self,
        refs: WindowRefs,
        windows: Mapping[Wanted, WindowRef],
        attempts: Mapping[WindowRef, int | None] | None,
        until_ms: int | None,
    ) -> dict[Wanted, KafkaOffsetsError]:
        """Wait if nothing of a window is published, and nothing can be.

        :returns: why waiting for a window can't help.
        :raises: the same, if it is the only one.
        """
        if self.result is not None or not (self.deferrable or attempts is not None):
            return {}
        looked = outcomes(lambda each: _is_loaded(each, windows[each], attempts), windows)
        late = [windows[each] for each, found in looked.items() if found is False]
        if late and self.deferrable:
            loaded = [each for each, found in looked.items() if found is True]
            self._publish_early(refs, {each: windows[each] for each in loaded if each.window.loaded is None})
            # Drivers load windows in order of time.
            last = max(late, key=lambda ref: ref.window)
            self._wait(last, None if attempts is None else attempts[last], until_ms)
        failed = {each: found for each, found in looked.items() if isinstance(found, KafkaOffsetsError)}
        if failed and not refs.is_list:
            raise next(iter(failed.values()))
        return failed

    def _wait(self, ref: WindowRef, attempt: int | None, until_ms: int | None) -> NoReturn:
        longest = self._longest_wait()
        if until_ms is not None:
            longest = timedelta(milliseconds=until_ms - now_ms())
            if longest <= timedelta(0):
                raise AirflowFailException(self._took_too_long())
        elif longest is not None:
            until_ms = now_ms() + longest // timedelta(milliseconds=1)
        self.defer(
            trigger=KafkaWindowLoadedTrigger(
                window=ref.to_json(),
                poll_interval_s=(as_milliseconds(self.poke_interval, "poke_interval") or 0) / 1000,
                attempt=attempt,
            ),
            method_name="execute_complete",
            kwargs={"until_ms": until_ms},
            timeout=longest,
        )

    def _longest_wait(self) -> timedelta | None:
        timeout_ms = as_milliseconds(self.timeout, "timeout")
        return None if timeout_ms is None else timedelta(milliseconds=timeout_ms)

    @failing_fast()
    def execute_complete(self, context: Context, event: Mapping[str, Any], until_ms: int | None = None) -> Any:
        """Check again, because a driver may have started since the trigger's check. A retriable failure that the
        trigger reported fails the try only if it still holds; of a list of windows, the others are verified first.

        :param until_ms: when the wait ends, Unix milliseconds; None when it has no end.
        """
        refs = WindowRefs.from_json(self.window)
        if event.get("status") != "done" and not event.get("retriable") and not (refs.is_list and "message" in event):
            raise AirflowFailException(
                event.get("message") or f"The trigger sent an unexpected event, {event!r}: clear the task."
            )
        return self._verify_loaded(context, refs, until_ms)

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context) -> Any:
        """Name the window that the task waited for when the wait times out."""
        try:
            return super().resume_execution(next_method, next_kwargs, context)
        except deferral_timeout() as error:
            raise AirflowFailException(self._took_too_long()) from error

    def _took_too_long(self) -> str:
        refs, longest = WindowRefs.from_json(self.window).refs, self._longest_wait()
        window = refs[0].window if len(refs) == 1 else f"{refs[0].window} or another one of {len(refs)}"
        within = "its time" if longest is None else duration_text(longest.total_seconds())
        return (
            f"Window {window} was not loaded within {within}: find out what happened to its load, then clear this task."
        )

    def _verify(
        self,
        refs: WindowRefs,
        windows: Mapping[Wanted, WindowRef],
        failed: Mapping[Wanted, KafkaOffsetsError],
        context: Context,
    ) -> dict[Wanted, VerifiedWindow | KafkaOffsetsError]:
        """Publish what isn't published yet, and verify all that is."""
        outcomes: dict[Wanted, VerifiedWindow | KafkaOffsetsError] = dict(failed)
        verifier = Verifier(context, self.explain_gaps, self.on_hole)
        with refs.hook().get_conn() as client:
            found = self._publish(client, {each: ref for each, ref in windows.items() if each not in failed})
            outcomes |= {each: why for each, why in found.items() if isinstance(why, KafkaOffsetsError)}
            # All are published before one is verified: each looks at its neighbours.
            published = {each: outcome for each, outcome in found.items() if isinstance(outcome, Published)}
            for some in in_turn(list(published)):
                outcomes |= verifier.verify(client, {each: published[each] for each in some})
        return outcomes

    def _publish_early(self, refs: WindowRefs, windows: Mapping[Wanted, WindowRef]) -> None:
        """Publish windows that need not wait for others. What can't be, is told after the wait."""
        if windows:
            with suppress(KafkaOffsetsError), refs.hook().get_conn() as client:
                self._publish(client, windows)

    def _publish(
        self, client: OffsetsClient, windows: Mapping[Wanted, WindowRef]
    ) -> dict[Wanted, Published | KafkaOffsetsError]:
        """The publication of each window, also if it isn't published yet; or why there is none."""
        found: dict[Wanted, Published | KafkaOffsetsError] = {}
        results = None if self.result is None else self._handed_over()
        for some in in_turn(list(windows)):
            looked = {each: or_error(partial(_left, client, each, windows[each], results)) for each in some}
            left = {each: counted for each, counted in looked.items() if isinstance(counted, Counted)}
            new = publish_each(lambda: nullcontext(client), left)
            for each, outcome in new.items():
                if isinstance(outcome, Published):
                    rows, number = outcome.rows, outcome.attempt
                    self.log.info("Window %s is published: %s rows of attempt %s", each.name, rows, number)
            found |= {each: why for each, why in looked.items() if not isinstance(why, Counted)} | new
        return found

    def _handed_over(self) -> dict[str, RunResult]:
        """What drivers have handed over, by the hash of its manifest."""
        given = [self.result] if isinstance(self.result, Mapping) else self.result
        results = [handed_over(each, "result=") for each in given]
        return {each.manifest_sha256: each for each in results}

    def _report(
        self, context: Context, refs: WindowRefs, outcomes: Sequence[VerifiedWindow | KafkaOffsetsError]
    ) -> Any:
        """The XCom of all windows, if none has failed."""
        verified = [each for each in outcomes if isinstance(each, VerifiedWindow)]
        self.seen = tuple(each.seen for each in verified)
        why = [each.failure if isinstance(each, VerifiedWindow) else each for each in outcomes]
        failed = [
            FailedWindow(ref.window, ref.pipeline, error)
            for ref, error in zip(refs.refs, why, strict=True)
            if error is not None
        ]
        if failed and not refs.is_list:
            raise failed[0].error
        if failed:
            raise WindowsFailedError(failed, len(refs.refs))
        reports = [each.report for each in verified]
        note_outlets(self, context, refs, reports)
        return refs.of(reports)


def _is_loaded(wanted: Wanted, ref: WindowRef, attempts: Mapping[WindowRef, int | None] | None) -> bool:
    """Whether a window is published, or can be; raises if waiting can't help."""
    attempt = None if attempts is None else attempts[ref]
    found = is_loaded(ref, wanted.ledger, attempt)
    if attempts is not None and attempt is None and not found:
        raise UnprovenError(
            f"Window {ref.window} couldn't be loaded: the log of the task that prepared the load says why. Clear that "
            "task."
        )
    return found


def _left(
    client: OffsetsClient, wanted: Wanted, ref: WindowRef, results: Mapping[str, RunResult] | None
) -> Published | Counted:
    """The publication; or what is to be published first, as a driver's counts aren't yet.

    :raises UnprovenError: when nothing is published, and nothing can be.
    """
    window = wanted.window
    if window.loaded is not None:
        return window.loaded
    result = None if results is None else results.get(ref.sha256)
    if result is not None:
        return take_over(client, wanted.ledger, window, result)
    counted = left_to_publish(wanted.ledger, window) if results is None else None
    if counted is None:
        raise ref.unpublished(window)
    return counted
