"""Clients and administrators of a run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, Final, Protocol

from barnabas.client.admin import Admin, NewTopic, ResourceType
from barnabas.client.cluster import ClusterClient
from barnabas.client.connected import Cluster
from barnabas.client.consumer import Consumer
from barnabas.client.group import RANGE
from barnabas.client.offsets import EARLIEST, READ_COMMITTED, ListedOffset, isolation_level
from barnabas.model.config import AlterOperation
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.model.leadership import ElectionType
from barnabas.model.metadata_version import KEY as PROTOCOL
from barnabas.runtime.doors import Runtime
from barnabas.sim.clients.aged import AgedConsumer
from barnabas.sim.clients.asker import Asker
from barnabas.sim.clients.bookkeeper import Bookkeeper
from barnabas.sim.clients.guest import Guest
from barnabas.sim.clients.history import History, Sent
from barnabas.sim.clients.keeper import Keeper, KeeperView, Looker
from barnabas.sim.clients.mirror import Mirror
from barnabas.sim.clients.near import NearConsumer
from barnabas.sim.clients.operator import Operator
from barnabas.sim.clients.pipeliner import Pipeliner
from barnabas.sim.clients.readers import Reader
from barnabas.sim.clients.rover import Rover
from barnabas.sim.clients.rules import forbid, permit, set_quota
from barnabas.sim.clients.sender import AFTERWARDS, Sender
from barnabas.sim.clients.silent_member import SilentMember
from barnabas.sim.clients.surveyor import Surveyor
from barnabas.sim.clients.teller import Teller
from barnabas.sim.clients.veteran import Veteran
from barnabas.sim.clients.wanderer import Wanderer
from barnabas.sim.clients.worker import Worker
from barnabas.sim.clients.znode_tools import depose, legacy_delete, legacy_elect, legacy_grow, legacy_reassign
from barnabas.sim.plans.chance import Chance
from barnabas.sim.plans.plan import MS, Action
from barnabas.sim.world.trace import Happening
from barnabas.sim.world.world import World
from barnabas.wire.records import Record

COMMIT_EVERY_S: Final = 0.7
QUIET_NS: Final = 45_000_000_000
"""For requests on dead connections to time out, and for groups to rebalance."""
_MAY_STAY: Final = (
    ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NETWORK_EXCEPTION, ErrorCode.BROKER_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)  # fmt: skip
"""Errors that may last: timeouts of requests on dead connections, which end one by one, and an unknown topic."""
METADATA_MAX_AGE_MS: Final = 3_000
"""Within this time a member hears of added partitions."""


class Player(Protocol):
    """An application, as one client."""

    client: str

    async def work(self, runtime: Runtime, cluster: Cluster, /) -> None: ...


class Workload:
    """Clients and administrators of one run, each on a machine of its own."""

    def __init__(self, world: World, history: History) -> None:
        self.world = world
        self.history = history
        self.stopping = False
        self.healed = asyncio.Event()
        """Set when no fault is in force and all replicas are in sync: clients that write then write a little more."""
        self.healed_ns: int | None = None
        self.producers: list[asyncio.Future[Any]] = []
        self.consumers: list[asyncio.Future[Any]] = []
        self.administrators: list[asyncio.Future[Any]] = []
        self.operations: dict[str, int] = {}
        self.seen: dict[str, KeeperView] = {}
        """By client: what watchers of an application's znodes know."""
        self.mirrors: dict[str, Mirror] = {}
        self.books: list[Bookkeeper] = []
        self.reading: dict[str, Reader] = {}
        """By client: consumers that read on until the end of the run."""
        self.on_read: Callable[[str, Record], None] = lambda partition, record: None
        self.on_asked_offsets: Callable[[str], Callable[[str, int], None]] = lambda group: (
            lambda partition, offset: None
        )
        """Called when a group's offsets are requested; returns what to call with a partition's answer."""
        self.on_asked_groups: Callable[[], Callable[[Sequence[str]], None]] = lambda: lambda listed: None
        """Called when all groups are requested; returns what to call with the list."""
        self.on_looked_up: Callable[[TopicPartition, Sent], Callable[[ListedOffset], None]] = lambda partition, sent: (
            lambda found: None
        )
        """Called when a record is looked up by its timestamp; returns what to call with the answer."""
        self.on_goes_on: Callable[..., None] = lambda *_: None
        """Called when a poll gave records to a consumer; see `watch_members`."""
        self.on_goes_back: Callable[[str, str, str, int, int], None] = lambda *_: None
        """Called with the first record that a consumer was given after a seek."""
        self.on_begins: Callable[[str, str, int], None] = lambda *_: None
        """Called with the first record that a consumer was given after a seek to the beginning."""
        self.coordinators_lost_something: Callable[[], bool] = lambda: False
        self.calm_since_ns: Mapping[str, int] = {}
        """By broker: since when nothing has happened to it."""
        self._waiting: list[Callable[[], None]] = []
        self._stories: dict[str, Callable[[Action], None]] = {
            "produce": partial(self._write, Sender),
            "consume": self._consume,
            "group": self._group,
            "silent-member": self._silent_member,
            "transact": self._transact,
            "wander": partial(self._play, Wanderer),
            "work": partial(self._begin_again, Worker),
            "roam": partial(self._begin_again, Rover),
            "pipeline": partial(self._write, Pipeliner),
            "produce-old": partial(self._write, Veteran),
            "keep-books": self._keep_books,
            "ask": partial(self._play, Asker),
            "survey": partial(self._play, Surveyor),
            "keep": partial(self._play, Keeper),
            "look-on": partial(self._play, Looker),
            "mirror": partial(self._play, Mirror),
            "visit": partial(self._play, Guest),
            "tend": partial(self._play, Operator),
        }

    def begin(self, action: Action) -> None:
        """Begins the action now, or at the event that it waits for."""
        event = action.arguments.get("when")
        if event is None:
            self._begin(action)
            return

        def strike(here: str, there: str) -> None:
            self.world.loop.call_soon(self._begin, action, context=self.world.context)

        self._waiting.append(self.world.events.wait_for(str(event), action.whole("nth", 1), strike))

    def heal(self) -> None:
        self.healed_ns = self.world.loop.now_ns
        self.healed.set()

    def failed(self, client: str, error: Exception) -> None:
        """L1: when all has been well for a while, no broker answers with a passing error."""
        world = self.world
        if self.healed_ns is None or not isinstance(error, KafkaError) or error.code in _MAY_STAY:
            return
        if error.code is ErrorCode.LEADER_NOT_AVAILABLE and self.history.recreated_ns:
            return  # a partition that its topic has no more, since it was made anew with fewer
        well_ns = world.loop.now_ns - self.healed_ns
        if error.code.retriable and well_ns > QUIET_NS:
            self.judge_waiting(f"{client} is told {error!r}, {well_ns / 1e9:.1f} s after all had healed")

    def judge_waiting(self, sentence: str) -> None:
        """L1: somebody waits in vain. It is excused where a coordinator lost what it had written."""
        self.world.check("L1")
        if self.coordinators_lost_something():
            self.world.waive("L1")
            self.world.excuse("L1", sentence)
        else:
            self.world.violated("L1", sentence)

    def wait_no_more(self) -> None:
        """Actions that wait for an event begin no more."""
        while self._waiting:
            self._waiting.pop()()

    def _begin(self, action: Action) -> None:
        self.operations[action.name] = self.operations.get(action.name, 0) + 1
        story = self._stories.get(action.name)
        if story is not None:
            story(action)
        else:
            self._administrate(action)

    # Producers

    def _transact(self, action: Action) -> None:
        chance, loop = Chance(self.world.seed, f"action/{action.number}"), self.world.loop
        teller = Teller(self.history, action, chance, lambda: loop.now_ns)
        ends_ns = loop.now_ns + action.duration_ns

        async def story(runtime: Runtime, cluster: ClusterClient) -> None:
            await teller.work(cluster, lambda: self.stopping or loop.now_ns > ends_ns)
            if teller.is_a_twin:
                return
            await self.healed.wait()
            self.world.check("L1")
            if not await teller.work_on(cluster, AFTERWARDS):
                self.judge_waiting(f"{teller.client} could end no transaction after all had healed")

        self.producers.append(self.world.client(story, teller.client, again=True))

    def _write(self, part: Callable[[Workload, Action], Player], action: Action) -> None:
        player = part(self, action)
        self.producers.append(self.world.client(player.work, player.client))

    # Consumers

    def _consume(self, action: Action) -> None:
        client = str(action.arguments["client"])

        async def story(runtime: Runtime, cluster: ClusterClient) -> None:
            while not self.stopping:
                try:
                    await self._follow(cluster, client, action)
                except (KafkaError, OSError, ValueError) as error:
                    # The topic is gone, records were deleted, no broker answers: begin again with what is there now.
                    self.failed(client, error)
                    await asyncio.sleep(0.5)

        self.consumers.append(self.world.client(story, client))

    async def _follow(self, cluster: ClusterClient, client: str, action: Action) -> None:
        topic, rack = str(action.arguments["topic"]), str(action.arguments.get("rack", ""))
        isolation = isolation_level(str(action.arguments.get("isolation", "read_uncommitted")))
        metadata = await cluster.refresh([topic])
        partitions = metadata.partitions(topic)
        if not partitions:
            await asyncio.sleep(0.3)
            return
        self.history.reads_committed[client] = isolation == READ_COMMITTED
        consumer = (NearConsumer if rack else AgedConsumer)(cluster, isolation_level=isolation, max_wait_ms=300)
        consumer.is_as(action, self.history)
        if isinstance(consumer, NearConsumer):
            consumer.rack = rack
        await consumer.assign({TopicPartition(topic, number): EARLIEST for number in range(len(partitions))})
        if consumer.knows_batches:
            self.reading[client] = Reader(consumer, "", (topic,), isolation == READ_COMMITTED)
        while not self.stopping:
            await self.take(consumer, client, "", 500)
            await asyncio.sleep(0.1)
        await consumer.close()

    async def take(
        self,
        consumer: Consumer,
        client: str,
        group: str,
        max_ms: int,
        sought: dict[TopicPartition, int | None] | None = None,
        floors: dict[TopicPartition, int] | None = None,
        most: int | None = None,
    ) -> dict[TopicPartition, int]:
        """Polls once, and notes the records and how far positions went. A reset does not pass the records between, nor
        does a partition that another member had meanwhile. Returns the first offset of each partition.

        `sought` are offsets that the consumer seeks before or during the poll (None: an end that it looks up), and
        `floors` the offsets before which nothing may be given then; what it has reached is removed from both.
        """
        history, before = self.history, consumer.positions()
        generation = -1 if consumer.member is None else consumer.member.generation
        records = await consumer.poll(max_ms, max_records=most)
        first: dict[TopicPartition, int] = {}
        for topic, number, record in records:
            partition = f"{topic}-{number}"
            first.setdefault(TopicPartition(topic, number), record.offset)
            history.given.setdefault((client, partition), {})[record.offset] = None
            if group:
                history.given_to_groups.setdefault((group, partition), {})[record.offset] = None
            self.on_read(partition, record)
            if history.reads_committed.get(client):
                history.committed_reads[record.value or b""] = partition, record.offset
        if sought is None:
            self.on_goes_on(client, consumer, before, generation, first)
        for place in [known for known in first if floors and known in floors]:
            assert floors is not None, "one of them is known"
            self.on_goes_back(client, group, str(place), first[place], floors.pop(place))
        if consumer.member is not None and consumer.member.generation != generation:
            before = {}
        for place, end in consumer.positions().items():
            begin = before.get(place, first.get(place, end))
            if sought and place in first and place in sought:
                went_to = sought.pop(place)
                begin = first[place] if went_to is None else went_to
            if place in first and begin <= first[place] < end:
                history.went(client, str(place), begin, end, self.world.loop.now_ns)
        return first

    def _group(self, action: Action) -> None:
        client, group = str(action.arguments["client"]), str(action.arguments["group"])
        loop = self.world.loop
        topics = [str(action.arguments[each]) for each in ("topic", "also") if each in action.arguments]
        also_ns = loop.now_ns + (action.whole("also_ms", 0) * MS if len(topics) > 1 else 0)
        stays = bool(action.arguments.get("stays")) or not action.duration_ns
        ends_ns = 1 << 62 if stays else loop.now_ns + action.duration_ns
        assignors = str(action.arguments.get("assignors", RANGE)).split()
        instance = client if action.arguments.get("static") else None
        session_ms = action.whole("session_timeout_ms", 6_000)
        auto_commit_ms = action.whole("auto_commit_ms", 0) or None
        if auto_commit_ms is not None:
            self.history.commit_by_themselves[client] = None

        async def story(runtime: Runtime, cluster: ClusterClient) -> None:
            while not self.stopping and loop.now_ns < ends_ns:
                # A join is waited for as long as a poll, also at a coordinator that lost power and cannot say so.
                consumer = AgedConsumer(
                    cluster, group=group, max_wait_ms=300, session_timeout_ms=session_ms,
                    max_poll_interval_ms=action.whole("rebalance_timeout_ms", 20_000),
                    heartbeat_interval_ms=min(3_000, session_ms // 3), assignors=assignors,
                    group_instance_id=instance, metadata_max_age_ms=METADATA_MAX_AGE_MS,
                    auto_commit_interval_ms=auto_commit_ms,
                )  # fmt: skip
                consumer.is_as(action, self.history)
                try:
                    while not self.stopping and loop.now_ns < ends_ns:
                        has_all = loop.now_ns >= also_ns
                        wanted, until_ns = (topics, ends_ns) if has_all else (topics[:1], min(also_ns, ends_ns))
                        await consumer.subscribe(wanted)
                        if stays:
                            self.reading[client] = Reader(consumer, group, tuple(wanted), committed=False, commits=True)
                        await self._read_and_commit(consumer, client, group, until_ns)
                    await consumer.close()
                except (KafkaError, OSError, ValueError) as error:
                    self.failed(client, error)
                    await asyncio.sleep(0.5)

        self.consumers.append(self.world.client(story, client))

    def _play(self, part: Callable[[Workload, Action], Player], action: Action) -> None:
        player = part(self, action)
        self.consumers.append(self.world.client(player.work, player.client))

    def _keep_books(self, action: Action) -> None:
        self.books.append(keeper := Bookkeeper(self, action))
        self.consumers.append(self.world.client(keeper.work, keeper.client))

    def _begin_again(self, part: Callable[[Workload, Action], Player], action: Action) -> None:
        """A client that may be killed and begins again."""
        player = part(self, action)
        self.consumers.append(self.world.client(player.work, player.client, again=True))

    def _silent_member(self, action: Action) -> None:
        group, topic = str(action.arguments["group"]), str(action.arguments["topic"])
        ends_ns = self.world.loop.now_ns + action.duration_ns

        async def story(runtime: Runtime, cluster: ClusterClient) -> None:
            while not self.stopping and self.world.loop.now_ns < ends_ns:
                try:
                    await SilentMember(cluster, group, topic).stay(lambda: self.world.loop.now_ns >= ends_ns)
                except (KafkaError, OSError):
                    await asyncio.sleep(0.5)

        self.consumers.append(self.world.client(story, str(action.arguments["client"])))

    async def _read_and_commit(self, consumer: Consumer, client: str, group: str, ends_ns: int) -> None:
        loop, due_ns = self.world.loop, 0
        by_itself = client in self.history.commit_by_themselves
        while not self.stopping and loop.now_ns < ends_ns:
            await self.take(consumer, client, group, 300)
            if not by_itself and loop.now_ns >= due_ns and consumer.assignment:
                due_ns = loop.now_ns + round(COMMIT_EVERY_S * 1e9)
                offsets = {str(partition): offset for partition, offset in consumer.positions().items()}
                self.history.asks_to_commit(group, offsets, loop.now_ns)
                try:
                    await consumer.commit()
                except KafkaError as error:
                    if error.code is not ErrorCode.REBALANCE_IN_PROGRESS:
                        raise
                    continue  # the next poll goes on with what it has then
                self.history.has_committed(group, offsets, loop.now_ns)
            await asyncio.sleep(0.1)

    # Administrators

    def _administrate(self, action: Action) -> None:
        world = self.world
        said = " ".join([action.name, *(f"{key}={value}" for key, value in action.arguments.items())])
        world.trace.tell(
            "", Happening.ACTION, said,
            number=action.number, name=action.name, arguments=dict(action.arguments), duration_ns=action.duration_ns,
        )  # fmt: skip

        if action.name == "rolling-restart":
            self.administrators.append(world.loop.create_task(self._restart_all(action), name="rolling restart"))
            return
        do = _ADMINISTRATION[action.name]

        async def story(runtime: Runtime, cluster: ClusterClient) -> None:
            try:
                outcome = await do(self, Admin(cluster), action)
            except (KafkaError, OSError) as error:
                outcome = repr(error)
            world.trace.tell("", Happening.CLIENT, f"{action.name}: {outcome}", client="admin", what=str(outcome))

        self.administrators.append(world.client(story, f"admin-{action.number}"))

    async def _restart_all(self, action: Action) -> None:
        for name in self.world.broker_names:
            if self.stopping:
                return
            self.world.struck("shutdown", await self.world.shut_down(name))
            if (version := action.arguments.get("version")) is not None:
                self.world.own_config[name] = {PROTOCOL: str(version)}
            self.world.start(name)
            await asyncio.sleep(action.whole("pause_ns", 2_000_000_000) / 1e9)

    async def create_topic(self, admin: Admin, action: Action) -> str:
        said = action.arguments
        configs = {key: str(value) for key, value in said.items() if "." in key}
        name, partitions = str(said["topic"]), action.whole("partitions", 1)
        topic = NewTopic(name, partitions, action.whole("replication_factor", 3), configs=configs)
        by_hand = said.get("replicas")
        if isinstance(by_hand, list):
            replicas = [int(replica) for replica in by_hand]
            turned = {number: replicas[number % len(replicas) :] + replicas[: number % len(replicas)]
                      for number in range(partitions)}  # fmt: skip
            topic = NewTopic(name, configs=configs, assignment=turned)
        return _said(await admin.create_topics([topic]))

    async def delete_topic(self, admin: Admin, action: Action) -> str:
        topic = str(action.arguments["topic"])
        self.history.recreated_ns[topic] = self.world.loop.now_ns
        try:
            return _said(await admin.delete_topics([topic]))
        finally:
            self.history.recreated_ns[topic] = self.world.loop.now_ns

    async def recreate_topic(self, admin: Admin, action: Action) -> str:
        deleted = await self.delete_topic(admin, action)
        for _ in range(20):
            created = await self.create_topic(admin, action)
            if "TOPIC_ALREADY_EXISTS" not in created:
                break
            await asyncio.sleep(0.3)
        return f"{deleted}, {created}"

    async def add_partitions(self, admin: Admin, action: Action) -> str:
        return _said(await admin.create_partitions({str(action.arguments["topic"]): action.whole("partitions", 2)}))

    async def reassign(self, admin: Admin, action: Action) -> str:
        replicas = action.arguments["replicas"]
        assert isinstance(replicas, list)
        return _said(await admin.alter_reassignments({_partition(action): [int(replica) for replica in replicas]}))

    async def cancel_reassignment(self, admin: Admin, action: Action) -> str:
        return _said(await admin.alter_reassignments({_partition(action): None}))

    async def elect(self, admin: Admin, action: Action) -> str:
        kind = ElectionType.UNCLEAN if action.arguments.get("unclean") else ElectionType.PREFERRED
        topic = str(action.arguments["topic"])
        known = (await admin.cluster.refresh([topic])).partitions(topic)
        return _said(await admin.elect_leaders(known, kind))

    async def configure(self, admin: Admin, action: Action) -> str:
        said = action.arguments
        kind, name = ResourceType.BROKER, str(said.get("broker", ""))
        if "topic" in said:
            kind, name = ResourceType.TOPIC, str(said["topic"])
        value, operation = said.get("value"), AlterOperation[str(said.get("operation", "SET"))]
        await admin.alter_configs(kind, name, [(operation, str(said["key"]), None if value is None else str(value))])
        return "done"

    async def look_up(self, admin: Admin, action: Action) -> str:
        each = _partition(action)
        timestamp = max(0, admin.cluster.runtime.clock.now_ms() - action.whole("back_ms", 1_000))
        return f"{each}@{(await admin.cluster.list_offsets({each: timestamp}))[each].offset}"

    async def move_replica(self, admin: Admin, action: Action) -> str:
        return _said(
            await admin.alter_replica_log_dirs(
                action.whole("broker", 0), {_partition(action): str(action.arguments["path"])}
            )
        )

    async def delete_records(self, admin: Admin, action: Action) -> str:
        each, share = _partition(action), action.arguments.get("share", 0.5)
        assert isinstance(share, int | float)
        end = (await admin.cluster.list_offsets({each: -1}))[each].offset
        return _said(await admin.delete_records({each: -1 if share == 1 else int(end * share)}))


_ADMINISTRATION: Final[dict[str, Callable[[Workload, Admin, Action], Coroutine[Any, Any, str]]]] = {
    "create-topic": Workload.create_topic,
    "delete-topic": Workload.delete_topic,
    "recreate-topic": Workload.recreate_topic,
    "add-partitions": Workload.add_partitions,
    "reassign": Workload.reassign,
    "cancel-reassignment": Workload.cancel_reassignment,
    "elect": Workload.elect,
    "config": Workload.configure,
    "delete-records": Workload.delete_records,
    "move-replica": Workload.move_replica,
    "lookup": Workload.look_up,
    "legacy-reassign": legacy_reassign,
    "legacy-elect": legacy_elect,
    "legacy-delete": legacy_delete,
    "legacy-grow": legacy_grow,
    "depose": depose,
    "quota": set_quota,
    "permit": permit,
    "forbid": forbid,
    "rolling-restart": Workload.create_topic,  # carried out by `_restart_all`
}


def _partition(action: Action) -> TopicPartition:
    return TopicPartition(str(action.arguments["topic"]), action.whole("partition", 0))


def _said(outcomes: Any) -> str:
    """The outcome for each, without texts."""
    told = []
    for key, outcome in outcomes.items():
        told.append(f"{key} {outcome.code.name}" if isinstance(outcome, KafkaError) else f"{key} ok")
    return ", ".join(told)
