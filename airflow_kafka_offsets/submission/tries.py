"""Tries of one task instance: what each notes beside its attempt, so that the next one knows its own."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.window_folder import PinnedManifest, WindowState
from airflow_kafka_offsets.offsets.proof.publication import counts_over
from airflow_kafka_offsets.pipelines.publisher import CountedAttempt, proved_attempts

if TYPE_CHECKING:
    from airflow.sdk import Context


@dataclass(frozen=True, slots=True)
class Tries:
    """One task instance, and what its application is given.

    :param dag_id: the Dag.
    :param run_id: its run.
    :param task_id: the task.
    :param map_index: which of a mapped task's; -1 for another one.
    :param try_number: which try this is.
    :param asked: hash of the application, its content where it is a file here, its arguments and its confs. What an
        earlier try has loaded otherwise, as before the Dag was changed, is no result of this one.
    """

    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    try_number: int
    asked: str

    @classmethod
    def of(
        cls, context: Context, application: str, arguments: Sequence[Any] | None, conf: Mapping[str, Any] | None
    ) -> Self:
        """The tries of the task that runs."""
        ti: Any = context["ti"]
        given = json.dumps(
            [application, _content_hash(application), arguments or [], conf or {}], sort_keys=True, default=str
        )
        asked = sha256(given.encode()).hexdigest()
        map_index = getattr(ti, "map_index", None)
        return cls(ti.dag_id, ti.run_id, ti.task_id, -1 if map_index is None else map_index, ti.try_number, asked)

    def fields(self) -> dict[str, Any]:
        """For the note of an attempt."""
        return {"airflow": self._instance() | {"try_number": self.try_number}, "asked": self.asked}

    def counted(self, ledger: Ledger, pinned: PinnedManifest, failed: str | None) -> CountedAttempt | None:
        """What an earlier try has loaded and counted, and died before it published it; None where there is none.

        :param pinned: the revision that this try is about. What an earlier one was of is no load of a window that was
            resolved anew since.
        :param failed: an attempt whose driver failed afterwards.
        """
        found: list[CountedAttempt] = []
        for folder in ledger.window_folders.live(pinned.manifest.window):
            revision = folder.pinned()
            if revision is None:  # a crash left it without a manifest, or it was taken back
                continue
            proved = (each for each in proved_attempts(ledger, revision) if each.result.attempt != failed)
            own = (each for each in proved if self._is_own(folder.attempt(each.result.attempt)))
            found += [each for each in own if _counts_over(each, pinned)]
        # Of revisions of one window the first has most; in a table the last one's rows have taken its place.
        return next((each for each in found if each.result.apart), found[-1] if found else None)

    def published(self, ledger: Ledger, window: str) -> str | None:
        """The attempt of an earlier try that published the window, and died before it could say so; None where there is
        none. Once the window is verified, whoever clears the task wants its rows counted again."""
        folder = ledger.window_folders.published(window)
        if folder is None or folder.listing().state is not WindowState.PUBLISHED:
            return None
        published, _ = folder.published_result()
        return published.attempt if self._is_own(folder.attempt(published.attempt)) else None

    def _is_own(self, noted: Mapping[str, Any]) -> bool:
        run = noted.get("airflow") or {}
        return noted.get("asked") == self.asked and self._instance().items() <= run.items()

    def _instance(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("dag_id", "run_id", "task_id", "map_index")}


def _content_hash(application: str) -> str | None:
    file = Path(application.removeprefix("file://"))
    return sha256(file.read_bytes()).hexdigest() if file.is_file() else None


def _counts_over(counted: CountedAttempt, pinned: PinnedManifest) -> bool:
    """Whether what an attempt would publish goes on counting beside a revision."""
    return counts_over(counted.publication(1, None), pinned.manifest, apart=counted.result.apart)
