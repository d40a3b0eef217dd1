"""Watches what a log is after a restart (R15, R13), and which copies lost something in a power loss.

A copy is *wiped* when a disk lost something of it. It is so until it holds all that is committed again and no leader,
not even one that only believes to lead, takes it to have more than it has.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.log.checkpoints import RECOVERY_POINTS
from barnabas.log.log import Log
from barnabas.log.log_dirs import CLEAN_SHUTDOWN_FILE
from barnabas.model.ids import TopicPartition
from barnabas.sim.judges.chain import Chain, ChainedBatch, bytes_in, read_checkpoint, whole_batches
from barnabas.sim.world.world import DATA, World, broker_number

if TYPE_CHECKING:
    from barnabas.sim.judges.watch_logs import LogWatch


UNDER_WAY_NS: Final = 5_000_000_000
"""No simulated link delays a byte for longer."""


class Dead(NamedTuple):
    """What a log held when its process ended, and how that ended.

    `in_trouble`: its disk had given errors. `closed`: the process was shutting down and had closed it. `appending` and
    `cutting_at`: the process died amid that. `stopped`: it had shut down completely.
    """

    log_dir: str
    topic_id: str
    links: list[ChainedBatch]
    log_start: int
    how: str
    in_trouble: bool
    closed: bool
    appending: bool
    cutting_at: int | None
    stopped: bool = False

    def may_lack(self, links: int, since: int) -> bool:
        """Whether the cut amid which the process died explains that only so many batches from `since` on are left."""
        if self.cutting_at is None:
            return False
        before = [link for link in self.links if link.last >= since]
        return all(link.last >= self.cutting_at for link in before[links:])


class RestartWatch:
    def __init__(self, world: World, logs: LogWatch) -> None:
        self.world = world
        self.logs = logs
        self.wiped: dict[tuple[str, str], int] = {}
        """Node and partition whose copy lost something, and when."""
        self._before_loss: dict[tuple[str, str], tuple[str, Dead, int]] = {}
        self._dead: dict[tuple[str, str], Dead] = {}
        self._damaged: dict[tuple[str, str], None] = {}
        """Logs of dead processes that have lost something since."""
        self._trouble: dict[str, int] = {}
        """By node: how many errors its disk had given when the logs that it last served were read."""
        self._errors_when_read: dict[str, int] = {}
        self._synced: dict[tuple[str, str], int] = {}
        """How many batches were certainly on the platter when power was lost."""
        self.synced_end: dict[tuple[str, str], int] = {}
        """By node and partition: up to where that was when power was last lost."""

    def restarted(self, log: Log, chain: Chain) -> None:
        """R15: after a restart the log is a prefix of what was written, and has all that was synced."""
        world, key = self.world, (chain.node, chain.partition)
        dead = self._dead.get(key)
        if dead is not None and dead.log_dir != log.log_dir.path:
            return  # one of the two is in a directory that was away when the other was made, as a new replica
        self._dead.pop(key, None)
        synced = self._synced.pop(key, 0)
        damaged = key in self._damaged
        self._errors_when_read[chain.node] = self._errors(chain.node)
        self._damaged.pop(key, None)
        if dead is None or (chain.topic_id and dead.topic_id and dead.topic_id != chain.topic_id):
            return
        if dead.in_trouble or self._in_trouble(chain.node):
            return  # an operation that failed half-way may have been undone, or not
        world.check("R15")
        if dead.stopped and chain.log_start < dead.log_start:
            world.violated(
                "R15", f"after a clean stop, {chain.partition} on {chain.node} begins at {chain.log_start}, before "
                f"{dead.log_start}", chain.partition, chain.node,
            )  # fmt: skip
        # Segments before the log's start may be back: as in Kafka, nobody syncs their removal or the start.
        start, how = max(chain.log_start, dead.log_start), dead.how
        start = max(start, self.logs.cleaned_to(chain.partition, chain.topic_id))
        before = [link for link in dead.links if link.last >= start]
        after = [link for link in chain.links if link.last >= start]
        same = [(link.base, link.last, link.epoch, link.crc) for link in after]
        was = [(link.base, link.last, link.epoch, link.crc) for link in before]
        if dead.appending:
            del same[len(was) :]  # what was being written is there
        if same != was[: len(same)]:
            at = next((i for i, pair in enumerate(zip(same, was, strict=False)) if pair[0] != pair[1]), len(was))
            world.violated(
                "R15", f"after {how}, {chain.partition} on {chain.node} holds {same[at : at + 1]}, no prefix of "
                f"what was written: {was[at : at + 1]}", chain.partition, chain.node,
            )  # fmt: skip
        elif len(same) < len(was):
            if dead.may_lack(len(same), start):
                pass
            elif not damaged:
                world.violated(
                    "R15", f"after {how}, {chain.partition} on {chain.node} ends at {log.log_end_offset}, "
                    f"before {was[-1][1] + 1}", chain.partition, chain.node,
                )  # fmt: skip
            elif dead.links[:synced] and after and after[-1].last < dead.links[synced - 1].last:
                world.violated(
                    "R15", f"after {how}, {chain.partition} on {chain.node} ends at {log.log_end_offset}; up to "
                    f"{dead.links[synced - 1].last + 1} was synced", chain.partition, chain.node,
                )  # fmt: skip
        self.epochs_match(log, chain)

    def _in_trouble(self, name: str) -> bool:
        """Whether the node's disk has given errors since its broker last served; then its logs may hold anything."""
        return self._errors(name) != self._trouble.setdefault(name, 0)

    def _errors(self, name: str) -> int:
        node = self.world.nodes[name]
        return node.disk.errors + node.volume.refused_writes

    def epochs_match(self, log: Log, chain: Chain) -> None:
        """R13: the leader epoch cache rises strictly and agrees with every batch."""
        world = self.world
        world.check("R13")
        entries = log.leader_epochs.entries
        for one, other in pairwise(entries):
            if not (one.epoch < other.epoch and one.start_offset <= other.start_offset):
                world.violated(
                    "R13", f"{chain.partition} on {chain.node}: epochs {entries}", chain.partition, chain.node
                )
                return
        index = 0
        for link in chain.links:
            if link.last < log.log_start_offset:
                continue
            while index + 1 < len(entries) and entries[index + 1].start_offset <= link.base:
                index += 1
            known = bool(entries) and entries[index].start_offset <= max(link.base, log.log_start_offset)
            if not known or entries[index].epoch != link.epoch:
                world.violated(
                    "R13", f"{chain.partition} on {chain.node}: the batch at {link.base} is of epoch {link.epoch}, "
                    f"the cache has {list(entries)}", chain.partition, chain.node,
                )  # fmt: skip
                return

    def serves(self, name: str) -> None:
        """The broker serves, so its logs are read. R15: no power loss may bring back the marker that spares their
        recovery."""
        self.world.check("R15")
        durable = self.world.nodes[name].volume.durable_names(f"{DATA}/")
        online = self.world.brokers[name].log_dirs.online_paths
        if marked := [path for path in online if f"{path}/{CLEAN_SHUTDOWN_FILE}" in durable]:
            self.world.violated(
                "R15", f"{name} serves, and the marker of a clean stop of {marked[0]} is on the platter", node=name
            )
        self._trouble[name] = self._errors_when_read.pop(name, self._trouble.get(name, 0))

    def process_ended(self, name: str, how: str) -> None:
        logs, in_trouble = self.logs, self._in_trouble(name)
        for (owner, partition), log in list(logs.of.items()):
            if owner == name:
                chain = logs.chains.pop(log, None)
                del logs.of[owner, partition]
                if chain is not None:
                    self._dead[name, partition] = Dead(
                        log.log_dir.path, chain.topic_id, chain.links, chain.log_start, how, in_trouble, log.closed,
                        chain.appending, chain.cutting_at, self._is_stopped(name, partition),
                    )  # fmt: skip

    def _is_stopped(self, name: str, partition: str) -> bool:
        """Whether the marker of a clean shutdown lies beside the log."""
        directory = (self._directory(name, partition) or "").rpartition("/")[0]
        return f"{directory}/{CLEAN_SHUTDOWN_FILE}" in self.world.nodes[name].volume.names

    def power_going(self, name: str) -> None:
        """Remembers what is surely on the platter."""
        volume = self.world.nodes[name].volume
        for (owner, partition), dead in list(self._dead.items()):
            prefix = self._directory(name, partition) if owner == name else None
            if prefix is None:
                continue
            if self._is_forsaken(prefix, name):
                self._dead[name, partition] = dead._replace(in_trouble=True)
            links = dead.links
            if not links:
                continue
            durable = volume.durable_files(prefix + "/")
            synced = self._synced[name, partition] = whole_batches(durable, links, dead.log_start)
            if dead.how == "power-lost" and not dead.in_trouble:
                self._starts_as_it_should(name, partition, prefix, dead, links[synced - 1].last + 1 if synced else 0)
            self._before_loss[name, partition] = prefix, dead, bytes_in(volume.names, prefix)

    def _starts_as_it_should(self, name: str, partition: str, prefix: str, dead: Dead, synced_end: int) -> None:
        """R15: recovery will take place, and begin no later than the synced data end."""
        world, directory = self.world, prefix.rpartition("/")[0]
        world.check("R15")
        durable = world.nodes[name].volume.durable_files(directory + "/")
        if f"{directory}/{CLEAN_SHUTDOWN_FILE}" in durable and not dead.closed:
            world.violated(
                "R15", f"{name} serves, and the marker of a clean stop is still on the platter", partition, name
            )
        if self._is_forsaken(prefix, name) or self.logs.cleaned_to(partition, dead.topic_id):
            return
        if (name, partition) in self._damaged and world.faults.get("bit-rot"):
            return  # what was synced may have rotted since, and nobody has read it yet
        if dead.cutting_at is not None:
            return  # the log is cut first; the checkpoint follows, and if not now then at the next start
        recovered = read_checkpoint(durable.get(f"{directory}/{RECOVERY_POINTS}", b"")).get(partition, 0)
        if recovered > max(synced_end, dead.log_start):
            world.violated(
                "R15", f"recovery of {partition} on {name} would begin at {recovered}, and only what is before "
                f"{synced_end} is synced", partition, name,
            )  # fmt: skip

    def _is_forsaken(self, prefix: str, name: str) -> bool:
        """Whether an fsync of the log failed, and the platter still has what was there before, perhaps records that
        were cut.

        The broker ended then, and its next process found all as it should be in the page cache, where nobody can tell.
        """
        names = self.world.nodes[name].volume.names
        return any(
            inode.forsaken and inode.cached != inode.durable
            for path, inode in names.items()
            if path.startswith(prefix + "/")
        )

    def power_gone(self, name: str) -> None:
        """A copy is wiped unless every byte of it came through."""
        volume = self.world.nodes[name].volume
        for key, (prefix, dead, before) in list(self._before_loss.items()):
            if key[0] != name:
                continue
            del self._before_loss[key]
            if bytes_in(volume.names, prefix) != before and dead.links:
                self._damaged[key] = None
                self.wiped[key] = self.world.loop.now_ns
                durable = volume.durable_files(prefix + "/")
                self._synced[key] = min(self._synced.get(key, 0), whole_batches(durable, dead.links, dead.log_start))
                end = dead.links[self._synced[key] - 1].last + 1 if self._synced[key] else 0
                self.synced_end[key] = end if end > dead.log_start else 0  # nothing is left of deleted records

    def _directory(self, name: str, partition: str) -> str | None:
        for directory in (f"{DATA}/a", f"{DATA}/b"):
            path = f"{directory}/{partition}"
            if path in self.world.nodes[name].volume.directories:
                return path
        return None

    def of_the_dead(self, partition: str, topic_id: str) -> list[list[ChainedBatch]]:
        """What lies in logs whose process is gone."""
        dead = [log for (_, name), log in self._dead.items() if name == partition]
        return [log.links for log in dead if log.topic_id == topic_id]

    def elected_unclean(self, name: str, partition: str) -> None:
        """The leader's copy may lack committed records, as if its disk had lost them."""
        self.wiped[name, partition], self.synced_end[name, partition] = self.world.loop.now_ns, 0

    def is_wiped(self, name: str, partition: str) -> bool:
        lost_ns = self.wiped.get((name, partition))
        if lost_ns is None:
            return False
        logs = self.logs
        log = logs.of.get((name, partition))
        chain = None if log is None else logs.chains.get(log)
        # A fetch from before the loss may still be under way, and tell the leader of what is lost (KAFKA-15221: only
        # KRaft has brokers' epochs in fetches).
        healed = (
            log is not None
            and chain is not None
            and name in self.world.brokers
            and self.world.loop.now_ns > lost_ns + UNDER_WAY_NS
            and logs.holds_committed(chain, log)
            and self._believed_end(chain) <= chain.end
        )
        if healed:
            del self.wiped[name, partition]
        return not healed

    def _believed_end(self, chain: Chain) -> float:
        """How far a leader believes the copy to reach. It may not have heard yet that the broker was away.

        Nor that it leads no more: a paused leader commits on what it believes when it goes on, until it hears. What a
        paused leader will believe is unknown: a fetch from before the loss may lie in its socket.
        """
        topic, _, number = chain.partition.rpartition("-")
        ends = [-1.0]
        for name, broker in self.world.brokers.items():
            led = broker.replicas.partition(TopicPartition(topic, int(number)))
            if led is not None and led.is_leader and str(led.topic_id) == chain.topic_id:
                process = self.world.nodes[name].process
                progress = led.progress.get(broker_number(chain.node))
                if name != chain.node and process is not None and process.paused:
                    return math.inf
                ends.append(-1 if progress is None else progress.log_end_offset)
        return max(ends)
