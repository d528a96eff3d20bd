"""Prove windows: read = written = log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NoReturn, get_args

from airflow.providers.common.compat.sdk import AirflowFailException, BaseOperator, conf

from airflow_kafka_offsets.arguments import HolePolicy, as_milliseconds, check_choice
from airflow_kafka_offsets.compat.airflow_versions import deferral_timeout
from airflow_kafka_offsets.errors import CommitConflictError, ConfigurationError, KafkaOffsetsError, UnprovenError
from airflow_kafka_offsets.ledger.storage import outcomes
from airflow_kafka_offsets.lineage.links import TellsLineage
from airflow_kafka_offsets.lineage.task_window import note_outlets
from airflow_kafka_offsets.offsets.instants import duration_text, now_ms
from airflow_kafka_offsets.offsets.proof.run_result import RunResult
from airflow_kafka_offsets.operators import failing_fast
from airflow_kafka_offsets.operators.verified_windows import VerifiedWindow, Verifier
from airflow_kafka_offsets.pipelines.attempts import Wanted
from airflow_kafka_offsets.pipelines.loads import handed_over
from airflow_kafka_offsets.references import WindowRef, WindowRefs
from airflow_kafka_offsets.submission.prepared_load import PreparedLoad
from airflow_kafka_offsets.triggers.ledger_looks import KafkaWindowLoadedTrigger, is_loaded

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

    Offsets without a record pass if the load was given ``allow_gaps``, and on compacted topics.
    ``KafkaAuditTableOperator`` says what each of them is.

    :param window: what ``KafkaResolveWindowOperator`` returned; or a list of it, of one Kafka connection. Each window
        is verified, whatever becomes of the others. (templated)
    :param result: what ``PinnedWindow.write(...)`` returned, as JSON (``.to_json()``), if the driver can't reach the
        ledger, such as a Spark Connect client, or a list of it; by default the result in the ledger. (templated)
    :param load: what ``KafkaPrepareLoadOperator`` returned, if it prepared the load. A failure that a driver recorded
        then fails the try, once all drivers that started have ended, or fails the task if a retry can't help.
        (templated)
    :param on_hole: what to do about a hole that this window answers for: ``fail`` (default), naming it and the command
        that loads it, so that a retry succeeds once it is pinned; or ``warn``.
    :param deferrable: wait on the triggerer for a window that isn't loaded yet, because its load runs elsewhere;
        default ``[operators] default_deferrable``. Without it, such a window fails the task.
    :param poke_interval: time between checks of the ledger, a timedelta or seconds.
    :param timeout: longest wait, a timedelta or seconds; then the task fails without retries. None waits forever.

    XCom: ``{"window", "attempt", "output", "outputs", "rows", "offsets", "lost", "read", "written", "gaps", "verdict",
    "source", "tiling"}``; ``source`` is ``"unchanged"``, or how the topics have changed since they were loaded. Of a
    list of windows, a list of that, in the order given.
    """

    template_fields: Sequence[str] = ("window", "result", "load")
    ui_color = "#e8f4e0"

    def __init__(
        self,
        *,
        window: Any,
        result: Any = None,
        load: Any = None,
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
        """Verify the windows that are loaded, and wait for the others.

        :param until_ms: when a wait that has already begun ends, Unix milliseconds; None when none has, or it has no
            end.
        """
        windows = dict(zip(refs.wanted(), refs.refs, strict=True))
        attempts = self._attempts(windows)
        waits = self.result is None and (self.deferrable or self.load is not None)
        verifier = Verifier(context, self._results(), self.on_hole)
        found: dict[Wanted, VerifiedWindow | KafkaOffsetsError] = {}
        left = list(windows)
        for _ in range(2):  # a driver may end meanwhile, or another attempt begin whose rows replace those to publish
            with refs.hook().get_conn() as client:
                found |= verifier.verify(client, left)
            left = [each for each in left if isinstance(found[each], UnprovenError | CommitConflictError)]
            left = [each for each in left if waits and each.window.loaded is None]
            looked = outcomes(lambda each: _is_loaded(each, windows[each], attempts), left)
            late = [each for each, there in looked.items() if there is False]
            if late and self.deferrable:
                last = max(late, key=lambda each: each.name)  # drivers load windows in order of time
                self._wait(windows[last], attempts.get(last), until_ms)
            found |= {each: there for each, there in looked.items() if isinstance(there, KafkaOffsetsError)}
            left = [each for each, there in looked.items() if there is True]
            if not left:
                break
        return self._report(context, refs, [found[each] for each in windows])

    def _attempts(self, windows: Mapping[Wanted, WindowRef]) -> dict[Wanted, int | None]:
        """The attempt of the prepared load at each window, if there is such a load; None where it couldn't begin one.

        :raises ConfigurationError: when it is for other windows.
        """
        if self.load is None:
            return {}
        prepared = PreparedLoad.from_json(self.load)
        numbers = {ref.identity: number for ref, number in zip(prepared.refs.refs, prepared.attempts, strict=True)}
        other = next((ref for ref in windows.values() if ref.identity not in numbers), None)
        if other is not None:
            first = prepared.refs.refs[0]
            raise ConfigurationError(
                f"load= is for window {first.window} of {first.pipeline}, but window= is {other.window} of "
                f"{other.pipeline}: give both from the same run."
            )
        return {each: numbers[ref.identity] for each, ref in windows.items()}

    def _results(self) -> dict[str, RunResult] | None:
        """What drivers have handed over, by the hash of its manifest; None if results are in the ledger."""
        if self.result is None:
            return None
        given = [self.result] if isinstance(self.result, Mapping) else self.result
        results = [handed_over(each, "result=") for each in given]
        return {each.manifest_sha256: each for each in results}

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

    def _report(self, context: Context, refs: WindowRefs, found: Sequence[VerifiedWindow | KafkaOffsetsError]) -> Any:
        """The XCom of all windows, if none has failed."""
        verified = [each for each in found if isinstance(each, VerifiedWindow)]
        self.seen = tuple(each.seen for each in verified)
        refs.raise_failed([each.failure if isinstance(each, VerifiedWindow) else each for each in found])
        reports = [each.report for each in verified]
        note_outlets(self, context, refs, reports)
        return refs.of(reports)


def _is_loaded(wanted: Wanted, ref: WindowRef, attempts: Mapping[Wanted, int | None]) -> bool:
    """Whether a window is published, or can be; raises if waiting can't help."""
    attempt = attempts.get(wanted)
    found = is_loaded(ref, wanted.ledger, attempt)
    if attempts and attempt is None and not found:
        raise UnprovenError(
            f"Window {ref.window} couldn't be loaded: the log of the task that prepared the load says why. Clear that "
            "task."
        )
    return found
