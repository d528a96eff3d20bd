"""TLS: from settings to Python's ``ssl`` context, built once, so that an unreadable file is refused at once."""

from __future__ import annotations

import ssl

from airflow_kafka_offsets.client.connection.settings import TlsSettings
from airflow_kafka_offsets.errors import ConfigurationError


def tls_context(settings: TlsSettings) -> ssl.SSLContext:
    """The context of all connections of a client.

    :raises ConfigurationError: naming the key whose file can't be read or used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = settings.verify_hostname and settings.verify_certificate
    if not settings.verify_certificate:
        context.verify_mode = ssl.CERT_NONE
    _load_authorities(context, settings)
    if settings.certificate_location is not None:
        _load_certificate(context, settings)
    return context


def _load_authorities(context: ssl.SSLContext, settings: TlsSettings) -> None:
    if settings.ca_location is None:
        context.load_default_certs()
        return
    try:
        context.load_verify_locations(settings.ca_location)
    except OSError as error:
        raise ConfigurationError(f"ssl.ca.location {settings.ca_location} can't be used: {error}.") from error


def _load_certificate(context: ssl.SSLContext, settings: TlsSettings) -> None:
    assert settings.certificate_location is not None
    try:
        # An empty password instead of none: OpenSSL would ask for it on the terminal, and block the task.
        context.load_cert_chain(settings.certificate_location, settings.key_location, settings.key_password or "")
    except OSError as error:
        raise ConfigurationError(
            f"ssl.certificate.location {settings.certificate_location} with ssl.key.location {settings.key_location} "
            f"can't be used: {error}. Check both files and ssl.key.password."
        ) from error
