"""Rules about topics: whole or half made, their replicas, leaders and ISRs, and what is being reassigned or deleted."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from barnabas.model.ids import NO_BROKER
from barnabas.zk.inspection.check.cluster import ClusterRecord, TopicRecord, unreadable_finding
from barnabas.zk.inspection.check.finding import HOUR_MS, MINUTE_MS, ZnodeFinding, agreed, counted, duration, listed
from barnabas.zk.kafka.config_znodes import TOPICS, ConfigEntityZNode
from barnabas.zk.kafka.znode_json import ZNodeError, parsed_json
from barnabas.zk.kafka.znodes import (
    BrokerIdZNode,
    DeleteTopicsTopicZNode,
    LeaderIsrAndControllerEpoch,
    PreferredReplicaElectionZNode,
    ReassignPartitionsZNode,
    ReplicaAssignment,
    TopicPartitionsZNode,
    TopicZNode,
)

REASSIGNMENT_LONG_MS: Final = 24 * HOUR_MS
"""A reassignment that takes longer than this is reported even without any other trouble."""
DELETION_LONG_MS: Final = HOUR_MS
PICKED_UP_MS: Final = MINUTE_MS
"""How long a request of old tools in `/admin` may stay: a controller handles it at once."""

_LEGAL_NAME: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def half_made(cluster: ClusterRecord) -> Iterator[ZnodeFinding]:
    """Topics of which some znodes are missing."""
    for topic in cluster.topics.values():
        path = TopicZNode.path(topic.name)
        if topic.name in cluster.deleting:
            continue  # while a topic is deleted, its znodes go one by one
        partitions = sorted(number for _, number in topic.assignment.assignment)
        if _LEGAL_NAME.fullmatch(topic.name) is None or topic.name in (".", ".."):
            yield ZnodeFinding(
                "topic-name",
                path,
                f"{topic.name!r} is no legal name of a topic (letters, digits, '.', '_' and '-', at most 249).",
                f"Delete it by `barnabas zk delete -r {path}` with all brokers stopped.",
            )
        if not partitions:
            yield ZnodeFinding(
                "topic-without-partitions",
                path,
                f"Topic {topic.name} has no partitions in its assignment.",
                f"`barnabas zk delete -r {path}` and create the topic again.",
            )
        elif partitions != list(range(len(partitions))):
            yield ZnodeFinding(
                "partition-numbers",
                path,
                f"The partitions of topic {topic.name} are not numbered from 0 on without a gap: {listed(partitions)}.",
                f"Put the missing ones into {path}, with the brokers that hold them.",
            )
        without = [number for number in partitions if number not in topic.state_paths]
        if without:
            age = duration(cluster.age_ms(topic.stat.mtime))
            made = "was made" if len(without) == len(partitions) else "got them"
            yield ZnodeFinding(
                "partition-without-state",
                path,
                f"Topic {topic.name} {made} {age} ago and its "
                f"{agreed(len(without), 'partition', 'partitions')} {listed(without)} "
                f"{agreed(len(without), 'has', 'have')} no state: nobody leads "
                f"{agreed(len(without), 'it', 'them')}.",
                "The controller does that at once where a broker of the assignment lives; see that one does, and "
                "where it does, `barnabas zk delete /controller` has another controller do it.",
            )
        config = ConfigEntityZNode.path(TOPICS, topic.name)
        if config not in cluster.image:
            yield ZnodeFinding(
                "topic-without-config",
                path,
                f"Topic {topic.name} has no {config}, which is made before the topic.",
                f"""`barnabas zk create {config} '{{"version":1,"config":{{}}}}'`.""",
            )


def stray_states(cluster: ClusterRecord) -> Iterator[ZnodeFinding]:
    """Partitions below a topic that its assignment does not have."""
    for topic in cluster.topics.values():
        if topic.name in cluster.deleting:
            continue
        assigned = {str(number) for _, number in topic.assignment.assignment}
        path = TopicPartitionsZNode.path(topic.name)
        stray = [name for name in cluster.image.children(path) if name not in assigned]
        if stray:
            yield ZnodeFinding(
                "stray-partition",
                f"{path}/{stray[0]}",
                f"Topic {topic.name} has {agreed(len(stray), 'partition', 'partitions')} {listed(stray)} below "
                f"{path} that {agreed(len(stray), 'is', 'are')} not in its assignment.",
                f"`barnabas zk delete -r {path}/{stray[0]}`"
                + ("." if len(stray) == 1 else f", and so the other {len(stray) - 1}."),
            )


def topic_ids(cluster: ClusterRecord) -> Iterator[ZnodeFinding]:
    names: defaultdict[str, list[str]] = defaultdict(list)
    without: list[str] = []
    for topic in cluster.topics.values():
        if topic.assignment.topic_id is None:
            without.append(topic.name)
        else:
            names[str(topic.assignment.topic_id)].append(topic.name)
    for topic_id, topics in names.items():
        if len(topics) > 1:
            yield ZnodeFinding(
                "same-topic-id",
                TopicZNode.path(topics[0]),
                f"Topics {listed(topics)} have the same id {topic_id}.",
                "Their logs' partition.metadata tell whose it is; delete and create the other, or give it its own id.",
            )
    if names and without:
        yield ZnodeFinding(
            "topic-without-id",
            TopicZNode.path(without[0]),
            f"{counted(len(without), 'topic')} without an id among others that have one: {listed(without)}.",
            "A controller gives ids when it begins: `barnabas zk delete /controller` has another one do it.",
        )


def assignments(cluster: ClusterRecord) -> Iterator[ZnodeFinding]:
    """Invalid assignments, and those that name unregistered brokers."""
    held: defaultdict[int, list[str]] = defaultdict(list)
    for topic in cluster.topics.values():
        path = TopicZNode.path(topic.name)
        for partition, assigned in topic.assignment.assignment.items():
            replicas = assigned.replicas
            if not replicas:
                yield ZnodeFinding(
                    "no-replicas",
                    path,
                    f"{partition} is assigned to no broker.",
                    f"Write the brokers that hold it into {path}.",
                )
            if len(set(replicas)) != len(replicas):
                yield ZnodeFinding(
                    "duplicate-replicas",
                    path,
                    f"{partition} is assigned to the same broker twice: {list(replicas)}.",
                    f"Write each broker once into {path}, and have another controller read it "
                    "(`barnabas zk delete /controller`).",
                )
            negative = [replica for replica in replicas if replica < 0]
            if negative:
                yield ZnodeFinding(
                    "replica-id",
                    path,
                    f"{partition} is assigned to {listed(negative)}, which is no broker's id.",
                    f"Write the brokers that hold it into {path}.",
                )
            for replica in dict.fromkeys(replicas):
                if replica >= 0 and replica not in cluster.brokers:
                    held[replica].append(str(partition))
    if not cluster.brokers:
        return
    for broker, partitions in sorted(held.items()):
        yield ZnodeFinding(
            "unknown-broker",
            BrokerIdZNode.path(broker),
            f"Broker {broker} is not registered, and {counted(len(partitions), 'partition')} "
            f"{agreed(len(partitions), 'is', 'are')} assigned to it: {listed(partitions)}.",
            f"Start broker {broker}; where it is gone for good, reassign these partitions to others "
            "(`kafka-reassign-partitions`).",
        )


def leaders(cluster: ClusterRecord) -> Iterator[ZnodeFinding]:
    for topic in cluster.topics.values():
        if topic.name in cluster.deleting:
            continue
        for partition, assigned in topic.assignment.assignment.items():
            state = topic.states.get(partition.partition)
            if state is not None:
                yield from _leader(cluster, topic.state_paths[partition.partition], str(partition), assigned, state)


_ANOTHER_LOOKS: Final = "`barnabas zk delete /controller` has another controller look at it"


def _members(path: str, partition: str, isr: tuple[int, ...], replicas: tuple[int, ...]) -> Iterator[ZnodeFinding]:
    """Errors of an ISR in itself, and of the brokers it names."""
    if not isr:
        yield ZnodeFinding(
            "empty-isr",
            path,
            f"The ISR of {partition} is empty: no broker is known to have all its records.",
            f"Find the replica with the longest log, and write it into {path} as leader and ISR with all brokers "
            "stopped.",
        )
    if len(set(isr)) != len(isr):
        yield ZnodeFinding(
            "duplicate-isr",
            path,
            f"The ISR of {partition} names a broker twice: {list(isr)}.",
            f"Write each once into {path}; {_ANOTHER_LOOKS}.",
        )
    strangers = [broker for broker in isr if broker not in replicas]
    if strangers:
        yield ZnodeFinding(
            "isr-not-assigned",
            path,
            f"The ISR of {partition} has {listed(strangers)}, and it is assigned to {list(replicas)} only.",
            f"Take {listed(strangers)} out of the ISR in {path}; {_ANOTHER_LOOKS}.",
        )


def _leader(
    cluster: ClusterRecord, path: str, partition: str, assigned: ReplicaAssignment, state: LeaderIsrAndControllerEpoch
) -> Iterator[ZnodeFinding]:
    leader, isr, replicas = state.leader_and_isr.leader, state.leader_and_isr.isr, assigned.replicas
    yield from _members(path, partition, isr, replicas)
    again = _ANOTHER_LOOKS
    if leader == NO_BROKER:
        absent = cluster.dead(isr)
        if cluster.brokers:
            cause = f"; of its ISR {listed(isr)}, {listed(absent)} {agreed(len(absent), 'is', 'are')} not registered"
            yield ZnodeFinding(
                "no-leader",
                path,
                f"{partition} has no leader{cause if absent else ''}: nothing can be written to it or read from it.",
                f"Start broker {listed(absent)}; where the disks are lost, an unclean election takes another replica "
                "at the price of records (`kafka-leader-election --election-type unclean`)."
                if absent
                else f"Its ISR is alive: {again}.",
            )
        return
    if leader not in replicas:
        yield ZnodeFinding(
            "leader-not-assigned",
            path,
            f"{partition} is led by {leader}, and it is assigned to {list(replicas)} only.",
            f"{again[0].upper() + again[1:]}.",
        )
    elif isr and leader not in isr:
        yield ZnodeFinding(
            "leader-not-in-isr",
            path,
            f"{partition} is led by {leader}, which is not in its ISR {list(isr)}.",
            f"Put {leader} into the ISR in {path} if it has all the records; {again}.",
        )
    if not cluster.brokers:
        return
    if leader not in cluster.brokers:
        yield ZnodeFinding(
            "leader-not-registered",
            path,
            f"{partition} is led by broker {leader}, which is not registered.",
            f"A controller elects another within a moment. Where it stays, {again}.",
        )
    elif absent := cluster.dead(isr):
        yield ZnodeFinding(
            "isr-not-registered",
            path,
            f"The ISR of {partition} has {listed(absent)}, which {agreed(len(absent), 'is', 'are')} not registered: "
            "acks=all does not wait for them, and they count towards min.insync.replicas.",
            f"A controller takes them out within a moment. Where they stay, {again}.",
        )


def reassignments(cluster: ClusterRecord) -> Iterator[ZnodeFinding]:
    for topic in cluster.topics.values():
        moving = {key: value for key, value in topic.assignment.assignment.items() if value.is_being_reassigned}
        path = TopicZNode.path(topic.name)
        yield from _strays_of_reassignment(cluster, topic)
        for partition, assigned in moving.items():
            odd = [broker for broker in assigned.adding_replicas if broker not in assigned.replicas]
            odd += [broker for broker in assigned.removing_replicas if broker not in assigned.replicas]
            if odd:
                yield ZnodeFinding(
                    "reassignment-broken",
                    path,
                    f"The reassignment of {partition} adds or removes {listed(odd)}, which is not among its replicas "
                    f"{list(assigned.replicas)}.",
                    "Cancel it: `kafka-reassign-partitions --cancel`.",
                )
            absent = cluster.dead(assigned.adding_replicas)
            if absent and cluster.brokers:
                yield ZnodeFinding(
                    "reassignment-stuck",
                    path,
                    f"The reassignment of {partition} to {list(assigned.target_replicas)} waits for "
                    f"{listed(absent)}, which {agreed(len(absent), 'is', 'are')} not registered.",
                    f"Start {listed(absent)}, or cancel it: `kafka-reassign-partitions --cancel`.",
                )
            elif cluster.age_ms(topic.stat.mtime) > REASSIGNMENT_LONG_MS:
                yield ZnodeFinding(
                    "reassignment-long",
                    path,
                    f"The reassignment of {partition} to {list(assigned.target_replicas)} has been under way for "
                    f"{duration(cluster.age_ms(topic.stat.mtime))}.",
                    "See that the new replicas come closer (their ISR, throttles of replication), or cancel it: "
                    "`kafka-reassign-partitions --cancel`.",
                )
    yield from _asked_reassignments(cluster)


def _strays_of_reassignment(cluster: ClusterRecord, topic: TopicRecord) -> Iterator[ZnodeFinding]:
    """`adding_replicas` and `removing_replicas` of partitions that the topic does not have."""
    path = TopicZNode.path(topic.name)
    fields = parsed_json(path, cluster.image.data(path))
    known = {str(number) for _, number in topic.assignment.assignment}
    named = [*(fields.get("adding_replicas") or {}), *(fields.get("removing_replicas") or {})]
    stray = [name for name in dict.fromkeys(named) if name not in known]
    if stray:
        yield ZnodeFinding(
            "reassignment-broken",
            path,
            f"{path} reassigns {agreed(len(stray), 'partition', 'partitions')} {listed(stray)}, "
            f"which topic {topic.name} does not have.",
            f"Take {agreed(len(stray), 'it', 'them')} out of adding_replicas and removing_replicas in {path}.",
        )


def _asked_reassignments(cluster: ClusterRecord) -> Iterator[ZnodeFinding]:
    path = ReassignPartitionsZNode.path
    znode = cluster.image.znodes.get(path)
    if znode is None:
        return
    try:
        asked = ReassignPartitionsZNode.decode(znode.data)
    except ZNodeError as error:
        yield unreadable_finding(path, error)
        return
    unknown = [
        str(partition)
        for partition in asked
        if (topic := cluster.topics.get(partition.topic)) is None or partition not in topic.assignment.assignment
    ]
    age_ms = cluster.age_ms(znode.stat.ctime)
    under_way = [
        str(partition)
        for partition in asked
        if (topic := cluster.topics.get(partition.topic)) is not None
        and (assigned := topic.assignment.assignment.get(partition)) is not None
        and assigned.is_being_reassigned
    ]
    remove = f"`barnabas zk delete {path}`"
    if unknown:
        yield ZnodeFinding(
            "reassignment-of-unknown",
            path,
            f"{path} asks for a reassignment of {listed(unknown)}, which "
            f"{agreed(len(unknown), 'does', 'do')} not exist.",
            f"Remove it: {remove}.",
        )
    elif age_ms > PICKED_UP_MS and not under_way:
        yield ZnodeFinding(
            "reassignment-leftover",
            path,
            f"{path} was written {duration(age_ms)} ago, and nothing that it asks for is under way: as long as it is "
            "there, old tools refuse another reassignment.",
            f"Remove it ({remove}); a controller that begins looks at it again.",
        )


def preferred_election(cluster: ClusterRecord) -> Iterator[ZnodeFinding]:
    path = PreferredReplicaElectionZNode.path
    znode = cluster.image.znodes.get(path)
    if znode is None:
        return
    try:
        asked = PreferredReplicaElectionZNode.decode(znode.data)
    except ZNodeError as error:
        yield unreadable_finding(path, error)
        return
    age_ms = cluster.age_ms(znode.stat.ctime)
    if age_ms > PICKED_UP_MS:
        yield ZnodeFinding(
            "preferred-election-leftover",
            path,
            f"{path} asked {duration(age_ms)} ago for elections in {counted(len(asked), 'partition')}, and a "
            "controller removes it as soon as it has held them.",
            f"Remove it (`barnabas zk delete {path}`) and ask anew by `kafka-leader-election`.",
        )


def deletions(cluster: ClusterRecord) -> Iterator[ZnodeFinding]:
    for name in cluster.deleting:
        path = DeleteTopicsTopicZNode.path(name)
        topic = cluster.topics.get(name)
        znode = cluster.image.znodes.get(path)
        if topic is None:
            if TopicZNode.path(name) not in cluster.image:
                yield ZnodeFinding(
                    "deletion-of-unknown",
                    path,
                    f"{path} asks for the deletion of topic {name}, which does not exist.",
                    f"A controller removes it when it begins; `barnabas zk delete {path}` does so now.",
                )
            continue
        replicas = dict.fromkeys(
            replica for assigned in topic.assignment.assignment.values() for replica in assigned.replicas
        )
        absent = cluster.dead(tuple(replicas))
        age_ms = cluster.age_ms(znode.stat.ctime) if znode is not None else 0
        if absent and cluster.brokers:
            yield ZnodeFinding(
                "deletion-stuck",
                path,
                f"Topic {name} is being deleted for {duration(age_ms)} and waits for broker {listed(absent)}, "
                f"which {agreed(len(absent), 'is', 'are')} not registered.",
                f"Start broker {listed(absent)}, which still {agreed(len(absent), 'has', 'have')} its files; "
                "where it is gone for good, reassign away from it what else it holds and remove the topic's znodes.",
            )
        elif age_ms > DELETION_LONG_MS:
            yield ZnodeFinding(
                "deletion-stuck",
                path,
                f"Topic {name} is being deleted for {duration(age_ms)}, with all its brokers alive.",
                "See that delete.topic.enable is true and no reassignment of it is under way; "
                "`barnabas zk delete /controller` has another controller go on with it.",
            )
