"""Passwords that lie encrypted in ZooKeeper: what Apache Kafka 3.9.2 wrote is read, and nothing is read by guessing."""

from __future__ import annotations

from os import urandom

import pytest

from barnabas.model.config import broker_config
from barnabas.model.errors import ConfigError
from barnabas.security.password_encoder import PasswordEncoder, password_encoder

SECRET, PASSWORD = "a secret, ü", "pä=,ss:word"
APACHES = (
    "initializationVector:nAbd0pR9lRB7fk/y3fiMng==,keyLength:128,salt:aJtv2FRRj//AwmpWE8n1aFlPUKKm3g9P32oXdNs3n2TG9GwEOV"
    "mEkjqGiEinlcZtZHIU8ILdINbzWaGg+YY5ocEh8sTJTpPFwREZmTUglmskbHXdlJ7a/3Q+5+Jyefcl7JVTWcJJPRT62qbcZVBGCoQDq6EDsUB5WV+DXl"
    "terqJKkMpIe7Dj/uIj4v8V/+pXU3la9lXyY4zjujm1pYvBBy0EyJpKcyFcbidEk5At60ct2Tceh1dCheqtAWxUUTgpM5vMW+a8oamaioNYpYIrz2fi9n"
    "FHG1gbPfnu5uBhlzx+V+OFwvDXIMektfcIL+4iGN0dNm4jIGDCLSu0QQzddA==,keyFactoryAlgorithm:PBKDF2WithHmacSHA512,cipherAlgor"
    "ithm:AES/CBC/PKCS5Padding,iterations:4096,passwordLength:11,encryptedPassword:vdgywcxleQqgcat6dNiWeQ=="
)
"""Of the same secret and password."""


def test_what_apache_kafka_wrote_is_read() -> None:
    assert PasswordEncoder(SECRET).decode(APACHES) == PASSWORD


@pytest.mark.parametrize("password", ["", "x", "exactly sixteen!", PASSWORD, "\N{GRINNING FACE}" * 20])
def test_what_is_written_is_read_and_is_never_twice_the_same(password: str) -> None:
    encoder = PasswordEncoder(SECRET)
    first, second = encoder.encode(password, urandom), encoder.encode(password, urandom)
    assert first != second
    assert encoder.decode(first) == encoder.decode(second) == password


def test_an_old_secret_reads_and_does_not_write() -> None:
    changed = PasswordEncoder("new", (SECRET,))
    assert changed.decode(APACHES) == PASSWORD
    with pytest.raises(ConfigError):
        PasswordEncoder(SECRET).decode(changed.encode(PASSWORD, urandom))


@pytest.mark.parametrize(
    "damaged",
    [
        "",
        "plain",
        APACHES[: len(APACHES) // 2],
        APACHES.replace("passwordLength:11", "passwordLength:12"),
        APACHES.replace("iterations:4096", "iterations:999999999999"),
        APACHES.replace("AES/CBC/PKCS5Padding", "DES"),
        APACHES.replace("PBKDF2WithHmacSHA512", "MD5"),
        APACHES.replace("vdgywcxl", "Vdgywcxl"),
        APACHES.replace("encryptedPassword:vdgywcxleQqgcat6dNiWeQ==", "encryptedPassword:"),
    ],
)
def test_what_is_damaged_is_refused_without_telling_it(damaged: str) -> None:
    with pytest.raises(ConfigError, match="cannot be decoded") as refused:
        PasswordEncoder(SECRET).decode(damaged)
    assert PASSWORD not in str(refused.value)
    with pytest.raises(ConfigError):
        PasswordEncoder("guessed").decode(APACHES)


def test_a_brokers_keys_say_how() -> None:
    assert password_encoder(broker_config({})) is None
    keys = {"secret": "s", "old.secret": SECRET, "key.length": "256", "iterations": "2048"}
    made = password_encoder(broker_config({f"password.encoder.{name}": text for name, text in keys.items()}))
    assert made is not None
    assert "keyLength:256,iterations:2048" in made.encode("x", urandom)
    assert made.decode(APACHES) == PASSWORD
    assert "'s'" not in repr(made)
    for name, wrong in {"cipher.algorithm": "RC4", "keyfactory.algorithm": "X", "key.length": "77"}.items():
        with pytest.raises(ConfigError, match=f"password.encoder.{name} is {wrong}"):
            password_encoder(broker_config({"password.encoder.secret": "s", f"password.encoder.{name}": wrong}))
