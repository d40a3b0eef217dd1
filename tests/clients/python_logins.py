"""librdkafka and aiokafka come in by every mechanism: two records written and read in a group, a wrong secret refused.

A login has ``mechanism``, ``bootstrap``, ``authority``, ``topic``, and ``user`` with ``password``, ``token`` with the
``endpoint`` that gives it, or ``key`` and ``certificate``.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Sequence
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError as AioKafkaError
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient

WAIT_S = 60
Login = dict[str, str]
Facts = dict[str, list[Any]]


def librdkafka(logins: Sequence[Login]) -> Facts:
    return {each["mechanism"]: [_librdkafka_goes_and_comes(each), _librdkafka_is_refused(each)] for each in logins}


def _librdkafka(login: Login, wrong: str = "") -> dict[str, Any]:
    settings: dict[str, Any] = {
        "bootstrap.servers": login["bootstrap"],
        "ssl.ca.location": login["authority"],
        "log_level": 0,
    }
    match login["mechanism"]:
        case "mTLS":
            return {
                **settings,
                "security.protocol": "SSL",
                "ssl.certificate.location": login["certificate"],
                "ssl.key.location": login["key"],
            }
        case "OAUTHBEARER":
            return {
                **settings,
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.oauthbearer.method": "oidc",
                "sasl.oauthbearer.client.id": login["user"],
                "sasl.oauthbearer.client.secret": login["password"] + wrong,
                "sasl.oauthbearer.token.endpoint.url": login["endpoint"],
            }
    return {
        **settings,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": login["mechanism"],
        "sasl.username": login["user"],
        "sasl.password": login["password"] + wrong,
    }


def _librdkafka_goes_and_comes(login: Login) -> list[str]:
    settings, topic = _librdkafka(login), login["topic"]
    producer = Producer({**settings, "acks": "all"})
    refused: list[KafkaError] = []
    for partition in range(2):
        producer.produce(
            topic, b"to %d" % partition, partition=partition, on_delivery=lambda e, _: refused.append(e) if e else None
        )
    assert producer.flush(WAIT_S) == 0
    assert not refused
    consumer = Consumer({**settings, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    values: list[str] = []
    ends = time.monotonic() + WAIT_S
    while len(values) < 2 and time.monotonic() < ends:
        record = consumer.poll(1)
        if record is not None and record.error() is None:
            values.append(record.value().decode())
    consumer.close()
    return sorted(values)


def _librdkafka_is_refused(login: Login) -> bool:
    if login["mechanism"] == "mTLS":
        return True
    said: list[KafkaError] = []
    admin = AdminClient({**_librdkafka(login, "?"), "error_cb": said.append})
    ends = time.monotonic() + WAIT_S
    while not said and time.monotonic() < ends:
        admin.poll(0.2)
    return said[0].code() in (KafkaError._AUTHENTICATION, KafkaError._ALL_BROKERS_DOWN)


def aiokafka(logins: Sequence[Login]) -> Facts:
    async def story() -> Facts:
        return {each["mechanism"]: [await _aiokafka_goes(each), await _aiokafka_is_refused(each)] for each in logins}

    return asyncio.run(story())


class _Token(AbstractTokenProvider):  # type: ignore[misc]
    def __init__(self, token: str) -> None:
        self._token = token

    async def token(self) -> str:
        return self._token


def _aiokafka(login: Login, wrong: str = "") -> dict[str, Any]:
    context = ssl.create_default_context(cafile=login["authority"])
    settings = {"bootstrap_servers": login["bootstrap"], "ssl_context": context}
    mechanism = login["mechanism"]
    if mechanism == "mTLS":
        context.load_cert_chain(login["certificate"], login["key"])
        return {**settings, "security_protocol": "SSL"}
    settings |= {"security_protocol": "SASL_SSL", "sasl_mechanism": mechanism}
    if mechanism == "OAUTHBEARER":
        return {**settings, "sasl_oauth_token_provider": _Token(login["token"] + wrong)}
    return {**settings, "sasl_plain_username": login["user"], "sasl_plain_password": login["password"] + wrong}


async def _aiokafka_goes(login: Login) -> list[str]:
    settings, topic = _aiokafka(login), login["topic"]
    async with AIOKafkaProducer(**settings, acks="all") as producer:
        for partition in range(2):
            await producer.send_and_wait(topic, b"to %d" % partition, partition=partition)
    async with AIOKafkaConsumer(topic, **settings, group_id=topic, auto_offset_reset="earliest") as consumer:
        async with asyncio.timeout(WAIT_S):
            return sorted([(await consumer.getone()).value.decode() for _ in range(2)])


async def _aiokafka_is_refused(login: Login) -> bool:
    if login["mechanism"] == "mTLS":
        return True
    admin = AIOKafkaAdminClient(**_aiokafka(login, "?"))
    try:
        await admin.start()
    except AioKafkaError:
        return True
    finally:
        await admin.close()
    return False
