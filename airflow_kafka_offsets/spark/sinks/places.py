"""Places by name: an output's folder or table may have ``{pipeline}`` and ``{topic}`` in its name. With ``{topic}``,
the rows of each topic go to a place of their own.

In a path, a topic keeps its name: letters, digits, ``.``, ``_`` and ``-`` are all that Kafka allows, and all stores do.
In a table's name it becomes lower-case, with ``_`` for ``.`` and ``-``: that is what every catalog takes, as some know
no upper case. Two topics whose tables would then have one name are refused. No I/O here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from airflow_kafka_offsets.errors import ConfigurationError

_PLACEHOLDER = re.compile(r"\{(topic|pipeline)\}")
_TOPIC, _PIPELINE = "topic", "pipeline"
_ALMOST = re.compile(r"\{\s*(?:topic|pipeline)(?:s|_?name)?\s*\}", re.IGNORECASE)
"""What stands for itself, as other braces do, but was hardly meant to."""
_NUMBER_FIRST = re.compile(r"(?<![^.])\d\w*(?![^.])")
"""A part of a table's name that SQL may take for a number."""


def is_by_topic(place: str) -> bool:
    """Whether a place is one for each topic.

    :raises ConfigurationError: a placeholder is misspelled.
    """
    found = next((each[0] for each in _ALMOST.finditer(place) if not _PLACEHOLDER.fullmatch(each[0])), None)
    if found is not None:
        raise ConfigurationError(
            f"The output {place} has {found} in its name, which stands for nothing. What stands for a name is "
            "{topic} or {pipeline}, spelled exactly so."
        )
    return f"{{{_TOPIC}}}" in place


def places_of(place: str, pipeline: str, topics: Iterable[str], *, is_path: bool) -> dict[str, str]:
    """The places that an output with a name like this has: by topic if it has ``{topic}``, or else one, under an empty
    name.

    :param is_path: whether it is a path, or a table's name.
    :raises ConfigurationError: two topics would have one place; or as :func:`is_by_topic`.
    """
    if not is_by_topic(place):
        return {"": _filled(place, {_PIPELINE: pipeline}, is_path=is_path)}
    places = {topic: _filled(place, {_PIPELINE: pipeline, _TOPIC: topic}, is_path=is_path) for topic in topics}
    first: dict[str, str] = {}
    for topic, found in places.items():
        other = first.setdefault(found, topic)
        if other != topic:
            raise ConfigurationError(
                f"The topics {other} and {topic} would both go to the table {found}: in a table's name, a topic is "
                "lower-case, and has _ for . and -. Nothing was read. Write them to a path with {topic} in it, or "
                "load them in pipelines of their own."
            )
    return places


def _filled(place: str, names: dict[str, str], *, is_path: bool) -> str:
    if is_path:
        return _PLACEHOLDER.sub(lambda found: names[found[1]], place)
    named = _PLACEHOLDER.sub(lambda found: re.sub(r"[.-]", "_", names[found[1]].lower()), place)
    return _NUMBER_FIRST.sub(lambda part: f"`{part[0]}`", named)
