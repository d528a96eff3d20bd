"""Logins: what one needs on this machine, and why a broker or Kerberos refused one."""

from __future__ import annotations

import ssl
import sys
from collections.abc import Collection

import kafka.errors as kafka_errors

from airflow_kafka_offsets.client.connection.settings import KERBEROS, MSK_IAM, OAUTHBEARER, SaslSettings, msk_region
from airflow_kafka_offsets.errors import AuthenticationError, ConfigurationError

_NO_KDC = ("Cannot contact any KDC", "Cannot resolve servers for KDC", "unable to reach any KDC")
"""Messages from MIT's and Heimdal's Kerberos libraries when no KDC can be reached."""
_REFUSED_CREDENTIALS = (
    kafka_errors.SaslAuthenticationFailedError,
    kafka_errors.UnsupportedSaslMechanismError,
    kafka_errors.IllegalSaslStateError,
)
_CREDENTIALS = {
    OAUTHBEARER: "sasl.oauthbearer.scope and sasl.oauthbearer.client.id",
    MSK_IAM: "AWS_DEFAULT_REGION, the worker's AWS credentials and their permissions, not the password",
}
"""What the user should check, by mechanism."""


def require_libraries(sasl: SaslSettings | None, addresses: Collection[str]) -> None:
    """Check for what kafka-python needs to log in, and would find missing only on its I/O thread.

    :param addresses: the brokers' addresses.
    :raises ConfigurationError: naming what is missing: a library, or the region or credentials of AWS.
    """
    if sasl is not None and sasl.mechanism == MSK_IAM:
        _require_aws(addresses)
    if sasl is not None and sasl.mechanism == KERBEROS:
        try:
            import gssapi  # type: ignore[import-not-found,unused-ignore]  # noqa: F401
        except (ImportError, OSError) as error:
            raise ConfigurationError(
                f"sasl.mechanism {KERBEROS}, the default for SASL, needs Python's gssapi ({error}): pip install "
                "'airflow-kafka-offsets[kerberos]', which is compiled against the machine's Kerberos library (Debian, "
                "Ubuntu: apt-get install gcc libkrb5-dev). To log in with a password, set sasl.mechanism."
            ) from None


def _require_aws(addresses: Collection[str]) -> None:
    try:
        from botocore.session import Session  # type: ignore[import-untyped]
    except ImportError:
        raise ConfigurationError(
            f"sasl.mechanism {MSK_IAM} needs botocore: pip install 'airflow-kafka-offsets[msk]'."
        ) from None
    session = Session()
    if not session.get_config_variable("region") and not all(map(msk_region, addresses)):
        raise ConfigurationError(
            f"sasl.mechanism {MSK_IAM} needs the cluster's AWS region, which the brokers' names "
            f"({', '.join(addresses)}) don't contain: set AWS_DEFAULT_REGION."
        )
    if session.get_credentials() is None:
        raise ConfigurationError(
            f"sasl.mechanism {MSK_IAM} needs AWS credentials, but this machine has none: no role, no profile, "
            "no AWS_ACCESS_KEY_ID."
        )


def _refused_by_kerberos(error: Exception) -> str | None:
    """Why Kerberos refused a login; None if the error isn't from Kerberos, or no KDC could be reached."""
    gssapi = sys.modules.get("gssapi")  # already imported if Kerberos is in use
    if gssapi is None or not isinstance(error, gssapi.exceptions.GSSError):
        return None
    message = str(error)
    if any(words in message for words in _NO_KDC):
        return None
    return message.rpartition("Minor (")[2].partition("): ")[2] or message


def refusal(error: Exception, sasl: SaslSettings | None, address: str) -> AuthenticationError | None:
    """Why a login can't succeed; None if the error says something else, or may pass.

    :param address: the broker asked, for the message.
    """
    if isinstance(error, _REFUSED_CREDENTIALS):
        return AuthenticationError(_refused_by_broker(sasl, address, error))
    if (why := _refused_by_kerberos(error)) is not None:
        return AuthenticationError(
            f"The Kerberos login at broker {address} failed: {why}. Check the worker's ticket with klist "
            "(airflow kerberos renews it), and sasl.kerberos.service.name of the Kafka connection."
        )
    if isinstance(error, ssl.SSLCertVerificationError):
        return AuthenticationError(
            f"The certificate of broker {address} was not accepted: {error.verify_message}. "
            "Check ssl.ca.location and the host name in bootstrap.servers."
        )
    return None


def _refused_by_broker(sasl: SaslSettings | None, address: str, error: Exception) -> str:
    who = f" for user {sasl.username}" if sasl and sasl.username else ""
    mechanism = sasl.mechanism if sasl else "SASL"
    answer = " ".join(map(str, error.args)).removeprefix(f"{type(error).__name__}: ") or getattr(error, "message", "")
    keys = _CREDENTIALS.get(mechanism, "sasl.username and sasl.password")
    return (
        f"Broker {address} refused {mechanism} authentication{who}: {answer}. "
        f"Check security.protocol, sasl.mechanism, {keys} of the Kafka connection."
    )
