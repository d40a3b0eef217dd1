# ruff: noqa: E501 -- the texts to be replaced are lines of the product with their ends
"""The historical bugs that a re-implementation of Kafka makes first, each as the edit that puts it back.

A mutant is one bug: textual edits of the product's source, applied to a copy of the package and never to the package
itself. Each `find` must occur exactly once in its file: a test holds that, so an edit that no longer applies is seen
the moment the code moves on. `profile` is the simulation's profile that should provoke it, `expected` the invariants
that should break. `ABSENT` says of every other bug why there is nothing to mutate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Edit:
    """In `path` (below ``src/barnabas``) `find` becomes `replace`."""

    path: str
    find: str
    replace: str


@dataclass(frozen=True, slots=True)
class Mutant:
    bug: str
    source: str
    what: str
    profiles: tuple[str, ...]
    expected: tuple[str, ...]
    edits: tuple[Edit, ...]


def _mutant(bug: str, source: str, what: str, profiles: str, expected: str, *edits: tuple[str, str, str]) -> Mutant:
    return Mutant(
        bug, source, what, tuple(profiles.split()), tuple(expected.split()), tuple(Edit(*each) for each in edits)
    )


MUTANTS: Final = (
    # Controller and ZooKeeper
    _mutant(
        "B01", "KAFKA-6082", "controller writes are not guarded by the epoch they were elected with",
        "GC", "C1",
        (
            "zk/kafka_requests.py",
            "        assert expected_controller_epoch_zk_version >= 0\n",
            "        if expected_controller_epoch_zk_version >= 0:\n            return await self._requests(ops)\n",
        ),
    ),
    _mutant(
        "B02", "KAFKA-1096", "a stalled controller reads the epoch again before it writes",
        "GC", "C1 C2",
        (
            "zk/kafka_requests.py",
            "        check = Check(ControllerEpochZNode.path, expected_controller_epoch_zk_version)\n",
            "        known = await self.get_controller_epoch()\n"
            "        assert known is not None\n"
            "        check = Check(ControllerEpochZNode.path, known[1].version)\n",
        ),
    ),
    _mutant(
        "B03", "KAFKA-532", "a broker applies requests of an older controller",
        "DLY GC", "C3 C6",
        (
            "replica/replicas.py",
            "        if request.controller_epoch < self.controller_epoch:\n            logger.warning(",
            "        if False:\n            logger.warning(",
        ),
        (
            "replica/replicas.py",
            "        if request.controller_epoch < self.controller_epoch:\n            return StopReplicaResponse(",
            "        if False:\n            return StopReplicaResponse(",
        ),
        (
            "broker/server.py",
            "        if request.controller_epoch < self.replicas.controller_epoch:",
            "        if False:",
        ),
    ),
    _mutant(
        "B04", "KAFKA-4447", "a controller that resigned keeps its context for its next reign",
        "ZKX REAS", "C1 C12 C14",
        (
            "controller/reign.py",
            "        self.context = ControllerContext()\n",
            "        self.context = zk.__dict__.setdefault('_kept', ControllerContext())\n",
        ),
    ),
    _mutant(
        "B05", "KAFKA-4443", "a new controller sends LeaderAndIsr before it says who is alive",
        "GC BNC", "L1",
        (
            "controller/failover.py",
            "    reign.send_metadata_of(())\n    await reign.replicas.startup()\n    await reign.partitions.startup()\n",
            "    await reign.replicas.startup()\n    await reign.partitions.startup()\n    reign.send_metadata_of(())\n",
        ),
    ),
    _mutant(
        "B06", "KAFKA-2729", "a leader keeps the partition epoch it had, and its next ISR change is refused for ever",
        "ZKX KILL", "C7 L1",
        (
            "replica/partition.py",
            "        self.partition_epoch = outcome.partition_epoch\n",
            "",
        ),
    ),
    _mutant(
        "B07", "KAFKA-1387", "a registration that is there already counts as one's own",
        "BNC ZKX", "C4 L1",
        (
            "zk/kafka_zk_client.py",
            "                if found.ephemeral_owner == self.client.session_id:\n",
            "                if found.ephemeral_owner:\n",
        ),
    ),
    _mutant(
        "B08", "KAFKA-7235", "a broker applies requests that were meant for its life before",
        "BNC DLY", "C4",
        (
            "broker/server.py",
            "        return broker_epoch != -1 and broker_epoch < self.broker_epoch\n",
            "        return False\n",
        ),
    ),
    _mutant(
        "B09", "KAFKA-9839", "a request for a registration that the broker has not heard of yet is refused",
        "ZKX DLY", "C4 C14 L1",
        (
            "broker/server.py",
            "        return broker_epoch != -1 and broker_epoch < self.broker_epoch\n",
            "        return broker_epoch != -1 and broker_epoch != self.broker_epoch\n",
        ),
    ),
    _mutant(
        "B10", "KAFKA-9539, KAFKA-13972", "StopReplica with the present leader epoch is refused as stale",
        "REAS DLY", "C12 C13",
        (
            "replica/replicas.py",
            "            leader_epoch in (EPOCH_DURING_DELETE, NO_EPOCH) or leader_epoch >= partition.leader_epoch\n",
            "            leader_epoch in (EPOCH_DURING_DELETE, NO_EPOCH) or leader_epoch > partition.leader_epoch\n",
        ),
    ),
    _mutant(
        "B11", "KAFKA-6879", "what is asked of an expired session waits for the next one, which waits for it",
        "ZKX", "L1",
        (
            "zk/client.py",
            "        if self._state in (ConnectionState.CONNECTING, ConnectionState.CONNECTED):\n"
            "            if len(self._queued)",
            "        if self._state is not ConnectionState.CLOSED:\n            if len(self._queued)",
        ),
    ),
    _mutant(
        "B12", "KAFKA-5473", "after an expiry the first connection that fails is the last",
        "ZKX", "L1 C1",
        (
            "zk/client.py",
            "            elif attempt % len(order) == 0:\n",
            "            elif session.id == 0 and self.expires:\n                return\n"
            "            elif attempt % len(order) == 0:\n",
        ),
    ),
    _mutant(
        "B13", "KAFKA-928", "watches are not set again on a new connection",
        "ZKX ADMIN", "C14 L1",
        (
            "zk/connection.py",
            "        for set_watches in self.session.set_watches():\n",
            "        for set_watches in list(self.session.set_watches())[:0]:\n",
        ),
    ),
    _mutant(
        "B14", "KAFKA-708", "the last member of the ISR is removed",
        "KILL", "C8 C10",
        (
            "controller/replica_state_machine.py",
            "    shrunken = isr if len(isr) == 1 else tuple(each for each in isr if each != replica)\n",
            "    shrunken = tuple(each for each in isr if each != replica)\n",
        ),
    ),
    _mutant(
        "B15", "KAFKA-14140", "a broker that is leaving comes back into the ISR",
        "SHUT", "C9 C11",
        (
            "controller/alter_partition.py",
            "    if not all(context.is_live_broker(replica) for replica in proposed.isr):\n",
            "    if not proposed.isr:\n",
        ),
    ),
    _mutant(
        "B16", "KAFKA-14144", "an AlterPartition that is sent again, its answer lost, is refused",
        "DLY GC", "C7 L1",
        (
            "controller/alter_partition.py",
            "    if _is_so_already(proposed, current):\n",
            "    if _is_so_already(proposed, current) and proposed.partition_epoch == current.partition_epoch:\n",
        ),
    ),
    _mutant(
        "B17", "KAFKA-12686", "a LeaderAndIsr leaves an ISR change that is in flight as it was",
        "DLY LDRx2", "C7 L1",
        (
            "replica/partition.py",
            "        self.isr_state = CommittedIsr(frozenset(state.isr), state.partition_epoch)\n        if new_epoch:\n",
            "        if not self.isr_state.in_flight:\n"
            "            self.isr_state = CommittedIsr(frozenset(state.isr), state.partition_epoch)\n"
            "        if new_epoch:\n",
        ),
    ),
    _mutant(
        "B18", "KAFKA-13091", "the high watermark is not looked at when a shrunken ISR is confirmed",
        "KILL", "R6 L1",
        (
            "replica/partition.py",
            "sorted(outcome.isr), outcome.partition_epoch\n        )\n"
            "        if self.maybe_increment_high_watermark(now_ms):\n",
            "sorted(outcome.isr), outcome.partition_epoch\n        )\n        if False:\n",
        ),
    ),
    _mutant(
        "B19", "KAFKA-9769", "the leader epoch is taken before the step that may fail",
        "BNC GC", "C5 L1",
        (
            "replica/replicas.py",
            "                    partition.log = self.open_log(partition, topic_id, state.is_new)\n",
            "                    partition.log = self.open_log(partition, topic_id, state.is_new)\n"
            "                    partition.leader_epoch = state.leader_epoch\n",
        ),
    ),
    _mutant(
        "B20", "KAFKA-9672", "a leader goes on counting replicas that are no longer assigned",
        "REAS DLY", "C8 C12",
        (
            "replica/partition.py",
            "        self.progress = {each: self.progress.get(each) or Progress(each) for each in followers}\n",
            "        self.progress |= {each: self.progress.get(each) or Progress(each) for each in followers}\n",
        ),
    ),
    _mutant(
        "B21", "KAFKA-10371", "an answer counts for a partition that has left its fetcher",
        "DLY", "R3 R5 L1",
        (
            "replica/fetchers.py",
            "            and self.states.get(state.topic_partition) is state\n"
            "            and self._follower.follower_partition(state.topic_partition, state.current_leader_epoch) is not None\n",
            "            and state.topic_partition in self._follower._partitions  # type: ignore[attr-defined]\n",
        ),
        (
            "replica/fetchers.py",
            "        partition = self._follower.follower_partition(state.topic_partition, state.current_leader_epoch)\n"
            "        assert partition is not None, f\"{state} was checked\"\n",
            "        partition = self._follower._partitions[state.topic_partition]  # type: ignore[attr-defined]\n",
        ),
    ),
    _mutant(
        "B22", "KAFKA-7482", "a broker that is leaving is not told who leads in its place",
        "SHUT", "C11",
        (
            "controller/election.py",
            "    return ElectionResult(partition, leader_and_isr.with_leader(leader, staying), "
            "live_or_shutting_down_replicas)\n",
            "    told = tuple(each for each in live_or_shutting_down_replicas if each not in shutting_down_brokers)\n"
            "    return ElectionResult(partition, leader_and_isr.with_leader(leader, staying), told)\n",
        ),
    ),
    _mutant(
        "B23", "KAFKA-150", "a registration that is in the way is deleted",
        "BNC GC", "C4",
        (
            "zk/kafka_zk_client.py",
            "                elif found.ephemeral_owner in self.client.own_sessions:\n",
            "                elif found.ephemeral_owner:\n",
        ),
    ),
    _mutant(
        "B24", "ZOOKEEPER-2355", "an election that was won while its answer was lost counts as lost",
        "ZKX DLY", "C1 C2 L1",
        (
            "zk/kafka_zk_client.py",
            "            return await self._check_controller_and_epoch(controller_id, new_epoch)\n",
            "            raise ControllerMoved(\"Another broker was elected controller.\")\n",
        ),
    ),
    _mutant(
        "B25", "KAFKA-12332", "a log of a topic that was deleted serves the new topic of that name",
        "ADMIN", "C13",
        (
            "replica/replicas.py",
            "        if ZERO_UUID not in (topic_id, known_id) and topic_id != known_id:\n",
            "        if False:\n",
        ),
        (
            "log/log.py",
            "        if self.topic_id is not None:\n            raise KafkaError(\n",
            "        if False:\n            raise KafkaError(\n",
        ),
    ),
    _mutant(
        "B26", "KAFKA-10314", "a replica whose log directory is offline is made anew in another",
        "MOVE EIO", "R3 R16",
        (
            "log/log_dirs.py",
            "        if not is_new and self.offline_paths:\n",
            "        if False:\n",
        ),
        (
            "replica/replicas.py",
            "        if topic_partition in self._offline:\n            return ErrorCode.KAFKA_STORAGE_ERROR, None\n",
            "",
        ),
    ),
    # Replication
    _mutant(
        "B27", "KIP-101", "a follower truncates to its high watermark",
        "KILL LDRx2", "R1 R2 R3 R4 R7",
        (
            "replica/fetchers.py",
            "        if log.latest_epoch == NO_EPOCH and log.log_end_offset > log.high_watermark:\n",
            "        if log.log_end_offset > log.high_watermark:\n",
        ),
    ),
    _mutant(
        "B28", "KIP-279", "a leader that never saw the follower's epoch answers with the end of that one",
        "UNCLEAN LDRx2", "R1 R2",
        (
            "log/leader_epoch_cache.py",
            "        return entries[higher - 1].epoch, entries[higher].start_offset\n",
            "        return requested_epoch, entries[higher].start_offset\n",
        ),
    ),
    _mutant(
        "B30", "KAFKA-7415", "a leader's epoch enters the cache with its first record, not at the election",
        "LDRx2 UNCLEAN", "R13 R1 L1",
        (
            "replica/partition.py",
            "            log.maybe_assign_epoch_start_offset(state.leader_epoch, end_offset)\n",
            "            pass\n",
        ),
    ),
    _mutant(
        "B31", "KAFKA-7164", "a new epoch of the same leader does not restart the fetcher",
        "LDRx2", "R1 L1",
        (
            "replica/partition.py",
            "        new_epoch = state.leader_epoch > self.leader_epoch\n"
            "        self.controller_epoch = state.controller_epoch\n"
            "        self.leader_id = state.leader\n",
            "        new_epoch = state.leader != self.leader_id\n"
            "        self.controller_epoch = state.controller_epoch\n"
            "        self.leader_id = state.leader\n",
        ),
    ),
    _mutant(
        "B32", "KAFKA-7128", "a follower joins the ISR below the start of the leader's epoch",
        "LDRx2 DLY", "R12 R3 R4",
        (
            "replica/partition.py",
            "            or progress.log_end_offset < self.leader_epoch_start_offset\n",
            "",
        ),
    ),
    _mutant(
        "B33", "KIP-320", "nobody compares leader epochs in a fetch",
        "PART", "R14 R10",
        (
            "replica/partition.py",
            "        if current_leader_epoch != NO_EPOCH and current_leader_epoch != self.leader_epoch:\n",
            "        if False:\n",
        ),
    ),
    _mutant(
        "B34", "KAFKA-7786, KAFKA-10706", "a truncation to the log's end leaves epochs that began there",
        "LDRx2 UNCLEAN", "R13 L1",
        (
            "log/log.py",
            "                self.leader_epochs.truncate_from_end(self.log_end_offset)\n                return False\n",
            "                return False\n",
        ),
    ),
    _mutant(
        "B35", "KAFKA-9491", "the high watermark stays where it was when the log is truncated",
        "UNCLEAN", "R5 R11",
        (
            "log/log.py",
            "            if self.high_watermark >= target_offset:\n                self.update_high_watermark(target_offset)\n",
            "",
        ),
        (
            "log/log.py",
            "        self.high_watermark = new_offset\n        self.producers.on_high_watermark(new_offset)\n",
            "        self.producers.on_high_watermark(new_offset)\n",
        ),
    ),
    _mutant(
        "B36", "KAFKA-14704", "a follower takes the leader's high watermark before it truncates",
        "PART LDRx2 UNCLEAN", "R9 R5 R12 R4",
        (
            "replica/fetchers.py",
            "        log = partition.local_log()\n        if data.diverging_epoch.epoch != NO_EPOCH",
            "        log = partition.local_log()\n"
            "        log.update_high_watermark(min(data.high_watermark, log.log_end_offset))\n"
            "        if data.diverging_epoch.epoch != NO_EPOCH",
        ),
    ),
    _mutant(
        "B38", "KIP-966, KAFKA-15583", "the high watermark rises while the ISR is under min.insync.replicas",
        "KILL", "R6 R7",
        (
            "replica/partition.py",
            "            if len(self.isr_state.isr) < self.effective_min_isr:\n                return False\n",
            "",
        ),
    ),
    _mutant(
        "B39", "KAFKA-15021", "the high watermark waits for a replica that may not join the ISR",
        "SHUT KILL", "R6 L1",
        (
            "replica/partition.py",
            "                        progress.is_caught_up(end_offset, now_ms, "
            "self._surroundings.replica_lag_time_max_ms)\n"
            "                        and self._surroundings.is_alive(broker_id)\n",
            "                        progress.is_caught_up(end_offset, now_ms, "
            "self._surroundings.replica_lag_time_max_ms)\n",
        ),
    ),
    _mutant(
        "B40", "KAFKA-769", "the high watermark checkpoint forgets replicas that were not spoken of yet",
        "BNC", "R5 R7",
        (
            "replica/replicas.py",
            "        for path in self._log_dirs.online_paths:\n            # By directory",
            "        for path in self._log_dirs.online_paths[:0]:\n            # By directory",
        ),
        (
            "replica/replicas.py",
            "        if not self._had_leader_and_isr:\n            return\n        offsets",
            "        offsets",
        ),
    ),
    _mutant(
        "B41", "KAFKA-2143", "a follower whose log differs throws all of it away",
        "UNCLEAN LDRx2", "R3 R4 L1",
        (
            "replica/fetchers.py",
            "            offset = truncation_offset(log, data.diverging_epoch.epoch, data.diverging_epoch.end_offset)\n",
            "            offset = log.log_start_offset\n",
        ),
    ),
    _mutant(
        "B42", "KAFKA-4485", "in sync is who has all at this moment",
        "DLY KILL", "L1 R6",
        (
            "replica/progress.py",
            "        return self.log_end_offset == leader_end_offset or now_ms - self.last_caught_up_ms <= lag_max_ms\n",
            "        return self.log_end_offset == leader_end_offset\n",
        ),
    ),
    _mutant(
        "B44", "KAFKA-15510", "an empty answer makes a follower forget its last fetched epoch",
        "LDRx2", "R3",
        (
            "replica/fetchers.py",
            "        state.last_fetched_epoch = self._last_fetched_epoch(log)\n        state.lag = ",
            "        state.last_fetched_epoch = self._last_fetched_epoch(log) if records else 0\n        state.lag = ",
        ),
    ),
    _mutant(
        "B47", "KAFKA-955", "a failed produce with acks=0 leaves the connection open",
        "LDRx2 KILL", "R8",
        (
            "broker/handlers/produce.py",
            "            raise Disconnect(f\"a produce request with acks=0 failed: {errors}\")\n",
            "            return None\n",
        ),
    ),
    _mutant(
        "B49", "KAFKA-4384", "one bad batch ends the fetcher for all its partitions",
        "DLY", "L1 S4",
        (
            "replica/fetchers.py",
            "                self._pause(state)\n            else:\n                self._failed(state, error)\n",
            "                for each in list(self.states.values()):\n"
            "                    self._failed(each, error)\n"
            "            else:\n                self._failed(state, error)\n",
        ),
    ),
    # Log and storage
    _mutant(
        "B50", "KAFKA-10778", "appends go on after a write has failed",
        "EIO ENOSPC", "R16 R15",
        (
            "log/log_dir.py",
            "        if self.failure is None:\n            self.failure = LogDirFailure(self.path, f\"{doing}: {error}\")\n",
            "        return LogDirFailure(self.path, f\"{doing}: {error}\")\n"
            "        if self.failure is None:\n            self.failure = LogDirFailure(self.path, f\"{doing}: {error}\")\n",
        ),
    ),
    _mutant(
        "B52", "KAFKA-10471", "the marker of a clean stop stays while the broker runs",
        "PWR", "R15",
        ("log/log_dirs.py", "        disk.remove(marker)\n", ""),
    ),
    _mutant(
        "B53", "KAFKA-10101", "the recovery point moves on without the data being synced",
        "PWR", "R15",
        ("log/log.py", "                    segment.flush()\n", ""),
    ),
    _mutant(
        "B54", "KAFKA-16541", "the removal of the marker of a clean stop is not synced to its directory",
        "PWR", "R15 R13",
        ("log/log_dirs.py", "        disk.remove(marker)\n        disk.fsync_dir(path)\n", "        disk.remove(marker)\n"),
    ),
    _mutant(
        "B56", "KAFKA-6492", "a roll of an empty segment makes a segment of the same name",
        "LDRx2 CLK", "R11",
        ("log/log.py", "        if active.base_offset == new_offset:\n", "        if False:\n"),
    ),
    _mutant(
        "B57", "KAFKA-15391", "background work goes on with logs that were deleted meanwhile",
        "ADMIN", "R16 L1 S4",
        ("log/upkeep.py", "            if log.closed:\n                continue\n", ""),
    ),
    _mutant(
        "B58", "KAFKA-3802", "retention goes by when a segment was made or loaded",
        "CLK", "R17",
        (
            "log/segment.py",
            "        return self.max_timestamp if self.max_timestamp >= 0 else self._disk.modified_ms(self.path)\n",
            "        return self.created_ms\n",
        ),
    ),
    _mutant(
        "B59", "KAFKA-5634", "retention does not stop at the high watermark",
        "CLK", "R17 R11",
        (
            "log/log.py",
            "            if self.high_watermark < upper_bound or not is_old(segment, upper_bound):\n",
            "            if not is_old(segment, upper_bound):\n",
        ),
        (
            "log/log.py",
            "        if offset > self.high_watermark:\n            raise KafkaError(\n",
            "        if False:\n            raise KafkaError(\n",
        ),
    ),
    _mutant(
        "B61", "KAFKA-15653", "a request's bytes are those of the buffer that the next one is received into",
        "KILL", "R10 S4",
        (
            "broker/connection.py",
            "                self._run(_shared[4:end])\n",
            "                self._run(_shared_view[4:end])  # type: ignore[arg-type]\n",
        ),
    ),
    # Groups
    _mutant(
        "B70", "KAFKA-5600", "a coordinator that lost a partition keeps its groups for when it leads again",
        "GRP", "G1 G4 T7",
        (
            "coordinator/group_coordinator.py",
            "            self._epochs[number] = leader_epoch\n        self._unload(number)\n",
            "            self._epochs[number] = leader_epoch\n",
        ),
    ),
    _mutant(
        "B71", "KAFKA-7286", "a record larger than the buffer ends the loading of the groups before it",
        "GRP", "G4 L1 G1",
        (
            "broker/offsets_log.py",
            "        records: Bytes = log.read(max(offset, log.log_start_offset), max_bytes).records\n",
            "        records: Bytes = log.read(\n"
            "            max(offset, log.log_start_offset), max_bytes, min_one_batch=False\n"
            "        ).records\n",
        ),
    ),
    _mutant(
        "B72", "KAFKA-8069", "an offset without a time of its own to expire expires at once",
        "GRP", "G5 G1",
        (
            "coordinator/group_offsets.py",
            "            if committed.expire_timestamp_ms != NO_TIMESTAMP:\n",
            "            if True:\n",
        ),
    ),
    _mutant(
        "B73", "KAFKA-12890", "nobody waits for a member that never syncs with a clock",
        "GRP", "L1 G3",
        (
            "coordinator/groups.py",
            "        self._sync_deadline_ms = now.ms + self._rebalance_timeout_ms()\n",
            "        self._sync_deadline_ms = None\n",
        ),
    ),
    _mutant(
        "B74", "KAFKA-9844", "a join looks for its group, waits, and then joins what it found",
        "GRP", "G3 G6 L1",
        (
            "coordinator/group_coordinator.py",
            "        group = partition.group(group_id, now)\n"
            "        ticket: asyncio.Future[JoinResult]",
            "        group = partition.group(group_id, now)\n"
            "        await asyncio.sleep(0.05)\n"
            "        ticket: asyncio.Future[JoinResult]",
        ),
    ),
    # Transactions
    _mutant(
        "B75", "KAFKA-17507", "offsets of a transaction do not count when its marker is written",
        "TXN", "T6 L1",
        (
            "coordinator/group_coordinator.py",
            "                partition.replay_marker(producer_id, committed)\n",
            "                pass\n",
        ),
    ),
    _mutant(
        "B76", "KIP-890", "a batch is appended though its partition is not in a transaction that goes on",
        "TXN", "T5 T3",
        ("broker/verification.py", "        if self._is_enabled():\n", "        if False:\n"),
    ),
    _mutant(
        "B85", "KAFKA-5376", "a read of what is committed does not tell which transactions were aborted",
        "TXN", "R9 T3",
        (
            "log/log.py",
            "                if segment.collect_aborted(start_offset, end_offset, found):\n                    break\n",
            "                break\n",
        ),
    ),
    # Idempotence
    _mutant(
        "B83", "KAFKA-5283", "sequence numbers do not wrap",
        "LDRx2", "T1 T2",
        (
            "log/producer_state.py",
            "                expected = 0 if last == _MAX_SEQUENCE else last + 1\n",
            "                expected = last + 1\n",
        ),
    ),
    _mutant(
        "B84", "KAFKA-7298", "a producer of whom nothing is left has to begin at 0",
        "CLK CFG", "T1",
        (
            "log/producer_state.py",
            "            # Nothing is known, perhaps because it expired or was deleted: any sequence may come.\n"
            "            return None\n",
            "            if check_sequence and first_sequence > 0:\n"
            "                raise KafkaError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)\n"
            "            return None\n",
        ),
    ),
    _mutant(
        "B87", "Jepsen, Redpanda 21.10.1", "a repeated batch is acknowledged at an offset of its own",
        "DLY LDRx2", "T1 R10",
        (
            "log/log.py",
            "                        duplicate.first_offset,\n                        duplicate.last_offset,\n",
            "                        first_offset,\n                        last_offset,\n",
        ),
    ),
    # Network
    _mutant(
        "B88", "KAFKA-2614", "a connection that was reset is counted for ever",
        "NET", "S2 L1",
        (
            "broker/connection.py",
            "        self._end()\n        self._broker.connections.closed(self)\n",
            "        self._end()\n        if error is None:\n            self._broker.connections.closed(self)\n",
        ),
    ),
    _mutant(
        "B89", "KAFKA-7639", "the length that a frame announces is trusted",
        "NET", "S2",
        (
            "broker/connection.py",
            "            if not 0 <= size <= self._limits.max_request_bytes:\n",
            "            if size < 0:\n",
        ),
    ),
    _mutant(
        "B90", "KAFKA-765", "a request whose bytes cannot be read ends more than its connection",
        "NET", "S4",
        (
            "broker/connection.py",
            "            request, _ = route.decode(frame, version, offset)\n        except WireError as error:\n",
            "            request, _ = route.decode(frame, version, offset)\n        except ZeroDivisionError as error:\n",
        ),
    ),
)  # fmt: skip

_TRANSACTIONS: Final = "transactions have a simulated run of their own, whose mutants are not written yet"
_COMPACTION: Final = "the log cleaner is new, and its mutants are not written yet"

ABSENT: Final = {
    "B29": "a leader always has an entry for its own epoch, and a follower's last epoch is never larger: with epochs in "
    "the fetch itself (KIP-595) no undefined epoch is ever asked about",
    "B37": "KIP-903 is for KRaft; in ZooKeeper mode Apache Kafka 3.9 sends no broker epochs in AlterPartition either",
    "B43": "a read is one synchronous step: no append or roll can come between its parts",
    "B45": "session order matters only beyond replica.fetch.response.max.bytes in one response",
    "B46": "the comparison of the two logs and their change of places are one synchronous step, without a message",
    "B48": "no simulated consumer names a rack yet",
    "B51": "the transaction index is written for markers only, and " + _TRANSACTIONS,
    "B55": "offsets more than 2**31 apart in one segment need compaction; " + _COMPACTION,
    "B60": "last stable offset and high watermark are read in one synchronous step",
    **dict.fromkeys(("B62", "B63", "B64", "B65", "B66", "B67", "B68", "B69"), _COMPACTION),
    **dict.fromkeys(("B77", "B78", "B79", "B80", "B81", "B82", "B86"), _TRANSACTIONS),
    "B91": "no simulated client authenticates yet",
    "B92": "no simulated client authenticates yet",
}
