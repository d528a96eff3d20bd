"""``kafka-offsets ledger certificate``: what is claimed about a window, as a page or as JSON; signed with a key."""

from __future__ import annotations

import json
from base64 import b64encode
from html import escape
from pathlib import Path
from typing import Any

from airflow_kafka_offsets.cli.connections import stored_ledger
from airflow_kafka_offsets.cli.ledger import named_window
from airflow_kafka_offsets.cli.printing import Column, Row, command, print_record, print_remark, write_file
from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.ledger.certificate import certificate_of
from airflow_kafka_offsets.offsets.instants import now_ms

_CERTIFICATE = (
    *(Column("window"), Column("issued"), Column("offsets"), Column("manifest_sha256", "manifest")),
    Column("signed_by", "signed by", unless=(None,)),
)
_CLAIMS = (Column("claim"), Column("holds"), Column("tables", folds=True), Column("verdict", folds=True), Column("at"))
_ALGORITHM = "Ed25519"
_CHECK_SIGNATURE = """jq -j .statement certificate.json > statement.json
jq -r .signature certificate.json | base64 -d > signature
openssl pkeyutl -verify -pubin -inkey public.pem -rawin -in statement.json -sigfile signature"""
_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222}"
    "table{border-collapse:collapse;margin:1rem 0}td,th{border:1px solid #ccc;padding:.25rem .6rem;text-align:left}"
    "pre{background:#f5f5f5;padding:.8rem;overflow-x:auto;white-space:pre-wrap}td.n{text-align:right}"
    ".no{color:#b00020;font-weight:600}.yes{color:#1b6e1b;font-weight:600}"
)


@command
def certify(args: Any) -> int:
    """Print the certificate, and write the page if it was asked for. Exit code 1 if a claim doesn't hold, or there is
    none."""
    ledger = stored_ledger(args)
    name = named_window(ledger, args)
    statement = certificate_of(ledger, ledger.window(name), now_ms())
    signed = _signed(statement, args.key)
    if args.html is not None:
        write_file(args.html, _page(statement, signed))
    record = signed if args.output == "json" else _record(statement, signed)
    print_record(record, args, _CERTIFICATE, {"claims": _CLAIMS})
    if args.html is not None:
        print_remark(f"wrote the certificate to {args.html}: open it in a browser.")
    if not statement["claims"]:
        print_remark(f"Window {name} was neither loaded nor audited: nothing is claimed about it.")
    return 0 if statement["claims"] and all(claim["holds"] for claim in statement["claims"]) else 1


def _record(statement: Row, signed: Row) -> Row:
    names = ("window", "issued", "offsets", "manifest_sha256", "claims")
    return {name: statement[name] for name in names} | {"signed_by": signed["public_key"]}


def _signed(statement: Row, key: str | None) -> Row:
    """The statement as a text, whose bytes are signed, and the signature; Nones without a key."""
    text = json.dumps(statement, sort_keys=True, indent=1)
    if key is None:
        return {"statement": text, "algorithm": None, "public_key": None, "signature": None}
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

    try:
        private = load_pem_private_key(Path(key).read_bytes(), password=None)
    except (OSError, TypeError, ValueError) as error:
        raise ConfigurationError(
            f"--key {key} can't be read as a private key in PEM without a password: {error}."
        ) from error
    if not isinstance(private, Ed25519PrivateKey):
        raise ConfigurationError(f"--key {key} isn't an Ed25519 key: make one with openssl genpkey -algorithm ed25519.")
    public = private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    signature = b64encode(private.sign(text.encode())).decode()
    return {"statement": text, "algorithm": _ALGORITHM, "public_key": public, "signature": signature}


def _page(statement: Row, signed: Row) -> str:
    """One self-contained page: the claims for people, and the signed statement for programs."""
    title = f"Window {statement['window']} of {statement['pipeline']}"
    names = (
        "start",
        "end",
        "issued",
        "cluster_id",
        "isolation_level",
        "offsets",
        "manifest_sha256",
        "ledger_id",
        "commit",
    )
    facts = "".join(f"<tr><th>{name}</th><td>{escape(str(statement[name]))}</td></tr>" for name in names)
    topics = ", ".join(f"{name} ({topic_id})" for name, topic_id in statement["topics"].items())
    claims = "".join(map(_claim, statement["claims"])) or "<p>It was neither loaded nor audited.</p>"
    embedded = json.dumps(signed).replace("<", "\\u003c")
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title><style>{_STYLE}</style>'
        f"<h1>{escape(title)}</h1><table>{facts}<tr><th>topics</th><td>{escape(topics)}</td></tr></table>"
        f"<h2>Offsets</h2>{_table(statement['ranges'])}<h2>Claims</h2>{claims}"
        f"<h2>The checksum</h2><p>{escape(statement['checksum']['rule'])}</p>"
        f"<pre>{escape(statement['checksum']['sql'])}</pre>{_signature(signed)}"
        f'<script type="application/json" id="certificate">{embedded}</script></html>\n'
    )


def _claim(claim: Row) -> str:
    word = '<span class="yes">holds</span>' if claim["holds"] else '<span class="no">does not hold</span>'
    tables = ", ".join(map(str, claim["tables"]))
    check = "<p>The rows were derived from the records: the table above counts the records that the job got.</p>"
    if claim["check"] is not None:
        query = escape(claim["check"])
        check = f"<p>To check the rows, compare this query of Spark's SQL with the table above:</p><pre>{query}</pre>"
    return (
        f"<h3>{escape(claim['claim'])}: {escape(tables)}</h3><p>{word}, as of {escape(claim['at'])}: "
        f"{escape(claim['verdict'])}</p><p>{escape(claim['rule'])}</p>{_table(claim['partitions'])}"
        f"<p>Evidence: a file of the ledger with sha256 {escape(claim['evidence_sha256'])}.</p>{check}"
    )


def _signature(signed: Row) -> str:
    if signed["signature"] is None:
        return "<h2>Signature</h2><p>It isn't signed.</p>"
    return (
        f"<h2>Signature</h2><p>{_ALGORITHM}, by the key below, of the text <code>statement</code> in the JSON that is "
        f"part of this page. To check it, save that JSON as certificate.json:</p><pre>{escape(_CHECK_SIGNATURE)}</pre>"
        f"<pre>{escape(signed['public_key'])}</pre><pre>{escape(signed['signature'])}</pre>"
    )


def _table(rows: list[Row]) -> str:
    if not rows:
        return "<p>None.</p>"
    head = "".join(f"<th>{escape(name)}</th>" for name in rows[0])
    lines = ("".join(f'<td class="n">{escape(str(value))}</td>' for value in row.values()) for row in rows)
    return f"<table><tr>{head}</tr>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"
