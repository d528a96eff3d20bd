"""OAuth tokens: what ``OAUTHBEARER`` logs in with (KIP-255), from an identity server or from a function of the user's.

A token is used until four fifths of its life are over, as Kafka's Java client does, and asked for anew then.
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
"""librdkafka's ``oauth_cb``: from ``sasl.oauthbearer.config`` to a token, when it expires (Unix seconds), and, if there
are any, a principal, which isn't used, and the token's extensions."""

_USED_OF_LIFE = 0.8
_TIMEOUT_S = 10.0
_LONGEST = 200
"""Characters of an identity server's answer that are shown."""


@dataclass(frozen=True, slots=True)
class OAuthSettings:
    """Where tokens come from: a function, or an identity server that gives them for a client's id and secret.

    :param token_function: the function; None for the server.
    :param config: what the function is called with.
    :param endpoint: URL of the server's token endpoint.
    :param scope: what is asked for; None to leave it to the server.
    :param extensions: what the broker is told beside the token (KIP-342).
    :param ca_location: certificate authorities to trust for the endpoint, a PEM file; None for the system's.
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

    :param text: what the broker is shown.
    :param renew_at: when to ask for another one, Unix seconds. One whose life nobody tells is used once.
    :param extensions: what the broker is told beside it.
    """

    text: str = field(repr=False)
    renew_at: float
    expires_at: float
    extensions: Mapping[str, str] = field(default_factory=dict)


class TokenSource:
    """Tokens for the connections of one client, from any thread.

    :param settings: where they come from.
    """

    def __init__(self, settings: OAuthSettings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._requests = TimedRequests()
        self._token: OAuthToken | None = None

    def token(self) -> OAuthToken:
        """The last token while it is good, else a new one.

        :raises AuthenticationError: the identity server refuses the client, or its answer has no token.
        :raises ClusterUnreachableError: it can't be reached, or fails: a retry may help.
        :raises ConfigurationError: ``https.ca.location`` can't be used.
        """
        with self._lock:
            if self._token is None or time.time() >= self._token.renew_at:
                self._token = self._renewed(self._token)
            return self._token

    def _renewed(self, last: OAuthToken | None) -> OAuthToken:
        """A new token; the last one a while longer, where the identity server or the user's function fails while that
        is good for longer than an answer may take."""
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
            f"oauth_cb {name} returned a {type(found).__name__} that isn't (token, Unix seconds when it expires), with "
            "a principal and a dictionary of extensions behind them if there are any."
        ) from None


def _token(text: str, now: float, expires_at: float, extensions: Mapping[str, str]) -> OAuthToken:
    if not math.isfinite(expires_at):
        raise ValueError("expires never")
    return OAuthToken(text, now + (expires_at - now) * _USED_OF_LIFE, expires_at, extensions)


def _ask_endpoint(settings: OAuthSettings, requests: TimedRequests, now: float) -> OAuthToken:
    """Grant by client credentials (RFC 6749, 4.4)."""
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
    told = f"The token endpoint {settings.endpoint} answered HTTP {status} for client {settings.client_id}: {said}"
    if status >= 500 or status == 429:
        raise ClusterUnreachableError(f"{told}. No broker was asked. Try again later.")
    raise AuthenticationError(
        f"{told}. Check sasl.oauthbearer.client.id, sasl.oauthbearer.client.secret and sasl.oauthbearer.scope of "
        "the Kafka connection."
    )


def _expiry_in(text: str, now: float) -> float:
    """When a JSON Web Token says that it expires; now for another one, which is used once."""
    try:
        claims = text.split(".")[1]
        return float(json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))["exp"])
    except (IndexError, ValueError, KeyError, TypeError):
        return now
