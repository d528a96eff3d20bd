"""The driver's note: which Spark application an attempt is (``applications/<attempt>.json``), written before it reads.

It is signed with a key that the operator makes for the attempt and gives to the driver, past the ledger. Whoever may
write to the ledger can put a note there, and not sign it: an address without the signature is neither asked nor shown.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from airflow_kafka_offsets.errors import LedgerCorruptError

_ID = re.compile(r"[A-Za-z0-9._-]+")
"""Spark's ids of applications, on every master. One becomes part of addresses."""


@dataclass(frozen=True, slots=True)
class SparkApplication:
    """Which Spark application an attempt is.

    :param id: Spark's own id of it.
    :param ui: address of its UI while it runs; None when it has none, or nobody vouches for it.
    :param writes: it is to write the window's rows; else the window was published, and it looks at what counts.
    """

    id: str
    ui: str | None
    writes: bool = True

    def to_json(self, attempt: str, key: str | None) -> dict[str, Any]:
        """The note.

        :param key: signs it; None where no operator has submitted the driver.
        """
        signature = None if key is None else _signature(key, attempt, self.id, self.ui)
        return {"application_id": self.id, "ui": self.ui, "signature": signature, "writes": self.writes}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any], attempt: str, key: str | None) -> SparkApplication:
        """Read the note.

        :param key: what the driver was given; None where that isn't known any more.
        :raises LedgerCorruptError: when it isn't one.
        """
        try:
            found, ui, signature = str(fields["application_id"]), fields["ui"], fields.get("signature")
        except KeyError as error:
            raise LedgerCorruptError(f"It doesn't name {error}.") from error
        if not _ID.fullmatch(found):
            raise LedgerCorruptError(f"{found!r} is no id of a Spark application.")
        signed = key is not None and hmac.compare_digest(_signature(key, attempt, found, ui), str(signature))
        return cls(found, str(ui) if signed and _is_address(ui) else None, fields.get("writes") is not False)


def _signature(key: str, attempt: str, application_id: str, ui: object) -> str:
    text = "\n".join((attempt, application_id, str(ui)))
    return hmac.new(key.encode(), text.encode(), hashlib.sha256).hexdigest()


def _is_address(ui: object) -> bool:
    """Whether a browser may be sent there: an address of the web, without credentials."""
    if not isinstance(ui, str):
        return False
    try:
        parts = urlsplit(ui)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.username is None
    except ValueError:
        return False
