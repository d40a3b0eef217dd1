"""What operators say to a JVM: a JAAS file named in KAFKA_OPTS, and which of its sections counts where."""

from __future__ import annotations

import pytest

from barnabas.broker.jvm_properties import with_jvm_properties
from barnabas.model.config import broker_config
from barnabas.model.errors import ConfigError
from barnabas.security.sasl.jaas import login_module
from barnabas.security.sasl.offered import jaas_of_broker

OPTIONS = '-Xmx1g "-Djava.security.auth.login.config=/etc/kafka/server jaas.conf" -Dfile.encoding=UTF-8'
FILE = """
/* of all listeners */
KafkaServer {
    org.apache.kafka.common.security.plain.PlainLoginModule required
        username="broker" password="a\\"b\\\\c" // of this broker
        user_broker="a\\"b\\\\c";
    org.apache.kafka.common.security.scram.ScramLoginModule required username="broker" password="scram";
};
outside.KafkaServer {
    org.apache.kafka.common.security.scram.ScramLoginModule required;
};
Client {
    org.apache.zookeeper.server.auth.DigestLoginModule required username="kafka" password="zoo";
};
KafkaClient { com.example.Anything required; };
"""
PROPERTIES = {
    "listeners": "INSIDE://localhost:1,OUTSIDE://localhost:2,PLAINTEXT://localhost:3",
    "listener.security.protocol.map": "INSIDE:SASL_PLAINTEXT,OUTSIDE:SASL_SSL,PLAINTEXT:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "listener.name.outside.sasl.enabled.mechanisms": "SCRAM-SHA-256",
}


def told(values: dict[str, str] | None = None, *, options: str = OPTIONS, file: str = FILE) -> dict[str, str]:
    def read(path: str) -> str:
        assert path == "/etc/kafka/server jaas.conf"
        return file

    return with_jvm_properties(PROPERTIES if values is None else values, options, read)


def test_how_long_a_request_zookeeper_takes_is_read_off_the_jvms_words() -> None:
    key = "barnabas.zookeeper.jute.maxbuffer"
    assert broker_config(told(options="")).number(key) == 1_048_575
    assert broker_config(told(options="-Djute.maxbuffer=4194304")).number(key) == 4_194_304
    assert broker_config(told({**PROPERTIES, key: "7"}, options="-Djute.maxbuffer=4194304")).number(key) == 7


def test_a_listener_takes_its_own_section_before_that_of_all() -> None:
    config = broker_config(told())
    plain = jaas_of_broker(config, "INSIDE", "PLAIN")
    assert plain.options == {"username": "broker", "password": 'a"b\\c', "user_broker": 'a"b\\c'}
    assert jaas_of_broker(config, "INSIDE", "SCRAM-SHA-256").options == {"username": "broker", "password": "scram"}
    assert jaas_of_broker(config, "OUTSIDE", "SCRAM-SHA-256").options == {}
    assert not [name for name in told() if name.startswith("listener.name.plaintext.")]


def test_login_modules_that_the_jvm_is_to_refuse_are_refused() -> None:
    """An operator who turned PLAIN off everywhere has it off here."""
    plain = "org.apache.kafka.common.security.plain.PlainLoginModule"
    config = broker_config(told(options=f"{OPTIONS} -Dorg.apache.kafka.disallowed.login.modules={plain}"))
    with pytest.raises(ConfigError, match="PlainLoginModule is not allowed"):
        jaas_of_broker(config, "INSIDE", "PLAIN")
    assert jaas_of_broker(config, "INSIDE", "SCRAM-SHA-256")


def test_what_the_properties_say_wins() -> None:
    own = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="me" password="mine";'
    key = "listener.name.inside.scram-sha-256.sasl.jaas.config"
    assert told({**PROPERTIES, key: own})[key] == own
    mine = {"barnabas.zookeeper.sasl.username": "me", "barnabas.zookeeper.sasl.password": "mine"}
    assert {name: text for name, text in told({**PROPERTIES, **mine}).items() if name in mine} == mine


def test_the_section_client_is_who_the_broker_is_at_zookeeper() -> None:
    assert told()["barnabas.zookeeper.sasl.password"] == "zoo"
    assert (
        told(options=f"{OPTIONS} -Dzookeeper.sasl.client=false")
        .keys()
        .isdisjoint({"barnabas.zookeeper.sasl.username", "barnabas.zookeeper.sasl.password"})
    )
    other = FILE.replace("Client {\n    org.apache.zoo", "Other {\n    org.apache.zoo")
    assert "barnabas.zookeeper.sasl.username" not in told(file=other)
    named = told(options=f"{OPTIONS} -Dzookeeper.sasl.clientconfig=Other", file=other)
    assert named["barnabas.zookeeper.sasl.username"] == "kafka"


def test_kerberos_at_zookeeper_comes_with_what_its_servers_are_called() -> None:
    client = FILE[FILE.index("Client {") : FILE.index("KafkaClient {")]
    kerberos = 'com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true keyTab="/a b" principal="k/h@R";'
    file = FILE.replace(client, f"Client {{ {kerberos} }};\n")
    words = "-Dzookeeper.sasl.client.username=zk -Dzookeeper.server.realm=Z -Dzookeeper.server.principal=zk/all@Z"
    found = told(options=f"{OPTIONS} {words} -Dzookeeper.sasl.client.canonicalize.hostname=false", file=file)
    module = login_module(found["barnabas.zookeeper.sasl.jaas.config"])
    assert module.options == {"useKeyTab": "true", "keyTab": "/a b", "principal": "k/h@R"}
    config = broker_config(found)
    assert config.text("barnabas.zookeeper.sasl.client.username") == "zk"
    assert (config.text("barnabas.zookeeper.server.principal"), config.text("barnabas.zookeeper.server.realm")) == (
        "zk/all@Z",
        "Z",
    )
    assert not config.flag("barnabas.zookeeper.sasl.client.canonicalize.hostname")
    assert "barnabas.zookeeper.sasl.username" not in found
    mine = {**PROPERTIES, "barnabas.zookeeper.sasl.username": "me"}
    assert "barnabas.zookeeper.sasl.jaas.config" not in told(mine, file=file)


def test_tls_towards_zookeeper_is_asked_for_by_the_jvms_own_names_as_well() -> None:
    words = (
        "-Dzookeeper.client.secure=true -Dzookeeper.clientCnxnSocket=org.apache.zookeeper.ClientCnxnSocketNetty "
        "-Dzookeeper.ssl.keyStore.location=/k.jks -Dzookeeper.ssl.keyStore.type=JKS "
        "-Dzookeeper.ssl.keyStore.password=kp "
        "-Dzookeeper.ssl.trustStore.location=/t.p12 -Dzookeeper.ssl.trustStore.password=tp "
        "-Dzookeeper.ssl.enabledProtocols=TLSv1.3 -Dzookeeper.ssl.ciphersuites=TLS_AES_256_GCM_SHA384 "
        "-Dzookeeper.ssl.crl=true -Dzookeeper.ssl.hostnameVerification=false"
    )
    config = broker_config(told({"zookeeper.ssl.truststore.location": "/mine.pem"}, options=words))
    assert config.flag("zookeeper.ssl.client.enable")
    assert config.text("zookeeper.ssl.keystore.location") == "/k.jks"
    assert config.text("zookeeper.ssl.keystore.password") == "kp"
    assert config.text("zookeeper.ssl.keystore.type") == "JKS"
    assert config.text("zookeeper.ssl.truststore.location") == "/mine.pem"
    assert config.text("zookeeper.ssl.truststore.password") == "tp"
    assert config.joined("zookeeper.ssl.enabled.protocols") == "TLSv1.3"
    assert config.joined("zookeeper.ssl.cipher.suites") == "TLS_AES_256_GCM_SHA384"
    assert config.flag("zookeeper.ssl.crl.enable")
    assert config.text("zookeeper.ssl.endpoint.identification.algorithm") == ""
    checks = broker_config(told({}, options="-Dzookeeper.ssl.hostnameVerification=true"))
    assert checks.text("zookeeper.ssl.endpoint.identification.algorithm") == "HTTPS"
    assert broker_config(told({}, options="-Dzookeeper.ssl.ocsp=true")).flag("zookeeper.ssl.ocsp.enable")


def test_a_key_of_the_properties_names_the_file_as_well() -> None:
    values = {**PROPERTIES, "java.security.auth.login.config": "/etc/kafka/server jaas.conf"}
    assert told(values, options="")["listener.name.outside.scram-sha-256.sasl.jaas.config"].endswith("required;")


def test_without_a_file_there_is_nothing_beside_the_properties() -> None:
    allowed = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
    assert told(options="-Xmx1g") == PROPERTIES
    assert told(options=f"-D{allowed}=file:/keys") == {**PROPERTIES, allowed: "file:/keys"}


@pytest.mark.parametrize(
    ("file", "complaint"),
    [
        ("KafkaServer { a.B required; }", "it needs ; behind the end of KafkaServer"),
        ("KafkaServer a.B required;", "it needs { behind KafkaServer"),
        ("KafkaServer { a.B required; ", "it needs a login module's class, at its end"),
        ("A { a.B required; }; A { a.B required; };", "section A is there twice"),
        ('A { a.B required x="${secret}"; };', "option x in section A asks for a Java property"),
        ("KafkaServer { a.B required; };", "no org.apache.kafka.common.security.plain.PlainLoginModule in a section"),
        (FILE.replace("DigestLoginModule", "Krb5LoginModule"), "says for ZooKeeper org.apache.zookeeper.server.auth"),
    ],
)
def test_a_file_that_does_not_do_is_refused_in_a_sentence(file: str, complaint: str) -> None:
    with pytest.raises(ConfigError) as refused:
        told(file=file)
    assert "java.security.auth.login.config /etc/kafka/server jaas.conf" in str(refused.value)
    assert complaint in str(refused.value)


def test_a_file_that_is_not_there_is_said() -> None:
    def read(path: str) -> str:
        raise FileNotFoundError(2, "No such file or directory", path)

    with pytest.raises(ConfigError, match="cannot be read"):
        with_jvm_properties(PROPERTIES, OPTIONS, read)
    with pytest.raises(ConfigError, match="KAFKA_OPTS cannot be read"):
        with_jvm_properties(PROPERTIES, '-Dx="', read)


def test_a_modules_text_is_what_it_is_read_from() -> None:
    module = login_module('a.B required one="x\\"y\\\\z" two="line\\nline";')
    assert login_module(module.text) == module
