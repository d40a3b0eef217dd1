"""What operators are told: groups and offsets (G6), lookups (R23), effective settings (C18). A broker that is no longer
leader, and has not heard so, is not blamed for its answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from barnabas.client.admin import Admin
from barnabas.client.cluster import ClusterClient
from barnabas.client.offsets import ListedOffset
from barnabas.coordinator.groups import Group
from barnabas.log.settings import LogSettings
from barnabas.model.config import topic_config
from barnabas.model.ids import TopicPartition
from barnabas.sim.clients.history import Sent
from barnabas.sim.world.world import World

if TYPE_CHECKING:
    from barnabas.sim.judges.checkers import Checkers


class Answers:
    def __init__(self, checkers: Checkers) -> None:
        self.checkers = checkers

    def _leads_alone(self, partition: str) -> bool:
        """Whether at most one broker takes itself for the leader. A former leader that has not heard of the next one
        answers too."""
        topic, _, number = partition.rpartition("-")
        each, brokers = TopicPartition(topic, int(number)), self.checkers.world.brokers.values()
        led = (broker.replicas.partition(each) for broker in brokers)
        return sum(1 for partition in led if partition is not None and partition.is_leader) <= 1

    def offsets_asked(self, group: str) -> Callable[[str, int], None]:
        """G6: a group is never told an offset below one that was acknowledged before it asked, nor one that nobody
        committed."""
        checkers, before = self.checkers, dict(self.checkers.history.commits)
        kept_in = checkers.offsets_partition(group)
        alone = self._leads_alone(kept_in)

        def told(partition: str, offset: int) -> None:
            if checkers.gone_ns(partition.rpartition("-")[0]) >= 0:
                return
            checkers.world.check("G6")
            commit, asked = before.get((group, partition)), checkers.history.asked_to_commit
            acknowledged = -1 if commit is None else commit[0]
            # A reader that had read lost records is thrown back, and commits a lower offset.
            thrown_back = checkers.logs.losses.may_be_lost(partition, reaching=acknowledged - 1)
            # It may also have been lost since the request, which waits for a coordinator.
            less = thrown_back or (commit is not None and checkers.commit_may_be_lost(group, partition, commit))
            if less and acknowledged >= 0:
                checkers.world.waive("G6")
            earlier = not less and offset < acknowledged and alone and self._leads_alone(kept_in)
            if earlier or (offset >= 0 and offset not in asked.get((group, partition), {})):
                sentence = f"group {group} is told {offset} for {partition}; {acknowledged} was acknowledged"
                checkers.world.violated("G6", sentence, partition)

        return told

    def groups_asked(self) -> Callable[[Sequence[str]], None]:
        """G6: a list of groups has every group that was coordinated for the whole time of the request."""
        before = self._coordinated()

        def told(listed: Sequence[str]) -> None:
            now = self._coordinated()
            self.checkers.world.check("G6")
            left_out = [known for known in before if known in now and before[known] is now[known]]
            for name, group in [known for known in left_out if known[1] not in listed][:1]:
                sentence = f"the list of all groups lacks {group}, which {name} coordinates"
                self.checkers.world.violated("G6", sentence, node=name)

        return told

    def _coordinated(self) -> dict[tuple[str, str], Group]:
        """By broker and name: the groups that have members or committed offsets, where all brokers know of them."""
        brokers = self.checkers.world.brokers
        return {
            (name, group_id): group
            for name, broker in brokers.items()
            if all(broker.broker_id in other.metadata.image.brokers for other in brokers.values())
            for partition in broker.groups.owned
            for group_id, group in partition.groups.items()
            if group.offsets.committed or group.members
        }

    def may_be_thrown_back(self, group: str, partition: str, floor: int) -> bool:
        """Whether a reader may have to go back behind `floor`. That is so when the record there or the group's commit
        may be lost, when it belonged to an earlier topic of the name, or when a leader deleted it and the next leader
        has not yet."""
        checkers = self.checkers
        return (
            floor < checkers.logs.deleted_to(partition)
            or checkers.gone_ns(partition.rpartition("-")[0]) >= 0
            or checkers.logs.losses.may_be_lost(partition, reaching=floor - 1)
            or ((group, partition) in checkers.history.commits and checkers.commit_may_be_lost(group, partition))
        )

    def begins(self, client: str, partition: str, offset: int) -> None:
        """G4: a reader that seeks to the beginning is given nothing later than the first record that anybody was
        given."""
        checkers, topic = self.checkers, partition.rpartition("-")[0]
        begins = checkers.logs.deleted_to(partition)
        known = [at for place, at in checkers.history.read if place == partition and at >= begins]
        checkers.world.check("G4")
        if topic in checkers.compacted or checkers.gone_ns(topic) >= 0 or checkers.logs.losses.may_be_lost(partition):
            checkers.world.waive("G4")
        elif known and min(known) < offset:
            sentence = f"{client} goes to the beginning of {partition} and is given {offset}; {min(known)} is there"
            checkers.world.violated("G4", sentence, partition)

    def looked_up(self, each: TopicPartition, sent: Sent) -> Callable[[ListedOffset], None]:
        """R23: a lookup by a record's timestamp finds that record, or an earlier one that is at least as young."""
        checkers, partition = self.checkers, str(each)
        alone = self._leads_alone(partition)

        def told(found: ListedOffset) -> None:
            checkers.world.check("R23")
            if (
                not (alone and self._leads_alone(partition))
                or checkers.logs.losses.may_be_lost(partition)
                or checkers.gone_ns(sent.topic) >= 0
                or sent.offset < checkers.logs.deleted_to(partition)
                or sent.topic in checkers.compacted
                or partition in checkers.logs.stamped
            ):
                checkers.world.waive("R23")
            elif not 0 <= found.offset <= sent.offset or found.timestamp < sent.timestamp:
                sentence = f"a lookup in {partition} by {sent.timestamp}, the time of {sent.offset}, ends at {found}"
                checkers.world.violated("R23", sentence, partition)

        return told


async def groups_are_listed(checkers: Checkers, cluster: ClusterClient) -> None:
    """G6: in the end every group that has committed for an existing topic is in the list of groups."""
    listed = {known.group for known in await Admin(cluster).list_groups()}
    commits = checkers.history.commits
    kept = [key for key, (_, told_ns) in commits.items() if told_ns > checkers.gone_ns(key[1].rpartition("-")[0])]
    for group in sorted({group for group, _ in kept}):
        checkers.world.check("G6")
        if all(checkers.commit_may_be_lost(*key) for key in kept if key[0] == group):
            checkers.world.waive("G6")
        elif group not in listed:
            checkers.world.violated("G6", f"group {group} has committed, and is not among those that are listed")


def unlike_configured(world: World, knows_config: Callable[[str, str], bool]) -> list[str]:
    """C18: a topic's settings are those of each of its logs, on every broker that `knows_config`."""
    wrong: list[str] = []
    for name, broker in world.brokers.items():
        for partition in broker.replicas.partitions:
            stored = world.znode(f"/config/topics/{partition.topic_partition.topic}")
            values = json.loads(stored)["config"] if stored else {}
            right = LogSettings.of(topic_config(broker.config, values))
            known = knows_config(name, str(partition.topic_partition))
            if known and partition.log is not None and partition.log.settings != right:
                wrong.append(f"{name} keeps {partition.topic_partition} by {partition.log.settings}, not {right}")
    return wrong


def unlike_zookeeper(world: World, topics: Mapping[str, Mapping[int, list[int]]]) -> list[str]:
    """C14: what every broker knows of `topics` and brokers is what ZooKeeper has."""
    wrong: list[str] = []
    for name, broker in world.brokers.items():
        image = broker.metadata.image
        if sorted(image.topics) != sorted(topics):
            wrong.append(f"{name} knows the topics {sorted(image.topics)}, ZooKeeper has {sorted(topics)}")
            continue
        if sorted(image.brokers) != list(range(len(world.broker_names))):
            wrong.append(f"{name} knows the brokers {sorted(image.brokers)}")
        for topic, partitions in topics.items():
            if strangers := sorted(image.topics[topic].partitions.keys() - partitions):
                wrong.append(f"{name} knows the partitions {strangers} of {topic}, which are not in ZooKeeper")
            for number, replicas in partitions.items():
                state, info = world.state(f"{topic}-{number}"), image.topics[topic].partitions.get(number)
                known = None if info is None else (info.leader, info.leader_epoch, sorted(info.isr), [*info.replicas])
                there = None
                if state is not None:
                    there = state["leader"], state["leader_epoch"], sorted(state["isr"]), replicas
                if info is not None and info.offline_replicas:
                    wrong.append(f"{name} takes {info.offline_replicas} of {topic}-{number} for offline")
                if known != there:
                    wrong.append(f"{name} has {topic}-{number} as {known}, ZooKeeper as {there}")
    return wrong
