"""Handles for tests: a broker, a partition, a topic or a group of the cluster."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

from barnabas.client.admin import Admin
from barnabas.client.consumer import Consumer
from barnabas.client.descriptions import GroupDescription
from barnabas.client.group import committed_offsets
from barnabas.client.offsets import EARLIEST, LATEST, READ_COMMITTED
from barnabas.model.ids import TopicPartition
from barnabas.testing.host import ZOOKEEPER, PartitionView, broker_name
from barnabas.testing.network import CLIENT
from barnabas.testing.running import TIMEOUT, RunningCluster

End: TypeAlias = "BrokerHandle | int | str"
Ends: TypeAlias = "End | Iterable[BrokerHandle | int | str]"


class Record(NamedTuple):
    """A record as a consumer gets it; `timestamp` is in ms since the epoch."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]
    timestamp: int


def is_led(view: PartitionView | None) -> bool:
    return view is not None and view.leader >= 0


class BrokerHandle:
    """One of the cluster's brokers, whether it runs or not. Compares equal to its id."""

    def __init__(self, cluster: RunningCluster, broker_id: int) -> None:
        self._cluster = cluster
        self.id = broker_id

    def __eq__(self, other: object) -> bool:
        return other.id == self.id if isinstance(other, BrokerHandle) else other == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    def __lt__(self, other: Any) -> bool:
        return self.id < int(other)

    def __int__(self) -> int:
        return self.id

    __index__ = __int__

    def __repr__(self) -> str:
        return f"<broker {self.id}, {self.state}>"

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._cluster.host.ports[self.id]}"

    @property
    def state(self) -> str:
        """``running``, ``paused``, ``stopped`` or ``failed``."""
        return self._cluster.host.state(self.id)

    @property
    def is_controller(self) -> bool:
        return self._cluster.run(self._cluster.host.controller()) == self.id

    def kill(self) -> None:
        """``kill -9``: connections are reset without notice; written data stay on the broker's disk."""
        self._cluster.run(self._cluster.host.kill_broker(self.id))

    def stop(self) -> None:
        """A controlled shutdown: other brokers take over the broker's leaderships first."""
        self._cluster.run(self._cluster.host.stop_broker(self.id))

    def start(self) -> None:
        """Starts the broker again with its old disk; returns when it serves. Does nothing if it runs."""
        self._cluster.run(self._cluster.host.start_broker(self.id))

    def restart(self) -> None:
        """`stop`, then `start`."""
        self.stop()
        self.start()

    def pause(self) -> None:
        """As SIGSTOP: the broker keeps its connections and does nothing, until `resume`."""
        self._cluster.run(self._cluster.host.pause_broker(self.id))

    def resume(self) -> None:
        """As SIGCONT: the broker goes on, and finds out by itself what it missed."""
        self._cluster.run(self._cluster.host.resume_broker(self.id))

    def fill_disk(self) -> None:
        """Fills the broker's disk, which must be in memory. A broker whose only disk fails halts (``failed``)."""
        self._cluster.on_loop(lambda: self._cluster.host.fill_disk(self.id))

    def empty_disk(self) -> None:
        """Frees the filled disk; a broker that has halted needs a `start`."""
        self._cluster.on_loop(lambda: self._cluster.host.empty_disk(self.id))

    def partition(self, *, from_: Ends | None = None, to: Ends | None = None) -> None:
        """Cuts the broker's links from `from_` and to `to`; without either, all its links in both directions. Ends are
        brokers (handles or ids), ``"zookeeper"``, ``"client"`` (every client of the test) or ``"brokers"`` (all other
        brokers). Bytes sent into a cut link arrive when it is healed.
        """
        if from_ is None and to is None:
            everyone = ["brokers", ZOOKEEPER, CLIENT]
            from_, to = everyone, everyone
        me = broker_name(self.id)
        for end in self._cluster.ends(from_ or (), self.id):
            self._cluster.cut(end, me)
        for end in self._cluster.ends(to or (), self.id):
            self._cluster.cut(me, end)

    def heal(self) -> None:
        """Heals every cut link of this broker. Returns when the broker is registered again and, unless other links are
        still cut, in the ISR of all its partitions. Raises `ClusterError` after 30 s; it names what is missing."""
        self._cluster.heal_links(broker_name(self.id))
        self._cluster.run(self._cluster.host.until_back([self.id]))


class PartitionHandle:
    """One partition of a topic."""

    def __init__(self, cluster: RunningCluster, topic: str, number: int) -> None:
        self._cluster = cluster
        self.topic_partition = TopicPartition(topic, number)

    def __repr__(self) -> str:
        return f"<partition {self.topic_partition}>"

    async def _now(self) -> PartitionView | None:
        return await self._cluster.host.view(self.topic_partition)

    async def _settled(self, timeout: float) -> PartitionView:
        view = await self._cluster.until(is_led, self._now, f"{self.topic_partition} has a leader", timeout)
        assert view is not None
        return view

    @property
    def leader(self) -> BrokerHandle:
        """The partition's leader; waits for an election to end."""
        return BrokerHandle(self._cluster, self._cluster.run(self._settled(TIMEOUT)).leader)

    @property
    def leader_epoch(self) -> int:
        return self._cluster.run(self._settled(TIMEOUT)).leader_epoch

    @property
    def isr(self) -> set[BrokerHandle]:
        """The in-sync replicas."""
        return {BrokerHandle(self._cluster, broker_id) for broker_id in self._cluster.run(self._settled(TIMEOUT)).isr}

    @property
    def replicas(self) -> list[BrokerHandle]:
        """The assigned replicas, the preferred leader first."""
        return [BrokerHandle(self._cluster, replica) for replica in self._cluster.run(self._settled(TIMEOUT)).replicas]

    @property
    def followers(self) -> list[BrokerHandle]:
        """The assigned replicas except the leader, in their order."""
        view = self._cluster.run(self._settled(TIMEOUT))
        return [BrokerHandle(self._cluster, replica) for replica in view.replicas if replica != view.leader]

    @property
    def high_watermark(self) -> int:
        """The high watermark: consumers may read up to it."""
        self._cluster.run(self._now())
        return self._cluster.run(self._high_watermark())

    async def _high_watermark(self) -> int:
        partition = self.topic_partition
        return (await self._cluster.offsets([partition], LATEST))[partition]

    def wait(
        self,
        *,
        leader: BrokerHandle | int | None = None,
        not_leader: BrokerHandle | int | None = None,
        isr: Iterable[BrokerHandle | int] | None = None,
        high_watermark: int | None = None,
        timeout: float = TIMEOUT,
    ) -> PartitionHandle:
        """Returns when leader and ISR are as requested, and the metadata of every in-sync broker show it.
        `high_watermark` is a lower bound. Raises ``TimeoutError`` with the last state.
        """
        wanted = None if isr is None else frozenset(int(member) for member in isr)

        def fits(view: PartitionView | None) -> bool:
            return (
                view is not None
                and view.leader >= 0
                and (leader is None or view.leader == int(leader))
                and (not_leader is None or view.leader != int(not_leader))
                and (wanted is None or view.isr == wanted)
            )

        asked = [
            *([f"leader {int(leader)}"] if leader is not None else []),
            *([f"another leader than {int(not_leader)}"] if not_leader is not None else []),
            *([f"isr {sorted(wanted)}"] if wanted is not None else []),
        ]
        what = f"{self.topic_partition} has {' and '.join(asked) or 'a leader'}"
        deadline = time.monotonic() + timeout
        self._cluster.run(self._cluster.until(fits, self._now, what, timeout))
        if high_watermark is not None:
            what = f"{self.topic_partition} has a high watermark of {high_watermark}"
            left = deadline - time.monotonic()
            self._cluster.run(
                self._cluster.until(lambda found: found >= high_watermark, self._high_watermark, what, left)
            )
        return self


class TopicHandle:
    """A topic."""

    def __init__(self, cluster: RunningCluster, name: str) -> None:
        self._cluster = cluster
        self.name = name

    def __repr__(self) -> str:
        return f"<topic {self.name}>"

    def partition(self, number: int) -> PartitionHandle:
        return PartitionHandle(self._cluster, self.name, number)

    @property
    def partitions(self) -> list[PartitionHandle]:
        found = self._cluster.run(self._cluster.partitions_of(self.name))
        return [self.partition(topic_partition.partition) for topic_partition in found]

    def consumed_by(self, group: str, *, timeout: float = TIMEOUT) -> None:
        """Returns when `group` has committed every record that the topic has now; ``TimeoutError`` has the group's
        position. It does not wait for markers and aborted records, but for open transactions.
        """
        cluster = self._cluster

        async def behind() -> dict[str, tuple[int, int]]:
            partitions = await cluster.partitions_of(self.name)
            starts, ends = await cluster.offsets(partitions, EARLIEST), await cluster.offsets(partitions, LATEST)
            committed = await committed_offsets(cluster.client, group, partitions)
            left = {
                partition: max(committed[partition], start)
                for partition, start in starts.items()
                if max(committed[partition], start) < ends[partition]
            }
            return {
                str(partition): (committed[partition], ends[partition])
                for partition, offset in left.items()
                if await self._has_records(partition, offset, ends[partition])
            }

        cluster.run(cluster.until(lambda left: not left, behind, f"{group} has consumed {self.name}", timeout))

    async def _has_records(self, partition: TopicPartition, offset: int, end: int) -> bool:
        """Whether there is a record from this offset on that counts, or one that may count later. After a group's last
        record there are often only end markers or aborted records, which no client commits."""
        client = self._cluster.client
        stable = await client.list_offsets({partition: LATEST}, isolation_level=READ_COMMITTED)
        if stable[partition].offset < end:
            return True
        consumer = Consumer(client, isolation_level=READ_COMMITTED, max_wait_ms=50, partition_max_bytes=1)
        try:
            await consumer.assign({partition: offset})
            while consumer.position(partition) < end:
                if await consumer.poll(50):
                    return True
            return False
        finally:
            await consumer.close()

    def records(self, *, timeout: float = TIMEOUT) -> list[Record]:
        """Every record that a consumer may read now, by partition and offset."""
        cluster = self._cluster

        async def read() -> list[Record]:
            partitions = await cluster.partitions_of(self.name)
            ends = await cluster.offsets(partitions, LATEST)
            starts = await cluster.offsets(partitions, EARLIEST)
            consumer = Consumer(cluster.client, max_wait_ms=50)
            await consumer.assign(
                {
                    topic_partition: starts[topic_partition]
                    for topic_partition in partitions
                    if starts[topic_partition] < ends[topic_partition]
                }
            )
            found: list[Record] = []
            deadline = time.monotonic() + timeout
            while any(
                consumer.position(topic_partition) < ends[topic_partition] for topic_partition in consumer.assignment
            ):
                if time.monotonic() > deadline:
                    raise TimeoutError(f"Not within {timeout:g} s: the records of {self.name} are read.")
                for name, partition, record in await consumer.poll(100):
                    if record.offset < ends[TopicPartition(name, partition)]:
                        found.append(
                            Record(partition, record.offset, record.key, record.value, record.headers, record.timestamp)
                        )
            await consumer.close()
            return sorted(found, key=lambda record: (record.partition, record.offset))

        return cluster.run(read())


class GroupHandle:
    """A consumer group."""

    def __init__(self, cluster: RunningCluster, name: str) -> None:
        self._cluster = cluster
        self.name = name

    def __repr__(self) -> str:
        return f"<group {self.name}>"

    async def _described(self) -> GroupDescription:
        return await Admin(self._cluster.client).describe_group(self.name)

    @property
    def state(self) -> str:
        """``Stable``, ``PreparingRebalance``, ``CompletingRebalance``, ``Empty`` or ``Dead``."""
        return self._cluster.run(self._described()).state

    @property
    def members(self) -> list[str]:
        """The client ids of its members, sorted."""
        return sorted(member.client_id for member in self._cluster.run(self._described()).members)

    def stable(self, *, members: int | None = None, timeout: float = TIMEOUT) -> None:
        """Returns when the group is stable and has this number of `members` (None: at least one)."""

        async def now() -> tuple[str, int]:
            described = await self._described()
            return described.state, len(described.members)

        def fits(found: tuple[str, int]) -> bool:
            return found[0] == "Stable" and (found[1] > 0 if members is None else found[1] == members)

        what = f"group {self.name} is stable" + ("" if members is None else f" with {members} members")
        self._cluster.run(self._cluster.until(fits, now, what, timeout))

    def committed(self, topic: str) -> dict[int, int]:
        """The committed offset of each partition, -1 if there is none."""

        async def now() -> dict[int, int]:
            partitions = await self._cluster.partitions_of(topic)
            offsets = await committed_offsets(self._cluster.client, self.name, partitions)
            return {partition.partition: offset for partition, offset in offsets.items()}

        return self._cluster.run(now())
