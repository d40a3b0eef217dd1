"""What a cluster loses that was allowed to, by acks=1 and by an unclean election: judge names exactly those records."""

from __future__ import annotations

import asyncio

from barnabas.client import TopicPartition, connect
from barnabas.judge.check import JudgeVerdict, check
from barnabas.judge.history import Client, Op
from barnabas.judge.journal import Notes, now
from barnabas.judge.scan import scan, wait_until_settled
from barnabas.judge.workload import Work, encoded
from barnabas.judge.workloads import REGISTERS
from barnabas.testing import KafkaCluster

KEPT, RISKED = range(10), range(10, 17)


def work_on(cluster: KafkaCluster, **config: str) -> Work:
    """A topic of three partitions."""
    wanted = {"min.insync.replicas": "1", **config}
    cluster.create_topic("registers", partitions=3, replication_factor=3, config=wanted)
    return Work(cluster.bootstrap, Notes({"registers": wanted}), {REGISTERS: "registers"}, 3)


async def write(work: Work, at: TopicPartition, values: range, acks: str) -> None:
    """Every one of them is acknowledged, or this fails."""
    journal = work.notes.journal(Client("writer", acks=acks, idempotent=acks == "all"))
    async with connect(work.bootstrap) as cluster:
        producer = cluster.producer(acks=acks, idempotent=acks == "all")
        for value in values:
            invoked = now()
            delivered = await producer.send(at.topic, encoded(value), partition=at.partition)
            journal.add(Op.SEND, invoked, at, offset=delivered.offset, value=value)


def judged(work: Work) -> JudgeVerdict:
    assert not asyncio.run(wait_until_settled(work))
    asyncio.run(scan(work))
    return check(work.notes.history())


def lost(verdict: JudgeVerdict) -> dict[str | None, set[int]]:
    """The values that are told to be lost, by the limit that allows it."""
    return {
        finding.limit: {int(verdict.history.value[row]) for example in finding.examples for row in example.rows}
        for finding in (*verdict.anomalies, *verdict.limits)
        if finding.anomaly == "lost-write"
    }


def really_lost(cluster: KafkaCluster) -> set[int]:
    there = {int(each.value) for each in cluster.records("registers") if each.value is not None}
    return {*KEPT, *RISKED} - there


def test_acks_1_loses_what_followers_had_not_fetched_and_judge_names_exactly_that(kafka_cluster: KafkaCluster) -> None:
    work = work_on(kafka_cluster)
    # A leader that is the controller as well would shrink its ISR, and then nobody else may lead.
    partition = next(
        each
        for each in (kafka_cluster.partition("registers", number) for number in range(3))
        if each.leader != kafka_cluster.controller
    )
    at, leader = partition.topic_partition, partition.leader
    asyncio.run(write(work, at, KEPT, "all"))
    leader.partition(from_="brokers", to="brokers")
    asyncio.run(write(work, at, RISKED, "1"))
    leader.kill()
    partition.wait(not_leader=leader, timeout=30)
    leader.start()
    kafka_cluster.heal()
    verdict = judged(work)
    assert lost(verdict) == {"acks": really_lost(kafka_cluster)} == {"acks": set(RISKED)}
    assert verdict.good


def test_an_unclean_election_loses_what_its_winner_never_had_and_judge_names_exactly_that(
    kafka_cluster: KafkaCluster,
) -> None:
    work = work_on(kafka_cluster, **{"unclean.leader.election.enable": "true"})
    partition = kafka_cluster.partition("registers", 0)
    at, leader = partition.topic_partition, partition.leader
    asyncio.run(write(work, at, KEPT, "all"))
    followers = partition.followers
    for follower in followers:
        follower.kill()
    partition.wait(isr={leader}, timeout=30)
    asyncio.run(write(work, at, RISKED, "all"))
    leader.kill()
    for follower in followers:
        follower.start()
    partition.wait(not_leader=leader, timeout=30)
    leader.start()
    kafka_cluster.heal()
    verdict = judged(work)
    assert lost(verdict) == {"unclean-leader-election": really_lost(kafka_cluster)}
    assert really_lost(kafka_cluster) == set(RISKED)
    assert verdict.good
