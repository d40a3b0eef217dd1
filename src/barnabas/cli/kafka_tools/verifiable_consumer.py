"""``kafka-verifiable-consumer``: prints the records and commits of a group's member as JSON
(``VerifiableConsumer``)."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, Final

from barnabas.cli.kafka_tools.arguments import Parser, number
from barnabas.cli.kafka_tools.errors import JavaError, java_error, log, print_stack_trace
from barnabas.cli.kafka_tools.json_files import compact
from barnabas.cli.kafka_tools.session import API_TIMEOUT_MS, client_of, client_properties, reached
from barnabas.cli.kafka_tools.verifiable_producer import SERVERS, until_signalled
from barnabas.client.consumer import Consumer
from barnabas.client.offsets import EARLIEST, LATEST
from barnabas.client.positions import ConsumerRecord
from barnabas.model.errors import KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.runtime import Clock

_LOGGER: Final = "org.apache.kafka.tools.VerifiableConsumer"
_RANGE: Final = "org.apache.kafka.clients.consumer.RangeAssignor"
_ASSIGNORS: Final = {
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
    "StickyAssignor": "sticky",
    "CooperativeStickyAssignor": "cooperative-sticky",
}
_RESETS: Final[dict[str, int | None]] = {"earliest": EARLIEST, "latest": LATEST, "none": None}


def _parser() -> Parser:
    parser = Parser(
        prog="verifiable-consumer", description="This tool reads as a member of a group, and prints its steps as JSON."
    )
    servers = parser.add_mutually_exclusive_group(required=True)
    servers.add_argument("--bootstrap-server", metavar=SERVERS, help="the brokers to ask first")
    servers.add_argument("--broker-list", metavar=SERVERS, help="DEPRECATED, use --bootstrap-server")
    parser.add_argument("--topic", required=True, metavar="TOPIC", help="the topic to read")
    parser.add_argument("--group-protocol", default="classic", metavar="GROUP_PROTOCOL", help="classic")
    parser.add_argument("--group-remote-assignor", metavar="GROUP_REMOTE_ASSIGNOR", help="for the consumer protocol")
    parser.add_argument("--group-id", required=True, metavar="GROUP_ID", help="the group")
    parser.add_argument("--group-instance-id", metavar="GROUP_INSTANCE_ID", help="the name of a static member")
    parser.add_argument(
        "--max-messages",
        type=number("Integer"),
        default=-1,
        metavar="MAX-MESSAGES",
        help="the number of records; -1: no limit",
    )
    parser.add_argument(
        "--session-timeout", type=number("Integer"), default=30000, metavar="TIMEOUT_MS", help="the session's timeout"
    )
    parser.add_argument("--verbose", action="store_true", help="a line for every record")
    parser.add_argument("--enable-autocommit", action="store_true", help="commit by itself")
    parser.add_argument("--reset-policy", default="earliest", help="earliest, latest or none")
    parser.add_argument("--assignment-strategy", default=_RANGE, help="the assignor's Java class")
    parser.add_argument(
        "--consumer.config", dest="consumer_config", metavar="CONFIG_FILE", help="a file of consumer properties"
    )
    return parser


def main(words: list[str]) -> int:
    parser = _parser()
    given = parser.given(words)
    try:
        properties = client_properties(given.consumer_config)
    except JavaError as error:
        parser.refuse(error.message)
    assignor = _ASSIGNORS.get(given.assignment_strategy.rpartition(".")[2])
    if given.group_protocol.lower() != "classic" or assignor is None:
        parser.refuse("Barnabas's consumer speaks the classic protocol, with one of " + ", ".join(_ASSIGNORS))
    if given.reset_policy not in _RESETS:
        parser.refuse(f"--reset-policy {given.reset_policy} is not earliest, latest or none")
    properties["bootstrap.servers"] = given.bootstrap_server or given.broker_list
    asyncio.run(_Run(given).run(properties, assignor))
    return 0


class _Run:
    def __init__(self, given: argparse.Namespace) -> None:
        self._given = given
        self._consumed = 0
        self._clock: Clock

    def _event(self, name: str, **fields: Any) -> None:
        print(compact({"timestamp": self._clock.now_ms(), "name": name, **fields}), flush=True)

    def _told_of(self, name: str) -> Any:
        def told(partitions: list[TopicPartition]) -> None:
            shown = [{"topic": partition.topic, "partition": partition.partition} for partition in partitions]
            self._event(name, partitions=shown)

        return told

    @property
    def _finished(self) -> bool:
        return bool(0 <= self._given.max_messages <= self._consumed)

    async def run(self, properties: Mapping[str, str], assignor: str) -> None:
        given = self._given
        cluster = client_of(properties)
        self._clock = cluster.runtime.clock
        ended = until_signalled()
        consumer = Consumer(
            cluster,
            topics=[given.topic],
            group=given.group_id,
            on_assigned=self._told_of("partitions_assigned"),
            on_revoked=self._told_of("partitions_revoked"),
            auto_offset_reset=_RESETS[given.reset_policy],
            session_timeout_ms=given.session_timeout,
            assignors=[assignor],
            group_instance_id=given.group_instance_id,
            auto_commit_interval_ms=5_000 if given.enable_autocommit else None,
        )
        self._event("startup_complete")
        try:
            await reached(cluster, "metadata", API_TIMEOUT_MS)
            while not ended.is_set() and not self._finished:
                records = await consumer.poll(100)
                if records:
                    await self._take(consumer, records)
        except (KafkaError, JavaError) as error:
            log("ERROR", "Error during processing, terminating consumer process: ", _LOGGER)
            print_stack_trace(error if isinstance(error, JavaError) else java_error(error))
        finally:
            await consumer.close()
            await cluster.close()
            self._event("shutdown_complete")

    async def _take(self, consumer: Consumer, records: list[ConsumerRecord]) -> None:
        by_partition: dict[TopicPartition, list[ConsumerRecord]] = {}
        for record in records:
            by_partition.setdefault(record.topic_partition, []).append(record)
        offsets: dict[TopicPartition, int] = {}
        summaries: list[dict[str, Any]] = []
        for partition, found in by_partition.items():
            if self._given.max_messages >= 0:
                found = found[: self._given.max_messages - self._consumed]
            if not found:
                continue
            offsets[partition] = found[-1].offset + 1
            summaries.append(_summary(partition, found))
            if self._given.verbose:
                self._show(found)
            self._consumed += len(found)
            if self._finished:
                break
        self._event("records_consumed", count=len(records), partitions=summaries)
        if not self._given.enable_autocommit:
            await self._commit(consumer, offsets)

    def _show(self, records: Iterable[ConsumerRecord]) -> None:
        def text(data: bytes | None) -> str | None:
            return None if data is None else bytes(data).decode("utf-8", "replace")

        for record in records:
            self._event(
                "record_data",
                key=text(record.record.key),
                value=text(record.record.value),
                topic=record.topic,
                partition=record.partition,
                offset=record.offset,
            )

    async def _commit(self, consumer: Consumer, offsets: Mapping[TopicPartition, int]) -> None:
        shown = [
            {"topic": partition.topic, "partition": partition.partition, "offset": offset}
            for partition, offset in offsets.items()
        ]
        try:
            await consumer.commit(offsets)
        except KafkaError as error:
            self._event("offsets_committed", offsets=shown, error=java_error(error).message, success=False)
        else:
            self._event("offsets_committed", offsets=shown, success=True)


def _summary(partition: TopicPartition, records: list[ConsumerRecord]) -> dict[str, Any]:
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "count": len(records),
        "minOffset": records[0].offset,
        "maxOffset": records[-1].offset,
    }
