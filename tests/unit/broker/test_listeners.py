import pytest

from barnabas.broker.listeners import listeners_of
from barnabas.model.config import broker_config
from barnabas.model.errors import ConfigError


def parsed(**values):
    return listeners_of(broker_config({key.replace("_", "."): value for key, value in values.items()}), "castle")


def test_a_listener_that_binds_every_interface_is_advertised_under_the_host_name():
    listeners = parsed(listeners="PLAINTEXT://:9092")
    assert [str(each) for each in listeners.bound] == ["PLAINTEXT://:9092"]
    assert [str(each) for each in listeners.advertised] == ["PLAINTEXT://castle:9092"]
    assert listeners.inter_broker == "PLAINTEXT"


def test_listeners_may_have_names_of_their_own():
    listeners = listeners_of(
        broker_config(
            {
                "listeners": "CLIENTS://localhost:1, INTERNAL://[::1]:2",
                "listener.security.protocol.map": "CLIENTS:SASL_SSL,INTERNAL:PLAINTEXT",
                "inter.broker.listener.name": "INTERNAL",
            }
        ),
        "castle",
    )
    assert [each.security_protocol for each in listeners.bound] == ["SASL_SSL", "PLAINTEXT"]
    assert listeners.bound[1].host == "::1"
    assert listeners.inter_broker == "INTERNAL"


def test_port_zero_is_advertised_as_the_port_that_was_bound():
    listeners = parsed(listeners="PLAINTEXT://localhost:0").advertise_bound({"PLAINTEXT": 4711})
    assert str(listeners.advertised[0]) == "PLAINTEXT://localhost:4711"


def test_an_advertised_port_of_its_own_stays():
    listeners = parsed(
        listeners="PLAINTEXT://localhost:0", advertised_listeners="PLAINTEXT://balancer:80"
    ).advertise_bound({"PLAINTEXT": 4711})
    assert str(listeners.advertised[0]) == "PLAINTEXT://balancer:80"
    assert listeners.bound[0].port == 4711


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"listeners": "localhost:9092"}, "NAME://host:port"),
        ({"listeners": "PLAINTEXT://localhost:99999"}, "0 to 65535"),
        ({"listeners": "OTHER://localhost:1"}, "listener.security.protocol.map says no protocol"),
        ({"listeners": ","}, "at least one"),
        ({"listeners": "PLAINTEXT://a:1,PLAINTEXT://a:2"}, "more than once"),
        ({"listeners": "PLAINTEXT://a:1,SSL://a:1"}, "more than once"),
        (
            {"listeners": "PLAINTEXT://:1", "advertised.listeners": "SSL://a:1"},
            "not one of listeners",
        ),
        (
            {"listeners": "PLAINTEXT://:1", "advertised.listeners": "PLAINTEXT://0.0.0.0:1"},
            "wildcard",
        ),
        ({"listeners": "SSL://:1"}, "not one of the advertised listeners"),
        (
            {"listeners": "PLAINTEXT://:1", "listener.security.protocol.map": "PLAINTEXT=PLAINTEXT"},
            "NAME:PROTOCOL",
        ),
        (
            {
                "listeners": "PLAINTEXT://:1",
                "inter.broker.listener.name": "PLAINTEXT",
                "security.inter.broker.protocol": "PLAINTEXT",
            },
            "Only one of",
        ),
    ],
)
def test_what_is_wrong_with_the_listeners_is_said(values, reason):
    with pytest.raises(ConfigError, match=reason):
        listeners_of(broker_config(values), "castle")
