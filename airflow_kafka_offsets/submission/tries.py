"""Tries of one task instance: what each try notes with its attempt, so that the next one recognizes its own."""

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
"""The operator's arguments that decide which rows its driver writes; not those that decide how it runs, such as
memory."""


@dataclass(frozen=True, slots=True)
class Tries:
    """One task instance, and what its driver is given.

    :param instance: see :func:`instance_of`.
    :param max_tries: how many tries it may have: Airflow raises this whenever the task is cleared, and at no other
        time.
    :param asked: hash of the arguments that decide which rows are written, and of the local files that they name. What
        an earlier try loaded with another hash, from before the Dag or a file was changed, isn't this try's result.
    """

    instance: Mapping[str, Any]
    try_number: int
    max_tries: int
    asked: str

    @classmethod
    def of(cls, context: Context, task: SparkSubmitOperator) -> Self:
        """The tries of the running task."""
        ti: Any = context["ti"]
        return cls(instance_of(context), ti.try_number, ti.max_tries, _asked(task))

    def fields(self) -> dict[str, Any]:
        """Fields for an attempt's note."""
        tried = {**self.instance, "try_number": self.try_number, "max_tries": self.max_tries}
        return {"airflow": tried, "asked": self.asked}

    def counted(self, ledger: Ledger, pinned: PinnedManifest, failed: str | None) -> CountedAttempt | None:
        """What an earlier try loaded and counted before it died without publishing it; None if there is nothing.

        :param pinned: the revision that this try loads. Once a window has been resolved again, the result of an earlier
            revision no longer counts as a load of it.
        :param failed: an attempt whose driver failed after it had counted.
        """

        def is_meant(folder: WindowFolder, attempt: str) -> bool:
            return attempt != failed and self._is_own(folder.attempt(attempt))

        return left_to_publish(ledger, pinned, is_meant)

    def published(self, folder: WindowFolder, published: Publication) -> str | None:
        """The attempt of an earlier try that published the window, but died before it could report that; None if
        another task published it. Tries from before the task was cleared don't count: whoever clears the task wants the
        published rows counted again.

        :param folder: the published revision's folder.
        """
        noted = folder.attempt(published.attempt)
        own = self._is_own(noted) and noted["airflow"]["max_tries"] == self.max_tries
        return published.attempt if own else None

    def _is_own(self, noted: Mapping[str, Any]) -> bool:
        run = noted.get("airflow") or {}
        return noted.get("asked") == self.asked and self.instance.items() <= run.items()


def instance_of(context: Context) -> dict[str, Any]:
    """The running task instance: ``dag_id``, ``run_id``, ``task_id`` and ``map_index``, which is -1 if the task isn't
    mapped."""
    ti: Any = context["ti"]
    index = getattr(ti, "map_index", None)
    of_run = {"dag_id": ti.dag_id, "run_id": ti.run_id, "task_id": ti.task_id}
    return of_run | {"map_index": -1 if index is None else index}


def _asked(task: SparkSubmitOperator) -> str:
    given = {name: getattr(task, name, None) for name in _DECIDES}
    text = json.dumps(given, sort_keys=True, ensure_ascii=False, default=str)
    asked = sha256(text.encode())
    # A whole text may name a file, or a part of it: an item of a list, a URI's path, an option's value.
    for path in sorted(filter(os.path.isfile, {*text.split('"'), *re.split('[",:#=]', text)})):
        with suppress(OSError), Path(path).open("rb") as file:  # spark-submit says what is wrong with the file
            asked.update(f"\n{path} {file_digest(file, 'sha256').hexdigest()}".encode())
    return asked.hexdigest()
