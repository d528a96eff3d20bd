"""Pauses: a publisher that sleeps between its last look and the creation of its publication, so that others come in
between; now and then, as drawn from a seed.
"""

from __future__ import annotations

import random
import time

from airflow_kafka_offsets.ledger.publications import Publications
from airflow_kafka_offsets.offsets.publication import Publication

CHANCE = 0.3
LONGEST_S = 2.0


class Pauses:
    """Makes this process's publishers pause.

    :ivar overtaken: how often somebody else had the number that one of them was to create.
    """

    def __init__(self, rng: random.Random) -> None:
        self.overtaken = 0
        create = Publications.create

        def create_late(publications: Publications, publication: Publication) -> bool:
            if rng.random() < CHANCE:
                time.sleep(rng.uniform(0, LONGEST_S))
            created = create(publications, publication)
            self.overtaken += not created
            return created

        Publications.create = create_late  # type: ignore[method-assign]
