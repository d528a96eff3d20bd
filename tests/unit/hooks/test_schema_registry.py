"""A schema registry's connection: its address, its one login, and whom it trusts."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import pytest

from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.hooks.schema_registry import registry_options


@pytest.fixture(autouse=True)
def no_database(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "sqlite://")


def options(monkeypatch: pytest.MonkeyPatch, **fields: Any) -> tuple[dict[str, str], dict[str, str]]:
    monkeypatch.setenv("AIRFLOW_CONN_REGISTRY", json.dumps({"conn_type": "http", "host": "registry"} | fields))
    found = registry_options("registry")
    return dict(found.plain), dict(found.secret)


@pytest.mark.parametrize(
    ("fields", "url"),
    [
        ({}, "http://registry"),
        ({"port": 8081}, "http://registry:8081"),
        ({"schema": "https", "port": 8081}, "https://registry:8081"),
        ({"host": "https://registry:8081/"}, "https://registry:8081"),
        ({"host": "https://registry/apis/ccompat/v7", "port": 444}, "https://registry:444/apis/ccompat/v7"),
    ],
)
def test_the_address_is_that_of_the_http_hook(
    fields: dict[str, Any], url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert options(monkeypatch, **fields) == ({"registry.url": url}, {})


@pytest.mark.parametrize(
    ("fields", "authorization"),
    [
        ({"login": "u", "password": "p:w"}, f"Basic {b64encode(b'u:p:w').decode()}"),
        ({"login": "u"}, f"Basic {b64encode(b'u:').decode()}"),
        ({"extra": {"bearer_token": "t"}}, "Bearer t"),
        ({"extra": {"Authorization": "Token t"}}, "Token t"),
    ],
)
def test_a_login_is_a_secret(fields: dict[str, Any], authorization: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plain, secret = options(monkeypatch, **fields)
    assert secret == {"registry.authorization": authorization}
    assert plain == {"registry.url": "http://registry"}


@pytest.mark.parametrize(
    ("verify", "told"),
    [
        (True, {}),
        ("true", {}),
        (False, {"registry.verify": "false"}),
        ("/etc/ssl/registry.pem", {"registry.ca": "/etc/ssl/registry.pem"}),
    ],
)
def test_whom_it_trusts(verify: Any, told: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    plain, _ = options(monkeypatch, extra={"verify": verify})
    assert plain == {"registry.url": "http://registry"} | told


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"host": ""}, "has no host"),
        ({"host": "ftp://registry"}, r"must be http\(s\)"),
        ({"host": "https://u:hunter2@registry"}, "holds a login, which logs would show"),
        ({"login": "u", "extra": {"bearer_token": "t"}}, "it has login and bearer_token"),
    ],
)
def test_what_means_nothing_is_refused(fields: dict[str, Any], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError, match=said) as refused:
        options(monkeypatch, **fields)
    assert str(refused.value).startswith("Connection registry: ")
    assert "hunter2" not in str(refused.value)


def test_a_connection_that_does_not_exist_is_named() -> None:
    with pytest.raises(ConfigurationError, match="There is no connection nowhere"):
        registry_options("nowhere")
