"""Brokers on znodes that are older than their logs: somebody has restored a backup of ZooKeeper."""

import json

import pytest

from barnabas.cli.app import run
from barnabas.testing import KafkaCluster

STATE = "/brokers/topics/t/partitions/0/state"


def send(cluster, values):
    """Sends each with acks=all; returns what became of them, in order."""
    from confluent_kafka import Producer

    outcomes = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "linger.ms": 0, "log_level": 0})
    for value in values:
        producer.produce("t", value, on_delivery=lambda error, _: outcomes.append(error and error.name()))
        producer.flush(20)
    return outcomes


def raise_epoch(cluster, partition, times):
    """Each of the two brokers restarts in turn, from the leader on, and the other leads."""
    for _ in range(times):
        leader = int(partition.leader)
        cluster.broker(leader).restart()
        partition.wait(leader=1 - leader, isr={0, 1})


def state(cluster, capsys, *new):
    """What the partition's znode holds; before, `new` is written there."""
    for data in new:
        assert run(["zk", "set", STATE, data, "-z", cluster.zookeeper]) == 0
    capsys.readouterr()
    assert run(["zk", "get", STATE, "-z", cluster.zookeeper]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("protocol", ["3.9", "2.6"])
def test_a_follower_goes_on_whose_leader_is_in_an_epoch_before_the_last_of_its_log(capsys, protocol):
    with KafkaCluster(2, config={"inter.broker.protocol.version": protocol}) as cluster:
        cluster.create_topic("t", assignment={0: [0, 1]})
        partition = cluster.partition("t", 0)
        assert send(cluster, [b"in the first epoch"]) == [None]
        backup = state(cluster, capsys)
        raise_epoch(cluster, partition, 4)
        assert send(cluster, [b"in the last epoch", b"y" * 600_000, b"z" * 600_000]) == [None] * 3
        last = state(cluster, capsys)
        assert last["leader_epoch"] - backup["leader_epoch"] >= 4
        for broker_id in (0, 1):
            cluster.broker(broker_id).stop()
        restored = backup | {"isr": [0]}
        assert state(cluster, capsys, json.dumps(restored)) == restored
        cluster.broker(0).start()
        cluster.broker(1).start()
        partition.wait(leader=0, isr={0, 1})
        assert backup["leader_epoch"] <= partition.leader_epoch < last["leader_epoch"]
        assert send(cluster, [b"after the restore"]) == [None]
        partition.wait(isr={0, 1})
        assert len(cluster.records("t")) == 5
        assert "the znodes are older than the log" in cluster.timeline()
        cluster.broker(0).kill()
        partition.wait(leader=1)
        assert len(cluster.records("t")) == 5
        cluster.verify()


@pytest.mark.parametrize("rises", [(1, 1, 1), (3,)], ids=["by one", "past the number that fell"])
def test_a_new_replica_takes_a_log_whose_epochs_fall_and_rise_again(capsys, rises):
    with KafkaCluster(3, config={"replica.fetch.max.bytes": "1000"}) as cluster:
        cluster.create_topic("t", assignment={0: [0, 1]})
        partition = cluster.partition("t", 0)
        assert send(cluster, [b"in the first epoch"]) == [None]
        backup = state(cluster, capsys)
        raise_epoch(cluster, partition, 2)
        assert send(cluster, [b"x" * 900] * 4) == [None] * 4
        for broker_id in (0, 1, 2):
            cluster.broker(broker_id).stop()
        assert state(cluster, capsys, json.dumps(backup)) == backup
        for broker_id in (0, 1, 2):
            cluster.broker(broker_id).start()
        partition.wait(leader=0, isr={0, 1})
        assert send(cluster, [b"after the restore"]) == [None]
        for rise in rises:
            raise_epoch(cluster, partition, rise)
            assert send(cluster, [b"in a later epoch"]) == [None]
        plan = {"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [0, 1, 2]}]}
        assert run(["zk", "create", "/admin/reassign_partitions", json.dumps(plan), "-z", cluster.zookeeper]) == 0
        partition.wait(isr={0, 1, 2})
        cluster.verify()
