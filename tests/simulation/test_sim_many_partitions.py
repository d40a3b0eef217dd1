"""What concerns hundreds of partitions at once leaves a broker time for everything else."""

from __future__ import annotations

from collections import Counter
from typing import Any

from test_sim_sessions import played

from barnabas.broker.shares import NEW_LOG, PARTITIONS_AT_ONCE
from barnabas.client.admin import Admin, NewTopic
from barnabas.log.log import Log
from barnabas.log.log_dirs import LogDirs
from barnabas.model.ids import TopicPartition
from barnabas.replica.replicas import Replicas
from barnabas.sim.world.probes import Probes
from barnabas.sim.world.world import World
from barnabas.wire.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from barnabas.wire.messages.stop_replica import StopReplicaRequest, StopReplicaResponse

TOPICS = {"one": 150, "two": 3, "three": 60, "four": 1}


def test_roles_and_deletions_of_hundreds_of_partitions_are_taken_in_shares_with_turns_for_others_between_them() -> None:
    shares: list[tuple[int, int, int]] = []
    """The broker, the callback of the loop, and how many partitions."""
    stops: list[tuple[int, int, int]] = []
    made: Counter[tuple[int, int]] = Counter()
    """Logs by broker and callback."""
    probes = Probes()

    async def play(world: World) -> None:
        def taken(answer: LeaderAndIsrResponse, replicas: Replicas, request: LeaderAndIsrRequest, **_: Any) -> None:
            assert len({topic.topic_id for topic in answer.topics}) == len(answer.topics) == len(request.topic_states)
            count = sum(len(topic.partition_states) for topic in request.topic_states)
            shares.append((replicas.broker_id, world.loop.callbacks, count))

        def stopped(answer: StopReplicaResponse, replicas: Replicas, request: StopReplicaRequest) -> None:
            count = sum(len(topic.partition_states) for topic in request.topic_states)
            assert len(answer.partition_errors) == count
            stops.append((replicas.broker_id, world.loop.callbacks, count))

        def counted(get_or_create: Any, log_dirs: LogDirs, partition: TopicPartition, **fields: Any) -> Log:
            made[id(log_dirs), world.loop.callbacks] += log_dirs.get(partition) is None
            log: Log = get_or_create(log_dirs, partition, **fields)
            return log

        probes.after(Replicas, "become_leader_or_follower", taken)
        probes.around(LogDirs, "get_or_create", counted)

        async def create(_: Any, cluster: Any) -> None:
            new = [NewTopic(name, count, 3) for name, count in TOPICS.items()]
            assert not any((await Admin(cluster).create_topics(new)).values())

        await world.client(create, "admin")
        doomed = next(name for name in world.broker_names if name != world.controller())
        world.kill(doomed)
        gone = int(doomed.rpartition("-")[2])
        partitions = [f"{name}-{number}" for name, count in TOPICS.items() for number in range(count)]
        await world.until(
            lambda: all((state := world.state(each)) and state["leader"] not in (gone, -1) for each in partitions),
            "every partition has a leader that lives",
        )
        await world.until(lambda: follows(world, partitions), "the living brokers lead and follow as ZooKeeper says")

        async def delete(_: Any, cluster: Any) -> None:
            assert not any((await Admin(cluster).delete_topics(list(TOPICS))).values())

        probes.after(Replicas, "stop_replicas", stopped)
        world.start_broker(doomed)
        await world.client(delete, "admin")
        await world.until(lambda: not any(b.replicas.partitions for b in world.brokers.values()), "all replicas went")

    try:
        played(1, play)
    finally:
        probes.remove()
    assert max(made.values()) == PARTITIONS_AT_ONCE // NEW_LOG
    for taken in (shares, stops):
        assert max(count for _, _, count in taken) == PARTITIONS_AT_ONCE
        for broker in {each[0] for each in taken}:
            callbacks = [callback for whose, callback, count in taken if whose == broker and count > 1]
            assert len(callbacks) == len(set(callbacks)), f"broker {broker} took two shares in one go"


def follows(world: World, partitions: list[str]) -> bool:
    told = {each: world.state(each) for each in partitions}
    return all(
        (state := told[str(partition.topic_partition)]) is None or partition.leader_id == state["leader"]
        for broker in world.brokers.values()
        for partition in broker.replicas.partitions
        if str(partition.topic_partition) in told
    )
