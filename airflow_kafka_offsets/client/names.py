"""Names as callers of the client give them: several of them, and the ids of topics."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping

from airflow_kafka_offsets.errors import ConfigurationError


def several(names: Iterable[str]) -> list[str]:
    """Names, each once.

    :raises ConfigurationError: for a text, which is a sequence of letters.
    """
    if isinstance(names, str):
        raise ConfigurationError(f"Several names are asked for, and {names!r} is one: put it into a list.")
    return list(dict.fromkeys(names))


def own_topic_ids(ids: Mapping[str, str] | None) -> dict[str, str] | None:
    """Topic ids as this package writes them.

    :raises ConfigurationError: for a text that is no UUID.
    """
    try:
        return None if ids is None else {topic: str(uuid.UUID(topic_id)) for topic, topic_id in ids.items()}
    except ValueError as error:
        raise ConfigurationError(f"A topic id is a UUID, as topics() and snapshots give it: {error}.") from None
