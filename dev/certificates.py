"""A certificate authority, and the certificates that it signs: a broker's and a client's.

All are PEM files, as Kafka (KIP-651), kafka-python and OpenSSL read them. They are valid for a day.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from dev.ports import HOST

CLIENT_NAME = "client"
"""Common name of the client's certificate; the broker's principal for it is ``User:client``."""

VALIDITY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Certificates:
    """PEM files in one folder.

    :param ca: the authority's certificate, for programs that must trust the others.
    :param broker: key and certificate of a broker at 127.0.0.1 or localhost.
    :param client_certificate: certificate of :data:`CLIENT_NAME`.
    :param client_key: its key, not encrypted.
    """

    ca: Path
    broker: Path
    client_certificate: Path
    client_key: Path

    @classmethod
    def in_folder(cls, folder: Path) -> Certificates:
        """The files' paths, whether they exist or not."""
        names = ("ca.pem", "broker.pem", "client-certificate.pem", "client-key.pem")
        return cls(*(folder / name for name in names))


@dataclass(frozen=True, slots=True)
class _Authority:
    key: ec.EllipticCurvePrivateKey
    name: x509.Name


def make_certificates(folder: Path) -> Certificates:
    """Make a new authority and the certificates. The authority's own key isn't stored."""
    folder.mkdir(parents=True, exist_ok=True)
    made = Certificates.in_folder(folder)
    authority = _Authority(ec.generate_private_key(ec.SECP256R1()), _name("local authority"))
    made.ca.write_bytes(_pem(_authority_certificate(authority)))
    broker_key, client_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    addresses = x509.SubjectAlternativeName([x509.IPAddress(ip_address(HOST)), x509.DNSName("localhost")])
    broker = _unsigned("broker", broker_key, authority).add_extension(addresses, critical=False)
    made.broker.write_bytes(_key_pem(broker_key) + _pem(broker.sign(authority.key, hashes.SHA256())))
    client = _unsigned(CLIENT_NAME, client_key, authority)
    made.client_certificate.write_bytes(_pem(client.sign(authority.key, hashes.SHA256())))
    made.client_key.write_bytes(_key_pem(client_key))
    return made


def _authority_certificate(authority: _Authority) -> x509.Certificate:
    """The authority's self-signed certificate."""
    builder = _builder(authority.name, authority.key, authority)
    return builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True).sign(
        authority.key, hashes.SHA256()
    )


def _unsigned(common_name: str, key: ec.EllipticCurvePrivateKey, authority: _Authority) -> x509.CertificateBuilder:
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key())
    builder = _builder(_name(common_name), key, authority)
    return builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True).add_extension(
        issuer, critical=False
    )


def _builder(name: x509.Name, key: ec.EllipticCurvePrivateKey, authority: _Authority) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(authority.name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + VALIDITY)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
