"""Finds a :class:`Ledger` by an argument or the ``[kafka_offsets] ledger_root`` setting.

A folder of this machine needs neither Airflow's connections nor, if an argument or the environment names it, its
configuration. Then Airflow, which takes seconds to import, isn't imported: commands on such a ledger start at once.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress

from airflow_kafka_offsets.errors import ConfigurationError, shorten
from airflow_kafka_offsets.ledger.files import LOG
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.storage import LedgerPath, in_parallel, names
from airflow_kafka_offsets.offsets.windows.ledger_names import PIPELINE_NAME

ROOT_VARIABLE = "AIRFLOW__KAFKA_OFFSETS__LEDGER_ROOT"
"""Airflow's own name for the setting in the environment, which it reads before all other places."""
_LOCAL = re.compile(r"(file://)?(/(?!/)[^?#$]*)")
"""A folder of this machine, as a URI or a path. Airflow expands ``$``."""


def is_local(root: str | None) -> bool:
    """Whether a root is a folder of this machine, and known without Airflow.

    :param root: as for :func:`ledger_of`.
    """
    return _LOCAL.fullmatch(root or os.environ.get(ROOT_VARIABLE, "")) is not None


def ledger_root(root: str | None) -> str:
    """The folder of all ledgers: the argument if given, else the setting.

    :raises ConfigurationError: when there is neither; or for an empty argument, which in place of none would mean the
        setting's ledger.
    """
    if root is not None and not root.strip():
        raise ConfigurationError("ledger_root is empty: has its template or its variable no value?")
    found = (root or os.environ[ROOT_VARIABLE]) if is_local(root) else (root or _setting())
    if not found:
        raise ConfigurationError(
            "No ledger folder is configured. Pass ledger_root= to the KafkaPipeline or --ledger to the command (for "
            "example s3://aws_default@my-bucket/kafka-ledger), or set ledger_root in the [kafka_offsets] "
            "section of airflow.cfg (AIRFLOW__KAFKA_OFFSETS__LEDGER_ROOT)."
        )
    return found


def _setting() -> str:
    from airflow.providers.common.compat.sdk import conf

    return str(conf.get("kafka_offsets", "ledger_root") or "")


def _path(place: str) -> LedgerPath:
    """A root as a path.

    :raises ConfigurationError: when Airflow doesn't know its store.
    """
    if local := _LOCAL.fullmatch(place):
        from fsspec.implementations.local import LocalFileSystem  # type: ignore[import-untyped]

        protocol = "file" if local[1] else ""
        return LedgerPath(LocalFileSystem(), local[2].rstrip("/"), protocol, place.rstrip("/"))
    from airflow.sdk import ObjectStoragePath

    try:
        path = ObjectStoragePath(place)
    except ValueError as error:
        raise ConfigurationError(
            f"The ledger root {place} names a store that Airflow doesn't know: {error}."
        ) from error
    return LedgerPath.of(path)


def ledger_of(root: str | None, pipeline: str, at_least: int = 0) -> Ledger:
    """One pipeline's ledger. Nothing is read or created: it need not exist.

    :param root: folder of all ledgers; None for the setting. May contain a connection id, before an ``@``.
    :param at_least: the number of a commit that its log has, if one is known; it saves a request.
    :raises ConfigurationError: when no root is configured, Airflow doesn't know its store, or the pipeline's name can't
        be a folder name.
    """
    return Ledger(_path(ledger_root(root)), pipeline, at_least)


def existing_ledger(root: str | None, pipeline: str, at_least: int = 0) -> Ledger:
    """One pipeline's ledger, which must exist.

    :raises ConfigurationError: when it doesn't.
    :raises LedgerCorruptError: when its log is damaged.
    """
    ledger = ledger_of(root, pipeline, at_least)
    if not ledger.exists:
        raise ConfigurationError(
            f"There is no ledger at {ledger.uri}: the first run of the pipeline's Dag makes it, when it resolves its "
            f"window. Start that, or check the pipeline's name and the ledger's root.{_others(root)}"
        )
    return ledger


def pipelines(root: str | None) -> list[str]:
    """Names of all pipelines that have a ledger in a root, also a damaged one: its log has a commit."""
    folder = _path(ledger_root(root))
    found = [name for name in names(folder) if PIPELINE_NAME.fullmatch(name)]
    there = in_parallel(lambda name: _has_log(folder / name / LOG), found)
    return [name for name, is_there in zip(found, there, strict=True) if is_there]


def _has_log(folder: LedgerPath) -> bool:
    """Whether there is a log. True even if it can't be listed: the pipeline's own answer then says what is wrong, to
    users who may see it."""
    try:
        return bool(names(folder))
    except NotADirectoryError:  # a file beside the pipelines
        return False
    except Exception:  # each store has its own exceptions
        return True


def _others(root: str | None) -> str:
    with suppress(Exception):  # who may read a ledger may not be allowed to list them all
        found = pipelines(root)
        return f" Pipelines there: {shorten(found)}." if found else " No pipeline has one there yet."
    return ""


def ledger_at(uri: str) -> Ledger:
    """The ledger at a ledger's URI, as found in XComs."""
    root, _, pipeline = uri.rstrip("/").rpartition("/")
    return existing_ledger(root, pipeline)
