"""OAuth tokens for logging in with ``OAUTHBEARER`` (KIP-255), from an identity server or a user's function.

A token is renewed after four fifths of its lifetime, as Kafka's Java client does.
"""

from __future__ import annotations

import base64
import json
import math
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from airflow_kafka_offsets.client.connection.timed_requests import TimedRequests
from airflow_kafka_offsets.errors import AuthenticationError, ClusterUnreachableError, ConfigurationError

TokenFunction = Callable[[str], tuple[Any, ...]]
"""librdkafka's ``oauth_cb``: takes ``sasl.oauthbearer.config``; returns a token, when it expires (Unix seconds), and
optionally a principal, which isn't used, and the token's extensions."""

_USED_OF_LIFE = 0.8
_TIMEOUT_S = 10.0
_LONGEST = 200
"""How many characters of an identity server's answer are shown."""


@dataclass(frozen=True, slots=True)
class OAuthSettings:
    """Where tokens come from: a function, or an identity server that issues them for a client's id and secret.

    :param token_function: the function; None for the server.
    :param config: the function's argument.
    :param endpoint: URL of the server's token endpoint.
    :param scope: scope to request; None for the server's default.
    :param extensions: SASL extensions sent to the broker with the token (KIP-342).
    :param ca_location: PEM file of certificate authorities to trust for the endpoint; None for the system's.
    """

    token_function: TokenFunction | None = None
    config: str = ""
    endpoint: str | None = None
    client_id: str | None = None
    client_secret: str | None = field(default=None, repr=False)
    scope: str | None = None
    extensions: Mapping[str, str] = field(default_factory=dict)
    ca_location: str | None = None


@dataclass(frozen=True, slots=True)
class OAuthToken:
    """A token.

    :param text: the token that the broker receives.
    :param renew_at: when to get a new token, Unix seconds. A token of unknown lifetime is used once.
    :param expires_at: when it expires, Unix seconds.
    :param extensions: SASL extensions sent with it.
    """

    text: str = field(repr=False)
    renew_at: float
    expires_at: float
    extensions: Mapping[str, str] = field(default_factory=dict)


class TokenSource:
    """Tokens for the connections of one client; thread-safe.

    :param settings: where they come from.
    """

    def __init__(self, settings: OAuthSettings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._requests = TimedRequests()
        self._token: OAuthToken | None = None

    def token(self) -> OAuthToken:
        """The current token until it is due for renewal, then a new one.

        :raises AuthenticationError: when the identity server refuses the client, or its answer has no token.
        :raises ClusterUnreachableError: when the server can't be reached, or fails: a retry may help.
        :raises ConfigurationError: when ``https.ca.location`` can't be used.
        """
        with self._lock:
            if self._token is None or time.time() >= self._token.renew_at:
                self._token = self._renewed(self._token)
            return self._token

    def _renewed(self, last: OAuthToken | None) -> OAuthToken:
        """A new token. If the identity server or the user's function fails, keeps the last token for a while, unless it
        expires within the time that an answer may take."""
        try:
            return self._new_token()
        except (ClusterUnreachableError, AuthenticationError) as error:
            now = time.time()
            refused = isinstance(error, AuthenticationError) and self._settings.token_function is None
            if last is None or refused or last.expires_at - now < _TIMEOUT_S:
                raise
            return replace(last, renew_at=now + (last.expires_at - now) / 2)

    def _new_token(self) -> OAuthToken:
        now = time.time()
        if self._settings.token_function is None:
            return _ask_endpoint(self._settings, self._requests, now)
        return _call(self._settings.token_function, self._settings.config, now)


def _call(function: TokenFunction, config: str, now: float) -> OAuthToken:
    name = getattr(function, "__qualname__", repr(function))
    try:
        found = function(config)
    except Exception as error:  # whatever a user's own code raises
        raise AuthenticationError(f"oauth_cb {name} gave no token: {type(error).__name__}: {error}") from error
    try:
        text, expires_at, *more = found
        return _token(str(text), now, float(expires_at), dict(more[1] if len(more) > 1 else {}))
    except (TypeError, ValueError, OverflowError):
        raise AuthenticationError(
            f"oauth_cb {name} returned an invalid {type(found).__name__}. It must return (token, expiry in Unix "
            "seconds), optionally followed by a principal and a dictionary of extensions."
        ) from None


def _token(text: str, now: float, expires_at: float, extensions: Mapping[str, str]) -> OAuthToken:
    if not math.isfinite(expires_at):
        raise ValueError("expires never")
    return OAuthToken(text, now + (expires_at - now) * _USED_OF_LIFE, expires_at, extensions)


def _ask_endpoint(settings: OAuthSettings, requests: TimedRequests, now: float) -> OAuthToken:
    """Get a token by the client credentials grant (RFC 6749, 4.4)."""
    asked = {"grant_type": "client_credentials"} | ({"scope": settings.scope} if settings.scope else {})
    answer = _post(settings, asked, requests)
    try:
        fields = json.loads(answer)
        text, life_s = str(fields["access_token"]), fields.get("expires_in")
        expires_at = now + float(life_s) if life_s is not None else _expiry_in(text, now)
        return _token(text, now, expires_at, settings.extensions)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
        raise AuthenticationError(
            f"The token endpoint {settings.endpoint} answered without a usable access_token for client "
            f"{settings.client_id}. Check sasl.oauthbearer.token.endpoint.url of the Kafka connection."
        ) from None


def _post(settings: OAuthSettings, asked: Mapping[str, str], requests: TimedRequests) -> bytes:
    assert settings.endpoint is not None and settings.client_id is not None and settings.client_secret is not None
    try:
        context = ssl.create_default_context(cafile=settings.ca_location)
    except OSError as error:
        raise ConfigurationError(f"https.ca.location {settings.ca_location} can't be used: {error}.") from error
    login = settings.client_id, settings.client_secret
    try:
        status, body = requests.post(settings.endpoint, asked, login, context, _TIMEOUT_S)
    except OSError as error:
        raise ClusterUnreachableError(
            f"The token endpoint {settings.endpoint} can't be reached: {error}. No broker was asked. Check "
            "sasl.oauthbearer.token.endpoint.url of the Kafka connection, and https.ca.location for its certificate."
        ) from None
    if 200 <= status < 300:
        return body
    said = " ".join(body.decode(errors="replace").split())[:_LONGEST]
    refused = f"The token endpoint {settings.endpoint} answered HTTP {status} for client {settings.client_id}: {said}"
    if status >= 500 or status == 429:
        raise ClusterUnreachableError(f"{refused}. No broker was asked. Try again later.")
    raise AuthenticationError(
        f"{refused}. Check sasl.oauthbearer.client.id, sasl.oauthbearer.client.secret and sasl.oauthbearer.scope of "
        "the Kafka connection."
    )


def _expiry_in(text: str, now: float) -> float:
    """When a JSON Web Token expires; now for any other token, which is then used once."""
    try:
        claims = text.split(".")[1]
        return float(json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))["exp"])
    except (IndexError, ValueError, KeyError, TypeError):
        return now
