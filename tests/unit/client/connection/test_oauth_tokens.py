"""Tokens: how long one is used, and what is said where there is none. An identity server on this machine."""

from __future__ import annotations

import math
import socket
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import Event, Semaphore, Thread, enumerate as threads
from typing import Any
from urllib.request import urlopen

import httpx
import pytest
import requests

from airflow_kafka_offsets.client.connection import oauth_tokens
from airflow_kafka_offsets.client.connection.deadline import Deadline
from airflow_kafka_offsets.client.connection.oauth_tokens import THREAD, OAuthSettings, TokenSource
from airflow_kafka_offsets.errors import AuthenticationError, ClusterUnreachableError, ConfigurationError
from dev.token_server import TokenServer
from tests.patience import PATIENCE_S, wait_until


@pytest.fixture
def server(tmp_path: Path) -> Iterator[TokenServer]:
    with TokenServer({"me": "s3cret"}, tmp_path, life_s=100) as running:
        yield running


@pytest.fixture
def settings(server: TokenServer) -> OAuthSettings:
    return OAuthSettings(endpoint=server.endpoint, client_id="me", client_secret="s3cret")


def look_ups() -> int:
    """How many are under way."""
    return sum(thread.name == THREAD for thread in threads())


def await_no_look_up() -> None:
    wait_until(lambda: look_ups() == 0, "all look-ups have ended")


class TestFromAnIdentityServer:
    @pytest.mark.parametrize("tells", [{}, {"expires_in": None}, {"expires_in": "100"}])
    def test_is_renewed_at_four_fifths_of_its_life(
        self, server: TokenServer, settings: OAuthSettings, tells: dict[str, Any]
    ) -> None:
        """As the answer tells it, else as the token itself does."""
        server.tells = tells
        source = TokenSource(settings)
        token = source.token()
        assert token.expires_at - token.renew_at == pytest.approx(20, abs=3)
        assert source.token() is token
        assert len(server.given) == 1

    def test_a_server_that_fails_before_the_last_one_has_ended_ends_nothing(
        self, server: TokenServer, settings: OAuthSettings, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It is asked again after half of what is left, and its failure told once the token has ended."""
        source = TokenSource(settings)
        first = source.token()
        began = first.expires_at - 100
        monkeypatch.setattr(server, "fails_with", 503)
        monkeypatch.setattr(time, "time", lambda: began + 82)
        kept = source.token()
        assert kept.text == first.text
        assert 90 <= kept.renew_at - began <= 92
        monkeypatch.setattr(time, "time", lambda: began + 101)
        with pytest.raises(ClusterUnreachableError, match="answered HTTP 503"):
            source.token()

    def test_one_whose_life_nobody_tells_serves_for_seconds(
        self, server: TokenServer, settings: OAuthSettings, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """All logins of a call have the same one."""
        server.tells = {"access_token": "opaque", "expires_in": None}
        source = TokenSource(settings)
        first = source.token()
        assert source.token() is first
        monkeypatch.setattr(time, "time", lambda: first.expires_at)
        assert source.token().text == "opaque"
        assert len(server.given) == 2

    @pytest.mark.parametrize(
        "tells", [{"access_token": None}, {"expires_in": "soon"}, {"expires_in": "nan"}, {"expires_in": float("inf")}]
    )
    def test_an_answer_without_one(self, server: TokenServer, settings: OAuthSettings, tells: dict[str, Any]) -> None:
        server.tells = tells
        with pytest.raises(AuthenticationError, match="without a usable access_token for client me"):
            TokenSource(settings).token()

    def test_the_secret_follows_no_redirect(self, server: TokenServer, settings: OAuthSettings) -> None:
        server.fails_with = 307
        with pytest.raises(AuthenticationError, match="answered HTTP 307 for client me"):
            TokenSource(settings).token()

    def test_something_else_listens_there(self, settings: OAuthSettings) -> None:
        with socket.create_server(("127.0.0.1", 0)) as other:

            def answer() -> None:
                connection, _ = other.accept()
                with connection:
                    connection.recv(65536)
                    connection.sendall(b"220 smtp.example.org ESMTP\r\n")

            Thread(target=answer, daemon=True).start()
            endpoint = f"http://127.0.0.1:{other.getsockname()[1]}/token"
            with pytest.raises(ClusterUnreachableError, match=r"can't be reached: (Server|illegal|\[Errno)"):
                TokenSource(replace(settings, endpoint=endpoint)).token()

    @pytest.mark.parametrize(
        ("proxy", "endpoint", "why"),
        [
            ("socks5://127.0.0.1:1", "http://login.example.org/token", "Using SOCKS proxy"),  # its library isn't here
            ("ftp://127.0.0.1:1", "http://login.example.org/token", "Unknown scheme"),
            ("", "http://a..b/token", ".*(not known|label)"),
        ],
    )
    def test_an_address_that_can_not_be_one_is_told(
        self, settings: OAuthSettings, proxy: str, endpoint: str, why: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The endpoint's, or that of a proxy in the environment."""
        monkeypatch.setenv("ALL_PROXY", proxy)
        for name in ("no_proxy", "NO_PROXY"):
            monkeypatch.delenv(name, raising=False)
        with pytest.raises(ClusterUnreachableError, match=rf"/token can't be reached: {why}"):
            TokenSource(replace(settings, endpoint=endpoint)).token()

    @pytest.mark.parametrize("how", ["whole answer", "body", "handshake", "proxy"])
    def test_of_an_answer_that_never_ends_nothing_goes_on(
        self, settings: OAuthSettings, how: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """However often it is asked for, and whatever it is that drips."""
        monkeypatch.setattr(oauth_tokens, "_TIMEOUT_S", 1.0)
        begins = {
            "whole answer": b"HTTP/1.1 ",
            "body": b"HTTP/1.1 200 OK\r\n\r\n",
            "handshake": b"\x16\x03\x03\x40\x00",
            "proxy": b"HTTP/1.1 ",
        }
        left, accepted = Semaphore(0), []
        with socket.create_server(("127.0.0.1", 0)) as other:

            def answer(connection: socket.socket) -> None:
                with connection, suppress(OSError):
                    connection.recv(65536)
                    connection.sendall(begins[how])
                    while True:
                        connection.sendall(b" ")
                        time.sleep(0.05)
                left.release()

            def accept() -> None:
                with suppress(OSError):
                    while True:
                        accepted.append(other.accept()[0])
                        Thread(target=answer, args=accepted[-1:], daemon=True).start()

            Thread(target=accept, daemon=True).start()
            place = f"127.0.0.1:{other.getsockname()[1]}"
            if how == "proxy":
                monkeypatch.setenv("https_proxy", f"http://{place}")
                monkeypatch.delenv("no_proxy", raising=False)
                place = "login.example.org"
            scheme = "http" if how in ("whole answer", "body") else "https"
            source = TokenSource(replace(settings, endpoint=f"{scheme}://{place}/token"))
            until_s = time.monotonic() + PATIENCE_S
            while len(accepted) < 3 and time.monotonic() < until_s:  # on a busy machine, some don't get that far
                with pytest.raises(ClusterUnreachableError, match=r"no full answer in time|gave no token within"):
                    source.token()
                await_no_look_up()
            assert len(accepted) >= 3
            for _ in accepted:
                assert left.acquire(timeout=PATIENCE_S), "the server has seen that its connection has ended"

    def test_while_one_can_not_be_ended_no_other_begins(
        self, settings: OAuthSettings, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The look-up of a name, for example, which nothing ends."""
        monkeypatch.setattr(oauth_tokens, "_TIMEOUT_S", 0.5)
        go, begun, asked = Event(), Event(), []

        def hang(*place: Any, **_: Any) -> Any:
            asked.append(place)
            begun.set()
            go.wait(PATIENCE_S)
            raise OSError("no such name")

        monkeypatch.setattr(socket, "getaddrinfo", hang)
        source = TokenSource(replace(settings, endpoint="http://login.example.org/token"))
        try:
            for _ in range(2):
                with pytest.raises(ClusterUnreachableError, match="gave no token within"):
                    source.token()
                assert begun.wait(PATIENCE_S)
            assert (len(asked), look_ups()) == (1, 1)
        finally:
            go.set()

    def test_an_answer_without_measure_is_read_to_a_limit(self, server: TokenServer, settings: OAuthSettings) -> None:
        server.tells = {"padding": "x" * (2 << 20)}
        with pytest.raises(AuthenticationError, match="without a usable access_token"):
            TokenSource(settings).token()

    def test_certificates_that_can_not_be_read(self, settings: OAuthSettings) -> None:
        with pytest.raises(ConfigurationError, match=r"https\.ca\.location /no/such\.pem can't be used"):
            TokenSource(replace(settings, ca_location="/no/such.pem")).token()

    def test_neither_secret_nor_token_is_shown(self, settings: OAuthSettings) -> None:
        token = TokenSource(settings).token()
        assert "s3cret" not in repr(settings)
        assert token.text not in repr(token)


class TestFromAFunction:
    def test_is_called_with_the_config_and_may_give_extensions(self) -> None:
        def give(config: str) -> tuple[Any, ...]:
            return f"for {config}", time.time() + 10, "principal", {"pool": "p-1"}

        source = TokenSource(OAuthSettings(give, "scope=x"))
        token = source.token()
        assert (token.text, dict(token.extensions)) == ("for scope=x", {"pool": "p-1"})
        assert source.token() is token

    def test_one_that_is_slow_to_renew_leaves_time_to_use_the_last_one(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Half of the time, and the last token is kept as if the function had failed."""
        go, waited = Event(), list[float]()

        def give(_: str) -> tuple[str, float]:
            if waited:
                go.wait(PATIENCE_S)
            return "token", time.time() + 1000

        def wait(coming: Any, timeout_s: float) -> Any:
            waited.append(timeout_s)
            return futures.wait(coming, timeout_s if len(waited) == 1 else 0)

        monkeypatch.setattr(oauth_tokens, "wait_for", wait)
        source = TokenSource(OAuthSettings(give))
        first = source.token(Deadline.after(PATIENCE_S))
        source._token = replace(first, renew_at=time.time())
        assert source.token(Deadline.after(600)).text == first.text
        go.set()
        assert 200 < waited[1] <= 300

    def test_one_that_was_too_slow_is_called_again_when_its_token_has_ended(self) -> None:
        """Nobody asked for so long, as between two polls."""
        go, given = Event(), []

        def give(_: str) -> tuple[str, float]:
            given.append(len(given))
            if len(given) == 1:
                go.wait(PATIENCE_S)
            return f"token-{len(given)}", time.time() + (0 if len(given) == 1 else 100)

        source = TokenSource(OAuthSettings(give))
        with pytest.raises(ClusterUnreachableError, match="gave no token within"):
            source.token(Deadline.after(0.1))
        go.set()
        await_no_look_up()
        assert source.token(Deadline.after(PATIENCE_S)).text == "token-2"

    def test_one_that_fails_is_named(self) -> None:
        def give(config: str) -> tuple[Any, ...]:
            raise KeyError("region")

        with pytest.raises(AuthenticationError, match=r"oauth_cb .*give gave no token: KeyError: 'region'"):
            TokenSource(OAuthSettings(give)).token()

    @pytest.mark.parametrize("get", [httpx.get, requests.get, urlopen], ids=["httpx", "requests", "urllib"])
    def test_one_that_reaches_nobody_may_do_better_later(self, get: Callable[[str], Any]) -> None:
        """An error that isn't transient ends a task for good, without a retry."""
        with socket.socket() as nobody:
            nobody.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{nobody.getsockname()[1]}/token"
            with pytest.raises(ClusterUnreachableError, match=r"oauth_cb .* gave no token: \w+: .*refused"):
                TokenSource(OAuthSettings(lambda _: get(url))).token()

    def test_one_that_is_refused_by_somebody_is_not_called_again(self, server: TokenServer) -> None:
        with pytest.raises(AuthenticationError, match=r"gave no token: HTTPError: 4\d\d Client Error"):
            TokenSource(OAuthSettings(lambda _: requests.post(server.endpoint).raise_for_status())).token()  # type: ignore[arg-type, return-value]

    @pytest.mark.parametrize("found", [None, "token", ("token",), ("token", "soon"), ("token", math.nan)])
    def test_one_that_returns_something_else_is_named(self, found: Any) -> None:
        with pytest.raises(AuthenticationError, match=r"returned an invalid \w+\. It must return \(token, expiry"):
            TokenSource(OAuthSettings(lambda _: found)).token()
