"""The brokers that are asked, and what the requests speak of: topics, groups, members, transactions."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from answers.requests import (
    OK,
    add_partitions_to_txn,
    batch,
    describe_groups,
    errors_in,
    init_producer_id,
    join_group,
    offset_commit,
    produce_data,
)
from cluster import until

from barnabas.bench.apache import cluster_view
from barnabas.client.blocking import BlockingConnection
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import Uuid
from barnabas.wire.messages.api_versions import ApiVersionsRequest
from barnabas.wire.messages.create_topics import CreateTopicsRequest
from barnabas.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from barnabas.wire.messages.describe_transactions import DescribeTransactionsRequest
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest
from barnabas.wire.messages.metadata import MetadataRequest
from barnabas.wire.messages.produce import ProduceRequest

NO_TRANSACTION = frozenset({ErrorCode.TRANSACTIONAL_ID_NOT_FOUND})


class World:
    """Two brokers, one of which does it all: it is the controller, leads the topics and coordinates the groups."""

    def __init__(self, ports: Mapping[int, int], *, is_apache: bool) -> None:
        self.is_apache = is_apache
        self.home: int = until(lambda: cluster_view("127.0.0.1", ports[0])[1] + 1, "a controller") - 1
        self.port = ports[self.home]
        self.other = 1 - self.home
        self.other_port = ports[self.other]
        self._connection = BlockingConnection("127.0.0.1", self.port, "every-version")
        self.offered = dict(self._connection.versions)
        self._names = 0
        for internal in ("__consumer_offsets", "__transaction_state"):
            self.topic(internal, {"cleanup.policy": "compact"})
        self.data = self.topic("data")
        self.scratch = self.topic("scratch")
        self.data_id = self.topic_id(self.data)
        self.log_dir: str = self.ask(DescribeLogDirsRequest(topics=None), 1).results[0].log_dir
        produced = self.ask(ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=produce_data(self.data, batch())), 9)
        assert errors_in(produced) == OK

        until(lambda: errors_in(self.ask(FindCoordinatorRequest(key="group"), 3)) == OK, "a group coordinator")
        until(lambda: errors_in(self.ask(describe_groups(self.group()), 4)) == OK, "the coordinator's groups")
        until(lambda: errors_in(self.ask(init_producer_id(None), 4)) == OK, "producer ids")
        transaction = FindCoordinatorRequest(key="transaction", key_type=1)
        until(lambda: errors_in(self.ask(transaction, 3)) == OK, "a transaction coordinator")
        with contextlib.closing(BlockingConnection("127.0.0.1", self.other_port, "every-version")) as other:
            asked = ApiVersionsRequest(client_software_name="every-version", client_software_version="1")
            until(lambda: other.send(asked, 3).finalized_features_epoch >= 0, "the other knows /feature")
        described = DescribeTransactionsRequest(transactional_ids=[self.transactional_id()])
        until(lambda: errors_in(self.ask(described, 0)) == NO_TRANSACTION, "the coordinator's transactions")
        self._names = 1000  # however many it took until here

    def close(self) -> None:
        self._connection.close()

    def ask(self, message: Any, version: int) -> Any:
        return self._connection.send(message, version)

    def name(self, kind: str) -> str:
        self._names += 1
        return f"{kind}-{self._names}"

    def topic(self, name: str = "", config: Mapping[str, str] | None = None) -> str:
        """The name of a new topic of one partition on the home broker."""
        name = name or self.name("topic")
        at_home = CreateTopicsRequest.CreatableReplicaAssignment(partition_index=0, broker_ids=[self.home])
        topic = CreateTopicsRequest.CreatableTopic(
            name=name,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[at_home],
            configs=[CreateTopicsRequest.CreatableTopicConfig(key, value) for key, value in (config or {}).items()],
        )
        assert errors_in(self.ask(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 5)) == OK
        return name

    def group(self) -> str:
        """The name of a new group; the home broker coordinates them all."""
        return self.name("group")

    def transactional_id(self) -> str:
        """A new one; the home broker coordinates them all."""
        return self.name("transaction")

    def transaction(self) -> tuple[str, int, int]:
        """A transactional id, with the producer id and epoch that it was given."""
        transactional_id = self.transactional_id()
        given = self.ask(init_producer_id(transactional_id), 4)
        assert errors_in(given) == OK
        return transactional_id, given.producer_id, given.producer_epoch

    def open_transaction(self, *topics: str) -> tuple[str, int, int]:
        """A transaction in which partition 0 of `topics` is."""
        transaction = self.transaction()
        assert errors_in(self.ask(add_partitions_to_txn(3, transaction, *topics), 3)) == OK
        return transaction

    def topic_id(self, name: str) -> Uuid:
        answer = self.ask(MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=name)]), 12)
        return Uuid(answer.topics[0].topic_id)

    def group_with_offsets(self, version: int = 2) -> str:
        """A group with an offset where the requests of that version keep them: version 0 in ZooKeeper."""
        group = self.group()
        assert errors_in(self.ask(offset_commit(self.data, group), min(version, 2))) == OK
        return group

    def member(self) -> tuple[str, str, int]:
        """A group of one, its member and generation."""
        group = self.group()
        joined = self.ask(join_group(group), 3)
        assert errors_in(joined) == OK
        return group, joined.member_id, joined.generation_id
