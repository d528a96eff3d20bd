"""What a connection's keys mean, and which are refused."""

from __future__ import annotations

import pytest

from airflow_kafka_offsets.client.connection.java_settings import JavaSettings, jaas_quote
from airflow_kafka_offsets.client.connection.oauth_tokens import OAuthSettings
from airflow_kafka_offsets.client.connection.settings import ClientSettings, SaslSettings, TlsSettings, tls_context
from airflow_kafka_offsets.errors import ConfigurationError

SERVERS = {"bootstrap.servers": "one:9092, two:9093"}
LOGIN = SERVERS | {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.username": "loader",
    "sasl.password": "s3cret",
}
BEARER = {
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.method": "oidc",
    "sasl.oauthbearer.token.endpoint.url": "https://login.example.org/token",
    "sasl.oauthbearer.client.id": "loader",
    "sasl.oauthbearer.client.secret": 's"3cret',
}
MSK = {"bootstrap.servers": "b-1.demo.abc.c2.kafka.eu-west-1.amazonaws.com:9098", "security.protocol": "SASL_SSL"}


def give_token(config: str) -> tuple[str, float]:
    return config, 0.0


class TestClientSettings:
    def test_servers_alone_make_a_plain_connection(self) -> None:
        assert ClientSettings.from_config(SERVERS) == ClientSettings(("one:9092", "two:9093"))

    def test_a_login_over_tls_is_read(self) -> None:
        settings = ClientSettings.from_config(LOGIN | {"ssl.ca.location": "/ca.pem"})
        assert settings.sasl == SaslSettings("SCRAM-SHA-512", "loader", "s3cret")
        assert settings.tls == TlsSettings(ca_location="/ca.pem")

    def test_keys_of_consumers_and_producers_are_accepted_without_effect(self) -> None:
        shared = SERVERS | {"group.id": "g", "enable.auto.commit": False, "linger.ms": 5, "acks": "all"}
        assert ClientSettings.from_config(shared) == ClientSettings.from_config(SERVERS)

    def test_a_misspelt_key_is_refused_and_the_right_one_suggested(self) -> None:
        with pytest.raises(ConfigurationError, match=r"ssl\.ca\.loction.*Did you mean ssl\.ca\.location\?"):
            ClientSettings.from_config(SERVERS | {"ssl.ca.loction": "/ca.pem"})

    def test_a_known_key_that_is_not_supported_says_what_to_do(self) -> None:
        with pytest.raises(ConfigurationError, match=r"ssl\.ca\.pem.*name it in ssl\.ca\.location"):
            ClientSettings.from_config(SERVERS | {"ssl.ca.pem": "-----BEGIN"})

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"bootstrap.servers": ""}, r"has no bootstrap\.servers"),
            ({"bootstrap.servers": "one:port"}, r"'one:port', which is not host:port"),
            ({"bootstrap.servers": "one:99999"}, r"not host:port"),
            ({"security.protocol": "TLS"}, r"security\.protocol is 'TLS'; it must be PLAINTEXT or SSL"),
            ({"sasl.mechanism": "NTLM"}, r"sasl\.mechanism is 'NTLM'; it must be GSSAPI or PLAIN.*AWS_MSK_IAM"),
            ({"sasl.mechanism": "OAUTHBEARER"}, r"OAUTHBEARER needs sasl\.oauthbearer\.method=oidc with"),
            (BEARER | {"sasl.oauthbearer.method": "magic"}, r"it must be default or oidc"),
            (BEARER | {"sasl.oauthbearer.client.id": None}, r"oidc needs sasl\.oauthbearer\.client\.id in"),
            (BEARER | {"sasl.oauthbearer.token.endpoint.url": "file:///etc/passwd"}, r"not an HTTP or HTTPS URL"),
            (
                BEARER | {"sasl.oauthbearer.token.endpoint.url": "https://i -javaagent:x.jar"},
                r"not an HTTP or HTTPS URL",
            ),
            (BEARER | {"sasl.oauthbearer.token.endpoint.url": "https:///token"}, r"not an HTTP or HTTPS URL"),
            (BEARER | {"sasl.oauthbearer.extensions": "a"}, r"it must be name=value,name=value"),
            (BEARER | {"sasl.oauthbearer.extensions": "a; b.Module required c=d"}, r"names must consist of letters"),
            (BEARER | {"sasl.oauthbearer.extensions": "auth=d"}, r"names must consist of letters"),
            (BEARER | {"sasl.oauthbearer.method": None, "oauth_cb": "os.system"}, r"callback_allowlist contains it"),
            (
                {"sasl.mechanism": "AWS_MSK_IAM", "security.protocol": "SASL_PLAINTEXT"},
                r"needs security\.protocol SASL_SSL",
            ),
            ({"sasl.password": None}, r"needs sasl\.password"),
            ({"socket.timeout.ms": "soon"}, r"socket\.timeout\.ms is 'soon'"),
            ({"ssl.endpoint.identification.algorithm": "http"}, r"it must be https or none"),
            ({"enable.ssl.certificate.verification": "maybe"}, r"it must be true or false"),
        ],
    )
    def test_an_impossible_value_is_refused_by_its_key(self, change: dict[str, object], message: str) -> None:
        with pytest.raises(ConfigurationError, match=message):
            ClientSettings.from_config(LOGIN | change)

    @pytest.mark.parametrize("server", ["broker", "[::1]:9092", "10.0.0.1:9092", "a-b.c_d.example:1"])
    def test_addresses_of_all_kinds_are_taken(self, server: str) -> None:
        assert ClientSettings.from_config({"metadata.broker.list": server}).bootstrap_servers == (server,)

    def test_secrets_are_not_shown(self) -> None:
        shown = repr(ClientSettings.from_config(LOGIN | {"ssl.key.password": "k3y"}))
        assert "s3cret" not in shown
        assert "k3y" not in shown
        assert "3cret" not in repr(ClientSettings.from_config(LOGIN | BEARER))

    @pytest.mark.parametrize("mechanism", ["OAUTHBEARER", "AWS_MSK_IAM"])
    def test_amazons_brokers_are_known_by_their_names(self, mechanism: str) -> None:
        """As the Kafka provider does."""
        assert ClientSettings.from_config(MSK | {"sasl.mechanism": mechanism}).sasl == SaslSettings("AWS_MSK_IAM")

    def test_a_function_of_the_users_comes_first_there_too(self) -> None:
        sasl = ClientSettings.from_config(MSK | {"sasl.mechanism": "OAUTHBEARER", "oauth_cb": give_token}).sasl
        assert sasl is not None
        assert sasl.oauth == OAuthSettings(give_token)

    def test_booleans_of_json_are_read(self) -> None:
        settings = ClientSettings.from_config(LOGIN | {"enable.ssl.certificate.verification": False})
        assert settings.tls is not None
        assert not settings.tls.verify_certificate

    def test_a_file_that_cannot_be_read_is_refused_by_its_key(self) -> None:
        with pytest.raises(ConfigurationError, match=r"ssl\.ca\.location /no/such\.pem can't be used"):
            tls_context(TlsSettings(ca_location="/no/such.pem"))


class TestJavaSettings:
    def test_a_login_becomes_a_jaas_line_apart_from_the_rest(self) -> None:
        java = JavaSettings.from_config(LOGIN | {"ssl.ca.location": "/ca.pem", "group.id": "ignored"})
        assert java.plain == {
            "kafka.bootstrap.servers": "one:9092,two:9093",
            "kafka.security.protocol": "SASL_SSL",
            "kafka.sasl.mechanism": "SCRAM-SHA-512",
            "kafka.ssl.truststore.type": "PEM",
            "kafka.ssl.truststore.location": "/ca.pem",
        }
        assert java.secret == {
            "kafka.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
            'username="loader" password="s3cret";'
        }
        assert "s3cret" not in repr(java)

    def test_a_password_with_quotes_and_backslashes_is_escaped(self) -> None:
        assert jaas_quote('a"b\\c\n') == '"a\\"b\\\\c\\n"'

    def test_a_client_certificate_becomes_a_pem_keystore(self) -> None:
        config = SERVERS | {
            "security.protocol": "ssl",
            "ssl.certificate.location": "/me.pem",
            "ssl.key.location": "/me.pem",
            "ssl.key.password": "k3y",
            "ssl.endpoint.identification.algorithm": "none",
        }
        java = JavaSettings.from_config(config)
        assert java.plain["kafka.ssl.keystore.location"] == "/me.pem"
        assert java.plain["kafka.ssl.endpoint.identification.algorithm"] == ""
        assert java.secret == {"kafka.ssl.key.password": "k3y"}

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"enable.ssl.certificate.verification": "false"}, "has no counterpart in Spark"),
            ({"ssl.certificate.location": "/c.pem", "ssl.key.location": "/k.pem"}, "from one PEM file"),
        ],
    )
    def test_what_java_cannot_do_is_refused_by_name(self, change: dict[str, str], message: str) -> None:
        with pytest.raises(ConfigurationError, match=message):
            JavaSettings.from_config(LOGIN | change)

    def test_an_identity_servers_client_is_in_the_jaas_line_alone(self) -> None:
        more = {
            "sasl.oauthbearer.scope": "kafka",
            "sasl.oauthbearer.extensions": "pool=p-1",
            "https.ca.location": "/i.pem",
        }
        java = JavaSettings.from_config(LOGIN | BEARER | more)
        assert java.plain["kafka.sasl.login.callback.handler.class"].endswith(".OAuthBearerLoginCallbackHandler")
        assert java.plain["kafka.sasl.oauthbearer.token.endpoint.url"] == "https://login.example.org/token"
        assert java.secret == {
            "kafka.sasl.jaas.config": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
            'clientId="loader" clientSecret="s\\"3cret" scope="kafka" extension_pool="p-1" '
            'ssl.truststore.type="PEM" ssl.truststore.location="/i.pem";'
        }

    def test_a_class_of_javas_may_get_the_tokens(self) -> None:
        own = {"sasl.mechanism": "OAUTHBEARER", "oauth_cb": give_token, "sasl.login.callback.handler.class": "org.Own"}
        java = JavaSettings.from_config(LOGIN | own)
        assert java.plain["kafka.sasl.login.callback.handler.class"] == "org.Own"
        assert java.secret == {}
        with pytest.raises(ConfigurationError, match="can't call oauth_cb"):
            JavaSettings.from_config(LOGIN | own | {"sasl.login.callback.handler.class": ""})

    def test_amazons_iam_is_signed_where_spark_runs(self) -> None:
        java = JavaSettings.from_config(MSK | {"sasl.mechanism": "AWS_MSK_IAM"})
        assert java.secret == {}
        assert java.plain == {
            "kafka.bootstrap.servers": MSK["bootstrap.servers"],
            "kafka.security.protocol": "SASL_SSL",
            "kafka.sasl.mechanism": "AWS_MSK_IAM",
            "kafka.sasl.jaas.config": "software.amazon.msk.auth.iam.IAMLoginModule required;",
            "kafka.sasl.client.callback.handler.class": "software.amazon.msk.auth.iam.IAMClientCallbackHandler",
        }

    def test_kerberos_leaves_its_login_to_the_machine(self) -> None:
        java = JavaSettings.from_config(SERVERS | {"security.protocol": "SASL_PLAINTEXT"})
        assert java.plain["kafka.sasl.mechanism"] == "GSSAPI"
        assert java.secret == {}
