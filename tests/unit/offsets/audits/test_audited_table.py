"""The audited table: what names one, and where its columns are."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.offsets.audits.audited_table import PRESETS, AuditedTable


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "exactly one"),
        ({"path": "/lake/orders"}, "format="),
        ({"format": "delta"}, "exactly one"),
        ({"table": "lake.orders", "path": "/lake/orders", "format": "delta"}, "exactly one"),
        ({"table": "lake.orders", "format": "delta"}, "format="),
        ({"table": "lake.orders", "preset": "flink"}, "preset must be one of kafka, "),
        ({"format": "jdbc", "options": {"dbtable": "orders", "Password": "x"}}, "secret in Password"),
        ({"format": "jdbc", "options": {"dbtable": "orders", "url": "jdbc:x://db?user=a&password=x"}}, "secret in url"),
    ],
)
def test_what_names_no_table_or_two_is_refused(given: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        AuditedTable(**given).check()


LONG = "SELECT * FROM lake.orders WHERE " + " AND ".join(f"x <> {number}" for number in range(50))


@pytest.mark.parametrize(
    ("given", "name", "relation"),
    [
        ({"table": "lake.orders"}, "lake.orders", "lake.orders"),
        ({"path": "s3://lake/orders", "format": "parquet"}, "s3://lake/orders", "parquet.`s3://lake/orders`"),
        ({"format": "jdbc", "options": {"dbtable": "o", "url": "jdbc:x://db"}}, "o (url=jdbc:x://db)", None),
        ({"query": "SELECT *\n  FROM lake.orders"}, "SELECT * FROM lake.orders", "(SELECT *\n  FROM lake.orders)"),
    ],
)
def test_the_ledger_knows_it_by_a_name_and_the_driver_by_all_arguments(
    given: dict[str, Any], name: str, relation: str | None
) -> None:
    table = AuditedTable(**given)
    table.check()
    assert (table.name, table.relation) == (name, relation)
    assert AuditedTable.from_json(table.to_json()) == table


def test_long_names_that_begin_alike_are_of_different_tables() -> None:
    names = [AuditedTable(query=f"{LONG} AND y = {number}").name for number in (1, 2)]
    assert names[0] != names[1]
    assert {len(name) for name in names} == {200}


def test_an_expression_beats_the_presets() -> None:
    table = AuditedTable(table="t", preset="iceberg-connect", offset="meta.position")
    assert table.columns == ("_kafka_metadata_topic", "_kafka_metadata_partition", "meta.position")
    assert AuditedTable(table="t", preset="snowflake").columns.offset == "get_json_object(RECORD_METADATA, '$.offset')"


def test_a_table_that_doesnt_tell_its_topic_has_the_windows_only_one() -> None:
    table = AuditedTable(table="t", preset="hudi")
    assert PRESETS["hudi"].topic is None
    assert table.topic_of(["orders"]) == "'orders'"
    with pytest.raises(ConfigurationError, match="several: a, b"):
        table.topic_of(["a", "b"])
