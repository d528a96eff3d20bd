"""Tries of one task instance: what each notes beside its attempt, so that the next one knows its own."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import file_digest, sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.window_folder import PinnedManifest, WindowFolder
from airflow_kafka_offsets.offsets.proof.publication import Publication
from airflow_kafka_offsets.pipelines.publisher import CountedAttempt, left_to_publish

if TYPE_CHECKING:
    from airflow.sdk import Context

_DECIDES = (
    *("application", "application_args", "conf", "env_vars", "properties_file", "files", "py_files", "_archives"),
    *("jars", "_java_class", "packages", "exclude_packages", "_repositories", "driver_class_path", "allow_gaps"),
)
"""What of an operator's arguments decides which rows its driver writes; not what it runs with, such as memory."""


@dataclass(frozen=True, slots=True)
class Tries:
    """One task instance, and what its driver is given.

    :param instance: as :func:`instance_of` has it.
    :param max_tries: how many it may have: Airflow raises that whenever the task is cleared, and at no other time.
    :param asked: hash of the arguments that decide which rows are written, and of the files here that they name. What
        an earlier try has loaded otherwise, as before the Dag or a file was changed, is no result of this one.
    """

    instance: Mapping[str, Any]
    try_number: int
    max_tries: int
    asked: str

    @classmethod
    def of(cls, context: Context, task: SparkSubmitOperator) -> Self:
        """The tries of the task that runs."""
        ti: Any = context["ti"]
        return cls(instance_of(context), ti.try_number, ti.max_tries, _asked(task))

    def fields(self) -> dict[str, Any]:
        """For the note of an attempt."""
        tried = {**self.instance, "try_number": self.try_number, "max_tries": self.max_tries}
        return {"airflow": tried, "asked": self.asked}

    def counted(self, ledger: Ledger, pinned: PinnedManifest, failed: str | None) -> CountedAttempt | None:
        """What an earlier try has loaded and counted, and died before it published it; None where there is none.

        :param pinned: the revision that this try is about. What an earlier one was of is no load of a window that was
            resolved anew since.
        :param failed: an attempt whose driver failed afterwards.
        """

        def is_meant(folder: WindowFolder, attempt: str) -> bool:
            return attempt != failed and self._is_own(folder.attempt(attempt))

        return left_to_publish(ledger, pinned, is_meant)

    def published(self, folder: WindowFolder, published: Publication) -> str | None:
        """The attempt of an earlier try that published the window, and died before it could say so; None where another
        task has. Whoever clears the task wants the published rows counted again: what was before that isn't meant.

        :param folder: the published revision's.
        """
        noted = folder.attempt(published.attempt)
        own = self._is_own(noted) and noted["airflow"]["max_tries"] == self.max_tries
        return published.attempt if own else None

    def _is_own(self, noted: Mapping[str, Any]) -> bool:
        run = noted.get("airflow") or {}
        return noted.get("asked") == self.asked and self.instance.items() <= run.items()


def instance_of(context: Context) -> dict[str, Any]:
    """Which task instance runs: ``dag_id``, ``run_id``, ``task_id``, and ``map_index``, -1 for no mapped one's."""
    ti: Any = context["ti"]
    index = getattr(ti, "map_index", None)
    of_run = {"dag_id": ti.dag_id, "run_id": ti.run_id, "task_id": ti.task_id}
    return of_run | {"map_index": -1 if index is None else index}


def _asked(task: SparkSubmitOperator) -> str:
    given = {name: getattr(task, name, None) for name in _DECIDES}
    text = json.dumps(given, sort_keys=True, ensure_ascii=False, default=str)
    asked = sha256(text.encode())
    # Named by a text as a whole, or by a part of it: of a list, of a URI, of an option.
    for path in sorted(filter(os.path.isfile, {*text.split('"'), *re.split('[",:#=]', text)})):
        with suppress(OSError), Path(path).open("rb") as file:  # spark-submit says what is wrong with it
            asked.update(f"\n{path} {file_digest(file, 'sha256').hexdigest()}".encode())
    return asked.hexdigest()
