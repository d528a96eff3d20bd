"""Terms of a table under which a window's rows can't be replaced as promised: properties that forbid it, that make the
table forget who wrote last, or by which the session's confs send the rows elsewhere. They are refused by name, before a
row is written. Otherwise the commit would fail in words that say nothing of the cause, or would not be one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_kafka_offsets.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Term:
    """A property that a table must not have.

    :param name: the property.
    :param why: what it does to the rows of a window.
    :param remedy: what to do, an ``ALTER TABLE``'s end where ``conf`` is None.
    :param value: the value that is refused; None for any.
    :param conf: the session's conf that must be set too for this to matter; None if the property is enough.
    """

    name: str
    why: str
    remedy: str
    value: str | None = "true"
    conf: str | None = None

    def refuse(self, spark: SparkSession, sql_name: str, properties: Mapping[str, str]) -> None:
        """Refuse a table that has the property.

        :raises ConfigurationError: naming the property, or the conf, and what to do.
        """
        found = properties.get(self.name)
        if found is None or (self.value is not None and found.lower() != self.value):
            return
        told = f"the property {self.name}={found}"
        if self.conf is None:
            what = f"{sql_name} has {told}"
            remedy = f"ALTER TABLE {sql_name} {self.remedy}; or load into another table"
        else:
            set_to = spark.conf.get(self.conf, None)
            if not set_to:
                return
            what, remedy = f"This session has the conf {self.conf}={set_to}, and {sql_name} has {told}", self.remedy
        raise ConfigurationError(f"{what}: {self.why}. Nothing was written. {remedy}.")
