"""Pauses: a worker now and then sleeps between a decision and its commit, or before it writes a list, so that others
can come in between. When it does is drawn from a seed.
"""

from __future__ import annotations

import random
import time

from airflow_kafka_offsets.ledger.files import LOG
from airflow_kafka_offsets.ledger.storage import StoredFiles

CHANCE = 0.2
LONGEST_S = 0.6


def make_hesitant(rng: random.Random) -> None:
    """From now on, this process pauses now and then."""
    create, replace = StoredFiles.create, StoredFiles.replace

    def create_late(files: StoredFiles, name: str, content: bytes) -> bool:
        if name.startswith(f"{LOG}/"):
            _pause(rng)
        return create(files, name, content)

    def replace_late(files: StoredFiles, name: str, content: bytes) -> None:
        _pause(rng)
        replace(files, name, content)

    StoredFiles.create = create_late  # type: ignore[method-assign]
    StoredFiles.replace = replace_late  # type: ignore[method-assign]


def _pause(rng: random.Random) -> None:
    if rng.random() < CHANCE:
        time.sleep(rng.uniform(0, LONGEST_S))
