"""Episodes of drawn requests, played to ours and to Apache Kafka, and what stands in the clusters after them."""

from __future__ import annotations

import select
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from answers.__main__ import differences
from answers.asking import SILENCE
from answers.requests import describe_configs, describe_groups, init_producer_id, new_topic
from cluster import until
from drawn.drawer import Asked, Drawer, Member, Producer, Session
from drawn.on_purpose import reason
from drawn.sides import Side

from barnabas.model.errors import ErrorCode
from barnabas.wire.api import ApiKey
from barnabas.wire.messages.create_topics import CreateTopicsRequest
from barnabas.wire.messages.delete_acls import DeleteAclsRequest
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest
from barnabas.wire.messages.describe_acls import DescribeAclsRequest
from barnabas.wire.messages.describe_groups import DescribeGroupsRequest
from barnabas.wire.messages.describe_producers import DescribeProducersRequest
from barnabas.wire.messages.describe_transactions import DescribeTransactionsRequest
from barnabas.wire.messages.fetch import FetchRequest
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest
from barnabas.wire.messages.list_groups import ListGroupsRequest
from barnabas.wire.messages.list_offsets import ListOffsetsRequest
from barnabas.wire.messages.list_transactions import ListTransactionsRequest
from barnabas.wire.messages.metadata import MetadataRequest
from barnabas.wire.messages.offset_fetch import OffsetFetchRequest

SILENT_S = 1.5
"""Whoever has not answered by then waits for others: a member that joins for the other members."""
IN_TURN_S = 0.03
"""Between requests of several connections, that both brokers take them in one order."""
TAKEN_UP_S = 0.2
"""Until brokers have read a configuration again of which they were notified; nothing tells when they have."""
REBALANCES = (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP)
CHANGES_TRANSACTIONS = {
    ApiKey.INIT_PRODUCER_ID, ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.END_TXN, ApiKey.WRITE_TXN_MARKERS,
}  # fmt: skip
CHANGES_TOPICS = {ApiKey.CREATE_TOPICS, ApiKey.CREATE_PARTITIONS, ApiKey.ALTER_PARTITION_REASSIGNMENTS}
CHANGES_CONFIGS = {
    ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS, ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
}  # fmt: skip
PARTITIONS = range(4)
HERE = "here"


class Difference(NamedTuple):
    episode: int
    asked: Asked
    told: list[str]
    earlier: int
    """How many differences the episode has had: a later one may follow from an earlier one."""

    def __str__(self) -> str:
        where = f"{self.asked.key.name} {self.asked.version} of episode {self.episode}, after {self.earlier} others"
        return f"{where}: {'; '.join(self.told[:4])}\n    {self.asked.message}"


class Play:
    def __init__(self, ours: Side, apaches: Side, seed: int) -> None:
        self.sides = (ours, apaches)
        self.compared: Counter[str] = Counter()
        self.meant: Counter[str] = Counter()
        self.found: list[Difference] = []
        self._seed = seed
        for side in self.sides:
            asked = init_producer_id(None)
            until(lambda side=side, asked=asked: self._plainly(side, asked, 4)["error_code"] == 0, "producer ids")

    @staticmethod
    def _plainly(side: Side, message: Any, version: int) -> Any:
        side.send(HERE, message, version)
        return side.receive(HERE, message, version)

    def episode(self, number: int, requests: int) -> None:
        self._number, self._before = number, len(self.found)
        self.drawer = drawer = Drawer(self._seed, number)
        for side in self.sides:
            side.begin(drawer.prefix)
        self._prepare()
        for _ in range(requests):
            self._next()
        for asked in standing(drawer):
            self.ask(asked)
        mine = [topic for topic in drawer.topics if topic.startswith(drawer.prefix)]
        every_acl = DeleteAclsRequest.DeleteAclsFilter(1, None, 1, None, None, 1, 1)
        for side in self.sides:
            self._plainly(side, DeleteTopicsRequest(topic_names=mine, timeout_ms=10_000), 5)
            self._plainly(side, DeleteAclsRequest([every_acl]), 3)

    def _prepare(self) -> None:
        drawer = self.drawer
        configs = {"compact": ("cleanup.policy", "compact"), "append": ("message.timestamp.type", "LogAppendTime")}
        topics = [new_topic(name) for name in drawer.topics]
        topics[1].num_partitions = 3
        for topic in topics:
            config = configs.get(topic.name.removeprefix(drawer.prefix))
            if config is not None:
                topic.configs = [CreateTopicsRequest.CreatableTopicConfig(*config)]
        self.ask(Asked(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(topics=topics, timeout_ms=30_000)))
        for kind, names in enumerate((drawer.groups, drawer.transactional_ids)):
            found = Asked(ApiKey.FIND_COORDINATOR, 6, FindCoordinatorRequest(key_type=kind, coordinator_keys=names))
            self._until_same(found, lambda answer: not errors(answer))
        self._until_same(
            Asked(ApiKey.DESCRIBE_GROUPS, 5, DescribeGroupsRequest(drawer.groups)), lambda a: not errors(a)
        )
        self._until_same(transactions(drawer), lambda answer: errors(answer) == {ErrorCode.TRANSACTIONAL_ID_NOT_FOUND})

    def _next(self) -> None:
        """A request; where it rebalances a group, all its members follow, mostly."""
        drawer = self.drawer
        asked = drawer.request()
        if asked.key is ApiKey.JOIN_GROUP and asked.version >= 4 and not asked.message.member_id:
            given = self.ask(asked)
            if isinstance(given, dict) and given["error_code"] == ErrorCode.MEMBER_ID_REQUIRED:
                asked.message.member_id = given["member_id"]
                self.ask(asked)
            return
        others = []
        if asked.key in REBALANCES:
            members = [each for each in drawer.members if each.group == asked.message.group_id]
            others = [each for each in members if each.member_id != asked.message.member_id]
        if drawer.chance(0.15):
            others = []
        self.ask(asked, *(self._follows(asked, each) for each in others))

    def _follows(self, first: Asked, member: Member) -> Asked:
        asked = self.drawer.request(first.key)
        message = asked.message
        message.group_id, message.member_id = member.group, member.member_id
        if asked.version >= (5 if first.key is ApiKey.JOIN_GROUP else 3):
            message.group_instance_id = member.instance
        if first.key is ApiKey.SYNC_GROUP:
            message.generation_id = member.generation
        else:
            message.session_timeout_ms, message.protocol_type = 60_000, first.message.protocol_type
        return asked

    def ask(self, *requests: Asked) -> Any:
        """Apache's answer to the first one. The others come by connections of their own, before any is answered."""
        connections = [HERE, *(f"member {number}" for number in range(1, len(requests)))]
        for connection, asked in zip(connections, requests, strict=True):
            for side in self.sides:
                side.send(connection, asked.message, asked.version)
            if len(requests) > 1:
                time.sleep(IN_TURN_S)  # nothing tells that a broker has taken a request
        answers = []
        for connection, asked in zip(connections, requests, strict=True):
            ours, apaches = self._answers(connection, asked)
            self._compare(asked, ours, apaches)
            learn(self.drawer, asked, apaches)
            answers.append(apaches)
        self._settle({asked.key for asked in requests})
        return answers[0]

    def _answers(self, connection: str, asked: Asked) -> list[Any]:
        if getattr(asked.message, "acks", None) == 0:
            return [SILENCE, SILENCE]
        sockets = [side._sockets[connection] for side in self.sides]
        answered = select.select(sockets, [], [], SILENT_S)[0]
        seconds = {"seconds": 0.01} if not answered else {}
        return [side.receive(connection, asked.message, asked.version, **seconds) for side in self.sides]

    def _compare(self, asked: Asked, ours: Any, apaches: Any) -> None:
        self.compared[asked.key.name] += 1
        given = self.sides[0].given | self.sides[1].given
        for side in self.sides:
            side.given = given.copy()  # whatever one of them alone has told
        if ours == apaches:
            return
        why = reason(asked, ours, apaches)
        if why is not None:
            self.meant[why] += 1
            return
        told = (
            differences(ours, apaches)
            if isinstance(ours, dict) and isinstance(apaches, dict)
            else [f"{ours} {apaches}"]
        )
        self.found.append(Difference(self._number, asked, told, len(self.found) - self._before))

    def _settle(self, keys: set[ApiKey]) -> None:
        """Waits for what goes on after the answer: both have done it when they say the same."""
        if keys & CHANGES_TRANSACTIONS:
            self._until_same(transactions(self.drawer), lambda answer: "Prepare" not in str(answer))
        if keys & CHANGES_TOPICS:
            self._until_same(metadata(self.drawer), lambda answer: True)
        if keys & CHANGES_CONFIGS:
            time.sleep(TAKEN_UP_S)

    def _until_same(self, asked: Asked, settled: Callable[[Any], bool]) -> None:
        ends = time.monotonic() + (10 if len(self.found) == self._before else 0.5)
        while True:
            ours, apaches = (self._plainly(side, asked.message, asked.version) for side in self.sides)
            same = ours == apaches or reason(asked, ours, apaches) is not None
            if (same and settled(apaches)) or time.monotonic() > ends:
                break
            time.sleep(IN_TURN_S)
        self._compare(asked, ours, apaches)


def errors(answer: Any) -> set[int]:
    if isinstance(answer, dict):
        own = {value for key, value in answer.items() if key == "error_code" and value}
        return own.union(*map(errors, answer.values()))
    return set().union(*map(errors, answer)) if isinstance(answer, list) else set()


def transactions(drawer: Drawer) -> Asked:
    return Asked(ApiKey.DESCRIBE_TRANSACTIONS, 0, DescribeTransactionsRequest(drawer.transactional_ids))


def metadata(drawer: Drawer) -> Asked:
    topics = [MetadataRequest.MetadataRequestTopic(name=name) for name in drawer.topics]
    return Asked(ApiKey.METADATA, 12, MetadataRequest(topics=topics, allow_auto_topic_creation=False))


def standing(drawer: Drawer) -> Iterable[Asked]:
    """What tells of all that an episode has made: logs, groups, transactions, configurations and rights."""
    topics = drawer.topics
    yield metadata(drawer)
    yield Asked(ApiKey.DESCRIBE_CONFIGS, 4, describe_configs(4, *((2, topic) for topic in topics)))
    yield Asked(ApiKey.LIST_GROUPS, 5, ListGroupsRequest())
    for group in drawer.groups:
        yield Asked(ApiKey.DESCRIBE_GROUPS, 5, describe_groups(group))
        committed = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group, topics=None)
        for stable in (False, True):
            yield Asked(ApiKey.OFFSET_FETCH, 9, OffsetFetchRequest(groups=[committed], require_stable=stable))
    yield Asked(ApiKey.LIST_TRANSACTIONS, 1, ListTransactionsRequest())
    yield transactions(drawer)
    producers = [DescribeProducersRequest.TopicRequest(topic, list(PARTITIONS)) for topic in topics]
    yield Asked(ApiKey.DESCRIBE_PRODUCERS, 0, DescribeProducersRequest(producers))
    for timestamp in (-1, -2, -3):
        asked = [ListOffsetsRequest.ListOffsetsPartition(number, timestamp=timestamp) for number in PARTITIONS]
        named = [ListOffsetsRequest.ListOffsetsTopic(topic, asked) for topic in topics]
        yield Asked(ApiKey.LIST_OFFSETS, 9, ListOffsetsRequest(replica_id=-1, topics=named))
    for isolation in (0, 1):
        fetched = [FetchRequest.FetchPartition(number, partition_max_bytes=1 << 20) for number in PARTITIONS]
        read = [FetchRequest.FetchTopic(topic=topic, partitions=fetched) for topic in topics]
        yield Asked(ApiKey.FETCH, 12, FetchRequest(max_wait_ms=0, isolation_level=isolation, topics=read))
    yield Asked(ApiKey.DESCRIBE_ACLS, 3, DescribeAclsRequest(1, None, 1, None, None, 1, 1))


def learn(drawer: Drawer, asked: Asked, answer: Any) -> None:
    """What later requests may speak of."""
    if not isinstance(answer, dict):
        return
    message, code = asked.message, answer.get("error_code")
    match asked.key:
        case ApiKey.CREATE_TOPICS if not getattr(message, "validate_only", False):
            for topic in answer["topics"]:
                if topic["error_code"] == 0:
                    drawer.topics = list(dict.fromkeys([*drawer.topics, topic["name"]]))
                    drawer.topic_ids.update({topic["name"]: topic["topic_id"]} if "topic_id" in topic else {})
        case ApiKey.JOIN_GROUP if code == 0:
            group, member, generation = message.group_id, answer["member_id"], answer["generation_id"]
            instance = message.group_instance_id if asked.version >= 5 else None
            others = [each for each in drawer.members if each.member_id != member]
            drawer.members = [
                each._replace(generation=generation) if each.group == group else each
                for each in others
                if instance is None or (each.group, each.instance) != (group, instance)
            ]
            drawer.members.append(Member(group, member, generation, instance))
        case ApiKey.LEAVE_GROUP if code == 0:
            left = [message.member_id] if asked.version < 3 else [each["member_id"] for each in answer["members"]]
            drawer.members = [each for each in drawer.members if each.member_id not in left]
        case ApiKey.INIT_PRODUCER_ID if code == 0:
            given = Producer(message.transactional_id, answer["producer_id"], answer["producer_epoch"])
            drawer.producers = [*drawer.producers[-5:], given]
        case ApiKey.FETCH if code == 0 and asked.version >= 7 and answer["session_id"]:
            drawer.sessions = [each for each in drawer.sessions if each.session_id != answer["session_id"]]
            drawer.sessions.append(Session(answer["session_id"], max(message.session_epoch, 0) + 1))
