"""Pauses: a publisher now and then sleeps between its last check and its creation of a file, so that others can come in
between. When it does is drawn from a seed.
"""

from __future__ import annotations

import random
import time

from airflow_kafka_offsets.ledger import file_lists
from airflow_kafka_offsets.ledger.publications import Publications
from airflow_kafka_offsets.ledger.storage import StoragePath
from airflow_kafka_offsets.offsets.proof.publication import Publication

CHANCE = 0.3
LONGEST_S = 1.0


class Pauses:
    """Makes this process's publishers pause.

    :ivar overtaken: how often somebody else had already created the number that a publisher was about to create.
    """

    def __init__(self, rng: random.Random) -> None:
        self.overtaken = 0
        create, replace_file = Publications.create, file_lists.replace_file

        def create_late(publications: Publications, publication: Publication) -> bool:
            _pause(rng)
            created = create(publications, publication)
            self.overtaken += not created
            return created

        def replace_late(path: StoragePath, content: bytes) -> None:
            _pause(rng)
            replace_file(path, content)

        Publications.create = create_late  # type: ignore[method-assign]
        file_lists.replace_file = replace_late


def _pause(rng: random.Random) -> None:
    if rng.random() < CHANCE:
        time.sleep(rng.uniform(0, LONGEST_S))
