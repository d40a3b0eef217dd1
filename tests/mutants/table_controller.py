# ruff: noqa: E501 -- the texts to be replaced are lines of the product with their ends
"""Mutants: controller and ZooKeeper."""

from __future__ import annotations

from typing import Final

from mutants.mutant import mutant

MUTANTS: Final = (
    mutant(
        "B01", "KAFKA-6082", "controller writes are not guarded by the epoch they were elected with",
        "GC", "C1",
        (
            "zk/kafka_requests.py",
            "        assert expected_controller_epoch_zk_version >= 0\n",
            "        if expected_controller_epoch_zk_version >= 0:\n            return await self._requests(ops)\n",
        ),
    ),
    mutant(
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
    mutant(
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
    mutant(
        "B04", "KAFKA-4447", "a controller that resigned keeps its context for its next reign",
        "ZKX REAS", "C1 C12 C14",
        (
            "controller/reign.py",
            "        self.context = ControllerContext()\n",
            "        self.context = zk.__dict__.setdefault('_kept', ControllerContext())\n",
        ),
    ),
    mutant(
        "B05", "KAFKA-4443", "a new controller sends LeaderAndIsr before it says who is alive",
        "GC BNC", "L1",
        (
            "controller/failover.py",
            "    reign.send_metadata_of(())\n    await reign.replicas.startup()\n    await reign.partitions.startup()\n",
            "    await reign.replicas.startup()\n    await reign.partitions.startup()\n    reign.send_metadata_of(())\n",
        ),
    ),
    mutant(
        "B06", "KAFKA-2729", "a leader keeps the partition epoch it had, and its next ISR change is refused for ever",
        "ZKX KILL", "C7 L1",
        (
            "replica/partition.py",
            "        self.partition_epoch = outcome.partition_epoch\n",
            "",
        ),
    ),
    mutant(
        "B07", "KAFKA-1387", "a registration that is there already counts as one's own",
        "BNC ZKX", "C4 L1",
        (
            "zk/kafka_zk_client.py",
            "                if found.ephemeral_owner == self.client.session_id:\n",
            "                if found.ephemeral_owner:\n",
        ),
    ),
    mutant(
        "B08", "KAFKA-7235", "a broker applies requests that were meant for its life before",
        "BNC DLY", "C4",
        (
            "broker/server.py",
            "        return broker_epoch != -1 and broker_epoch < self.broker_epoch\n",
            "        return False\n",
        ),
    ),
    mutant(
        "B09", "KAFKA-9839", "a request for a registration that the broker has not heard of yet is refused",
        "ZKX DLY", "C4 C14 L1",
        (
            "broker/server.py",
            "        return broker_epoch != -1 and broker_epoch < self.broker_epoch\n",
            "        return broker_epoch != -1 and broker_epoch != self.broker_epoch\n",
        ),
    ),
    mutant(
        "B10", "KAFKA-9539, KAFKA-13972", "StopReplica with the present leader epoch is refused as stale",
        "REAS DLY", "C12 C13",
        (
            "replica/replicas.py",
            "            leader_epoch in (EPOCH_DURING_DELETE, NO_EPOCH) or leader_epoch >= partition.leader_epoch\n",
            "            leader_epoch in (EPOCH_DURING_DELETE, NO_EPOCH) or leader_epoch > partition.leader_epoch\n",
        ),
    ),
    mutant(
        "B11", "KAFKA-6879", "what is asked of an expired session waits for the next one, which waits for it",
        "ZKX", "L1",
        (
            "zk/client.py",
            "        if self._state in (ConnectionState.CONNECTING, ConnectionState.CONNECTED):\n"
            "            if len(self._queued)",
            "        if self._state is not ConnectionState.CLOSED:\n            if len(self._queued)",
        ),
    ),
    mutant(
        "B12", "KAFKA-5473", "after an expiry the first connection that fails is the last",
        "ZKX", "L1 C1",
        (
            "zk/client.py",
            "            elif attempt % len(order) == 0:\n",
            "            elif session.id == 0 and self.expires:\n                return\n"
            "            elif attempt % len(order) == 0:\n",
        ),
    ),
    mutant(
        "B13", "KAFKA-928", "watches are not set again on a new connection",
        "ZKX ADMIN", "C14 L1",
        (
            "zk/connection.py",
            "        for set_watches in self.session.set_watches():\n",
            "        for set_watches in list(self.session.set_watches())[:0]:\n",
        ),
    ),
    mutant(
        "B14", "KAFKA-708", "the last member of the ISR is removed",
        "KILL", "C8 C10",
        (
            "controller/replica_state_machine.py",
            "    shrunken = isr if len(isr) == 1 else tuple(each for each in isr if each != replica)\n",
            "    shrunken = tuple(each for each in isr if each != replica)\n",
        ),
    ),
    mutant(
        "B15", "KAFKA-14140", "a broker that is leaving comes back into the ISR",
        "SHUT", "C9 C11",
        (
            "controller/alter_partition.py",
            "    if not all(context.is_live_broker(replica) for replica in proposed.isr):\n",
            "    if not proposed.isr:\n",
        ),
    ),
    mutant(
        "B16", "KAFKA-14144", "an AlterPartition that is sent again, its answer lost, is refused",
        "DLY GC", "C7 L1",
        (
            "controller/alter_partition.py",
            "    if _is_so_already(proposed, current):\n",
            "    if _is_so_already(proposed, current) and proposed.partition_epoch == current.partition_epoch:\n",
        ),
    ),
    mutant(
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
    mutant(
        "B18", "KAFKA-13091", "the high watermark is not looked at when a shrunken ISR is confirmed",
        "KILL", "R6 L1",
        (
            "replica/partition.py",
            "sorted(outcome.isr), outcome.partition_epoch\n        )\n"
            "        if self.maybe_increment_high_watermark(now_ms):\n",
            "sorted(outcome.isr), outcome.partition_epoch\n        )\n        if False:\n",
        ),
    ),
    mutant(
        "B19", "KAFKA-9769", "the leader epoch is taken before the step that may fail",
        "BNC GC", "C5 L1",
        (
            "replica/replicas.py",
            "                    partition.log = self.open_log(partition, topic_id, state.is_new)\n",
            "                    partition.log = self.open_log(partition, topic_id, state.is_new)\n"
            "                    partition.leader_epoch = state.leader_epoch\n",
        ),
    ),
    mutant(
        "B20", "KAFKA-9672", "a leader goes on counting replicas that are no longer assigned",
        "REAS DLY", "C8 C12",
        (
            "replica/partition.py",
            "        self.progress = {each: self.progress.get(each) or Progress(each) for each in followers}\n",
            "        self.progress |= {each: self.progress.get(each) or Progress(each) for each in followers}\n",
        ),
    ),
    mutant(
        "B21", "KAFKA-10371", "an answer counts for a partition that has left its fetcher",
        "DLY", "R3 R5 L1",
        (
            "replica/fetchers.py",
            "        if asked is None or state.wanted is not asked or self.states.get(state.topic_partition) is not state:\n"
            "            return None\n"
            "        return self._follower.follower_partition(state.topic_partition, state.current_leader_epoch)\n",
            "        return self._follower._partitions.get(state.topic_partition)  # type: ignore[attr-defined]\n",
        ),
        ("replica/fetchers.py", "            del self._by_key[state.key]\n", ""),
        (
            "replica/fetchers.py",
            "        partition = self._follower.follower_partition(state.topic_partition, state.current_leader_epoch)\n"
            "        assert partition is not None, f\"{state} was checked\"\n",
            "        partition = self._follower._partitions[state.topic_partition]  # type: ignore[attr-defined]\n",
        ),
    ),
    mutant(
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
    mutant(
        "B23", "KAFKA-150", "a registration that is in the way is deleted",
        "BNC GC", "C4",
        (
            "zk/kafka_zk_client.py",
            "                elif found.ephemeral_owner in self.client.own_sessions:\n",
            "                elif found.ephemeral_owner:\n",
        ),
    ),
    mutant(
        "B24", "ZOOKEEPER-2355", "an election that was won while its answer was lost counts as lost",
        "ZKX DLY", "C1 C2 L1",
        (
            "zk/kafka_zk_client.py",
            "            return await self._check_controller_and_epoch(controller_id, new_epoch)\n",
            "            raise ControllerMoved(\"Another broker was elected controller.\")\n",
        ),
    ),
    mutant(
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
    mutant(
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
)  # fmt: skip
