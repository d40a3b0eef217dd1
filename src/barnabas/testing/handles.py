"""Handles for tests: a broker, a partition, a topic, a group of the cluster."""

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
    """A record as a consumer would get it; `timestamp` in ms since the epoch."""

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
        """``kill -9``: connections are reset without notice; what it wrote is still on its disk."""
        self._cluster.run(self._cluster.host.kill_broker(self.id))

    def stop(self) -> None:
        """A controlled shutdown: its leaderships are handed over first."""
        self._cluster.run(self._cluster.host.stop_broker(self.id))

    def start(self) -> None:
        """Starts it again with the disk it left; returns when it serves. Does nothing where it runs."""
        self._cluster.run(self._cluster.host.start_broker(self.id))

    def restart(self) -> None:
        """`stop`, then `start`."""
        self.stop()
        self.start()

    def pause(self) -> None:
        """As SIGSTOP: it keeps its connections and does nothing, until `resume`."""
        self._cluster.run(self._cluster.host.pause_broker(self.id))

    def resume(self) -> None:
        """Goes on where it was paused; it finds out by itself what it missed."""
        self._cluster.run(self._cluster.host.resume_broker(self.id))

    def fill_disk(self) -> None:
        """Its disk, if in memory, takes nothing more; a broker whose only disk fails halts (``failed``)."""
        self._cluster.on_loop(lambda: self._cluster.host.fill_disk(self.id))

    def empty_disk(self) -> None:
        """There is room again; a broker that has halted needs a `start`."""
        self._cluster.on_loop(lambda: self._cluster.host.empty_disk(self.id))

    def partition(self, *, from_: Ends | None = None, to: Ends | None = None) -> None:
        """Cuts links: what comes from `from_`, what goes to `to`; without either, all links both ways.

        Ends are brokers (handles or ids), ``"zookeeper"``, ``"client"`` (every client of the test) or ``"brokers"``
        (all others). Bytes sent into a cut link arrive when it is healed.
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
        """Mends every cut link of this broker. Returns when it is registered again and, unless other links are still
        cut, in every ISR that it belongs to. Raises `ClusterError`, naming what is missing, after 30 s."""
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
        """Its leader; waits for an election that is under way."""
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
        """Below it, consumers may read."""
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
        """Returns when leader and ISR are as asked for and every in-sync broker tells clients so.

        `high_watermark` is a lower bound. Raises ``TimeoutError``, which says what was there instead.
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
        """Returns when `group` has committed every record that the topic has now; ``TimeoutError`` says how far it is.

        Markers and aborted records are not waited for; an open transaction is.
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
        """Whether a record counts there, or may yet. Behind a group's last record there are often only end markers or
        aborted records, and no client commits those."""
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
        """Returns when the group is stable, with so many `members` (None: at least one)."""

        async def now() -> tuple[str, int]:
            described = await self._described()
            return described.state, len(described.members)

        def fits(found: tuple[str, int]) -> bool:
            return found[0] == "Stable" and (found[1] > 0 if members is None else found[1] == members)

        what = f"group {self.name} is stable" + ("" if members is None else f" with {members} members")
        self._cluster.run(self._cluster.until(fits, now, what, timeout))

    def committed(self, topic: str) -> dict[int, int]:
        """The committed offset of each partition, -1 where there is none."""

        async def now() -> dict[int, int]:
            partitions = await self._cluster.partitions_of(topic)
            offsets = await committed_offsets(self._cluster.client, self.name, partitions)
            return {partition.partition: offset for partition, offset in offsets.items()}

        return self._cluster.run(now())
