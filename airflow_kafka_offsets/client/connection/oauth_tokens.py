"""OAuth tokens for logging in with ``OAUTHBEARER`` (KIP-255), from an identity server or a user's function.

A token is renewed after four fifths of its lifetime, as Kafka's Java client does.
"""

from __future__ import annotations

import asyncio
import base64
import json
import math
import os
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, wait as wait_for
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from airflow_kafka_offsets.client.connection.deadline import Deadline
from airflow_kafka_offsets.errors import AuthenticationError, ClusterUnreachableError, ConfigurationError
from airflow_kafka_offsets.offsets.instants import duration_text

T = TypeVar("T")
TokenFunction = Callable[[str], tuple[Any, ...]]
"""librdkafka's ``oauth_cb``: takes ``sasl.oauthbearer.config``; returns a token, when it expires (Unix seconds), and
optionally a principal, which isn't used, and the token's extensions."""

_USED_OF_LIFE = 0.8
_TIMEOUT_S = 10.0
"""How long an identity server may take, and a user's function if there is no deadline."""
_UNKNOWN_LIFE_S = 10.0
"""How long a token is taken to be valid if nobody says how long it is: one serves the logins of a call."""
_LONGEST = 200
"""How many characters of an identity server's answer are shown."""
_MOST_BYTES = 1 << 20
"""How much of its answer is read, so that the server can't fill a triggerer's memory."""
THREAD = "token"
"""Name of the threads that get tokens."""


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
    :param renew_at: when to get a new token, Unix seconds.
    :param expires_at: when it expires, Unix seconds.
    :param extensions: SASL extensions sent with it.
    """

    text: str = field(repr=False)
    renew_at: float
    expires_at: float
    extensions: Mapping[str, str] = field(default_factory=dict)


class TokenSource:
    """Tokens for the connections of one client; thread-safe.

    Each is got in a thread of its own, because neither a user's function nor a name look-up can be interrupted. If that
    takes too long, it goes on, and its token is the next caller's: no other begins beside it, however often one is
    asked for.

    :param settings: where they come from.
    """

    def __init__(self, settings: OAuthSettings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._coming: Future[OAuthToken] | None = None
        self._token: OAuthToken | None = None

    @property
    def is_due(self) -> bool:
        """Whether :meth:`token` would ask for a new token, and so might wait for it."""
        return self._token is None or time.time() >= self._token.renew_at

    @property
    def newest(self) -> OAuthToken:
        """The token that :meth:`token` returned last. Never waits."""
        assert self._token is not None, "a token is asked for before anybody logs in"
        return self._token

    def token(self, deadline: Deadline | None = None) -> OAuthToken:
        """The current token until it is due for renewal, then a new one.

        :param deadline: when it is needed; None for the time that an identity server may take.
        :raises AuthenticationError: when the identity server refuses the client, or its answer has no token.
        :raises ClusterUnreachableError: when the server can't be reached or fails, or the token is late: a retry may
            help.
        :raises ConfigurationError: when ``https.ca.location`` can't be used.
        """
        deadline = deadline or Deadline.after(_TIMEOUT_S)
        if not self._lock.acquire(timeout=deadline.remaining_s()):
            raise ClusterUnreachableError("An OAuth token that was asked for earlier is late. No broker was asked.")
        try:
            if self.is_due:
                self._token = self._renewed(self._token, deadline)
            return self.newest
        finally:
            self._lock.release()

    def _renewed(self, last: OAuthToken | None, deadline: Deadline) -> OAuthToken:
        """A new token. If the identity server or the user's function fails, keeps the last token for a while, unless it
        expires within the time that an answer may take. While it can be kept, the new one is waited for only half of
        the time."""
        if last is not None and _lasts(last):
            deadline = deadline.within(deadline.remaining_s() / 2)
        try:
            return self._new_token(deadline.remaining_s())
        except (ClusterUnreachableError, AuthenticationError) as error:
            refused = isinstance(error, AuthenticationError) and self._settings.token_function is None
            if last is None or refused or not _lasts(last):
                raise
            now = time.time()
            return replace(last, renew_at=now + (last.expires_at - now) / 2)

    def _new_token(self, timeout_s: float) -> OAuthToken:
        coming = self._coming
        if coming is None or _is_useless(coming):
            get = _asked if self._settings.token_function is None else _called
            coming = self._coming = in_thread(partial(get, self._settings))
        if not wait_for([coming], timeout_s).done:
            raise ClusterUnreachableError(
                f"{_source(self._settings)} gave no token within {duration_text(round(timeout_s, 1))}. No broker was "
                "asked."
            )
        self._coming = None
        return coming.result()


def _is_useless(coming: Future[OAuthToken]) -> bool:
    """Whether nobody should get this result: it came after its caller had gone, and has failed or ended since."""
    return coming.done() and (coming.exception() is not None or coming.result().expires_at <= time.time())


def in_thread(work: Callable[[], T]) -> Future[T]:
    """Do some work in a thread of its own, which doesn't keep the process from ending."""
    coming = Future[T]()

    def finish() -> None:
        try:
            coming.set_result(work())
        except BaseException as error:
            coming.set_exception(error)

    threading.Thread(target=copy_context().run, args=(finish,), name=THREAD, daemon=True).start()
    return coming


def _source(settings: OAuthSettings) -> str:
    if settings.token_function is None:
        return f"The token endpoint {settings.endpoint}"
    return f"oauth_cb {_name_of(settings.token_function)}"


def _lasts(token: OAuthToken) -> bool:
    return token.expires_at - time.time() >= _TIMEOUT_S


def _name_of(function: TokenFunction) -> str:
    return getattr(function, "__qualname__", repr(function))


def _called(settings: OAuthSettings) -> OAuthToken:
    assert settings.token_function is not None
    name, now = _name_of(settings.token_function), time.time()
    try:
        found = settings.token_function(settings.config)
    except Exception as error:  # whatever a user's own code raises
        # Whether nobody has answered. HTTP libraries raise errors of their own from these.
        faults = (isinstance(each, ConnectionError | TimeoutError | socket.gaierror) for each in _chain(error))
        kind = ClusterUnreachableError if any(faults) else AuthenticationError
        raise kind(f"oauth_cb {name} gave no token: {type(error).__name__}: {error}") from error
    try:
        text, expires_at, *more = found
        return _token(str(text), now, float(expires_at), dict(more[1] if len(more) > 1 else {}))
    except (TypeError, ValueError, OverflowError):
        raise AuthenticationError(
            f"oauth_cb {name} returned an invalid {type(found).__name__}. It must return (token, expiry in Unix "
            "seconds), optionally followed by a principal and a dictionary of extensions."
        ) from None


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """An error, and those that it came from."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _token(text: str, now: float, expires_at: float, extensions: Mapping[str, str]) -> OAuthToken:
    if not math.isfinite(expires_at):
        raise ValueError("expires never")
    return OAuthToken(text, now + (expires_at - now) * _USED_OF_LIFE, expires_at, extensions)


def _asked(settings: OAuthSettings) -> OAuthToken:
    """Get a token by the client credentials grant (RFC 6749, 4.4)."""
    now = time.time()
    answer = _post(settings)
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


def _post(settings: OAuthSettings) -> bytes:
    import httpx  # here: it takes a while, and few connections need it

    try:
        context = ssl.create_default_context(cafile=settings.ca_location)
    except OSError as error:
        raise ConfigurationError(f"https.ca.location {settings.ca_location} can't be used: {error}.") from error
    try:
        status, body = asyncio.run(_answer(settings, context))
    except (TimeoutError, httpx.TimeoutException):
        raise _unreachable(settings, "no full answer in time") from None
    except (httpx.TransportError, httpx.InvalidURL, ValueError, ImportError, OSError) as error:
        # Also of a proxy in the environment that httpx doesn't know, or has no library for (SOCKS).
        raise _unreachable(settings, _reason(error)) from None
    if 200 <= status < 300:
        return body
    answer = " ".join(body.decode(errors="replace").split())[:_LONGEST]
    refused = f"The token endpoint {settings.endpoint} answered HTTP {status} for client {settings.client_id}: {answer}"
    if status >= 500 or status == 429:
        raise ClusterUnreachableError(f"{refused}. No broker was asked. Try again later.")
    raise AuthenticationError(
        f"{refused}. Check sasl.oauthbearer.client.id, sasl.oauthbearer.client.secret and sasl.oauthbearer.scope of "
        "the Kafka connection."
    )


def _reason(error: Exception) -> str:
    """Why nobody has answered: what the system says, if it is the one to say."""
    found = next((each for each in _chain(error) if isinstance(each, OSError) and each.errno), error)
    if isinstance(found, OSError) and found.errno and not isinstance(found, socket.gaierror | ssl.SSLError):
        found = OSError(found.errno, os.strerror(found.errno))  # asyncio has words of its own for it
    return str(found).removesuffix(".")


async def _answer(settings: OAuthSettings, context: ssl.SSLContext) -> tuple[int, bytes]:
    """Status and body of the server's answer, up to a size limit. Follows no redirect: the secret goes to this address
    only.

    httpx limits each step, but an answer may drip. A limit on the whole request cancels it wherever it is, and so
    closes its connection; but for a TLS handshake, which httpx must end by itself in order to close.
    """
    import httpx

    assert settings.endpoint is not None and settings.client_id is not None and settings.client_secret is not None
    form = {"grant_type": "client_credentials"} | ({"scope": settings.scope} if settings.scope else {})
    login = settings.client_id, settings.client_secret
    headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
    limits = httpx.Timeout(_TIMEOUT_S, connect=_TIMEOUT_S / 3)  # each of connecting and shaking hands
    async with (
        asyncio.timeout(_TIMEOUT_S),
        httpx.AsyncClient(verify=context, timeout=limits) as client,
        client.stream("POST", settings.endpoint, data=form, auth=login, headers=headers) as response,
    ):
        body = b""
        async for piece in response.aiter_raw():
            body += piece
            if len(body) >= _MOST_BYTES:
                break
        return response.status_code, body


def _unreachable(settings: OAuthSettings, why: str) -> ClusterUnreachableError:
    return ClusterUnreachableError(
        f"The token endpoint {settings.endpoint} can't be reached: {why}. No broker was asked. Check "
        "sasl.oauthbearer.token.endpoint.url of the Kafka connection, and https.ca.location for its certificate."
    )


def _expiry_in(text: str, now: float) -> float:
    """When a JSON Web Token expires; soon for any other token, so that it is renewed before it ends."""
    try:
        claims = text.split(".")[1]
        return float(json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))["exp"])
    except (IndexError, ValueError, KeyError, TypeError):
        return now + _UNKNOWN_LIFE_S
