"""Sessions that end, come back or are refused at the worst moment, in whole clusters; each play named by its bug."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from barnabas.broker.server import Broker
from barnabas.broker.start_error import BrokerStartError
from barnabas.client.admin import Admin
from barnabas.log.log_dirs import CLEAN_SHUTDOWN_FILE, LogDirs
from barnabas.model.config import broker_config
from barnabas.model.ids import TopicPartition, Uuid
from barnabas.runtime import Runtime
from barnabas.security.sasl.scram_credential import ScramCredential, ScramMechanism
from barnabas.sim.plans.chance import Chance
from barnabas.sim.world.node import Node
from barnabas.sim.world.world import LOG_DIR, ZOOKEEPER, World, broker_name
from barnabas.sim.world.zookeeper import Ensemble
from barnabas.zk.client.client import ConnectionState, StateChangeHandler, ZooKeeperClient
from barnabas.zk.kafka.config_znodes import BROKERS, DEFAULT_ENTITY, TOPICS, USERS, ConfigEntityZNode
from barnabas.zk.kafka.zk_client import KafkaZkClient
from barnabas.zk.protocol.ops import Create

Play = Callable[[World], Awaitable[None]]


def played(seed: int, play: Play, config: dict[str, str] | None = None) -> World:
    """Runs `play` in a cluster of three that has come up."""
    world = World(seed, 3, config)

    async def story() -> None:
        world.start_coordinator()
        for name in world.broker_names:
            world.start_broker(name)
        await world.until(lambda: len(world.brokers) == 3 and world.controller(), "the cluster is up")
        await play(world)

    world.loop.run_until_complete(story())
    assert world.violations == []
    return world


def coordinator(world: World) -> Ensemble:
    assert world.coordinator is not None
    return world.coordinator


def registered(world: World) -> list[str]:
    return world.children("/brokers/ids")


def owner(world: World, name: str) -> int:
    """The session that registered a broker; 0 for one that is not registered."""
    number = name.rpartition("-")[2]
    if number not in registered(world):
        return 0
    return coordinator(world).committed.node(f"/brokers/ids/{number}").ephemeral_owner


def expires(world: World, name: str) -> int:
    client = world.brokers[name]._client
    assert client is not None
    return client.expires


def epoch(world: World) -> int:
    return int(world.znode("/controller_epoch") or b"0")


async def settled(world: World, what: str) -> None:
    """Everybody is registered by a session of its own, one of them reigns, and nobody's queue is stuck."""

    def so() -> bool:
        reigning = [name for name, broker in world.brokers.items() if broker.controller.is_active]
        return (
            len(world.brokers) == 3
            and registered(world) == ["0", "1", "2"]
            and all(owner(world, name) == broker.zk.session_id for name, broker in world.brokers.items())
            and reigning == [world.controller()]
            and all(not broker.controller.event_manager.event_queue_size for broker in world.brokers.values())
        )

    await world.until(so, what)


async def create_topic(world: World, topic: str, partitions: int = 6, config: Mapping[str, str] | None = None) -> None:
    """Made in ZooKeeper alone, as old tools do: only a watch tells the controller of it."""

    async def story(runtime: Runtime, _: Any) -> None:
        client = ZooKeeperClient(
            runtime, f"{ZOOKEEPER}:2181", session_timeout_ms=6_000, connection_timeout_ms=30_000, name="tool"
        )
        await client.start()
        zk = KafkaZkClient(runtime, client)
        assignment = {
            TopicPartition(topic, number): tuple((number + each) % 3 for each in range(3))
            for number in range(partitions)
        }
        if config is not None:
            await zk.set_or_create_entity_configs(TOPICS, topic, config)
        await zk.create_topic_assignment(topic, runtime.entropy.uuid(), assignment)
        await client.close()

    await world.client(story, f"tool-{topic}")


async def led(world: World, topic: str, partitions: int = 6) -> None:
    def so() -> bool:
        states = [world.state(f"{topic}-{number}") for number in range(partitions)]
        return all(state is not None and sorted(state["isr"]) == [0, 1, 2] for state in states)

    await world.until(so, f"every partition of {topic} has a leader and three in sync")


@pytest.mark.parametrize("seed", range(1))
def test_b06_a_partition_state_whose_answer_was_lost_does_not_stop_isr_changes(seed: int) -> None:
    """KAFKA-2729: a ZooKeeper blip leaves a stale version behind, and every later ISR update is refused."""

    async def play(world: World) -> None:
        await create_topic(world, "t")
        await led(world, "t")
        for _ in range(2):
            controller = world.controller()
            assert controller is not None
            victim = next(name for name in world.broker_names if name != controller)
            coordinator(world).lose_requests[controller] = [True] * 3
            world.kill(victim)
            number = int(victim.rpartition("-")[2])
            await world.until(
                lambda number=number: number not in (world.state("t-0") or {})["isr"], "the ISR is smaller"
            )
            coordinator(world).lose_requests[controller] = [True] * 3
            world.start_broker(victim)
            await led(world, "t")
            coordinator(world).lose_requests.clear()
        assert coordinator(world).struck["zk-loss"] >= 6

    played(seed, play)


def test_a_new_topics_configuration_counts_at_a_broker_whose_zookeeper_server_lags() -> None:
    """The controller tells it of the topic before its own server knows; nobody tells of the configuration later."""

    async def play(world: World) -> None:
        controller = world.controller()
        behind = next(name for name in world.broker_names if name != controller)
        before = coordinator(world).struck["zk-stale"]
        coordinator(world).fall_behind(behind, 3_000)
        await create_topic(world, "t", config={"segment.bytes": "4711"})

        def of_logs(name: str) -> list[int]:
            partitions = world.brokers[name].replicas.partitions
            return [each.log.settings.segment_bytes for each in partitions if each.log is not None]

        await world.until(lambda: all(len(of_logs(name)) == 6 for name in world.brokers), "every replica has a log")
        coordinator(world).catch_up(behind)
        assert coordinator(world).struck["zk-stale"] > before
        assert {name: of_logs(name) for name in world.brokers} == dict.fromkeys(world.broker_names, [4711] * 6)

    played(3, play)


@pytest.mark.parametrize("seed", range(2))
def test_b07_a_broker_registers_again_though_its_old_znode_is_still_there(seed: int) -> None:
    """KAFKA-1387, KAFKA-7165: the expired session's ephemeral goes late, and must not take the new one with it."""

    async def play(world: World) -> None:
        for name in world.broker_names:
            before, old = world.brokers[name].broker_epoch, owner(world, name)
            coordinator(world).ephemerals_late_ms = 20_000
            coordinator(world).expire(name)
            await world.until(lambda name=name, old=old: owner(world, name) not in (0, old), "registered", 10)
            await settled(world, "the cluster is whole again")
            assert world.brokers[name].broker_epoch > before
            coordinator(world).ephemerals_late_ms = 0
        await asyncio.sleep(25)  # virtual: the old sessions' znodes go
        assert registered(world) == ["0", "1", "2"]
        await settled(world, "nothing was lost with the old sessions")

    played(seed, play)


def test_b07_a_restarted_broker_waits_out_its_own_stale_registration() -> None:
    async def play(world: World) -> None:
        killed = owner(world, "broker-1")
        world.kill("broker-1")
        world.start_broker("broker-1")
        await world.until(lambda: "broker-1" in world.starting, "it starts")
        starting = world.starting["broker-1"]
        waits: list[int] = []
        asked: list[int] = []

        def seen() -> bool:
            wait = starting.status()["registration_wait"]
            if wait is not None:
                asked.append(starting.status()["zookeeper"]["requests"])
                assert starting.status()["state"] == "WAITING_FOR_REGISTRATION"
                assert f"session 0x{killed & (1 << 64) - 1:x} of a broker at broker-1:9092" in wait["owner"]
                waits.append(wait["remaining_ms"])
            return "broker-1" in world.brokers

        await world.until(seen, "it is registered", 20)
        # A countdown, second by second, from what barnabas.registration.timeout.ms allows.
        seconds = list(dict.fromkeys(wait // 1000 for wait in waits))
        assert seconds == sorted(seconds, reverse=True)
        assert 4 <= len(seconds) <= 8
        assert seconds[0] in (59, 60)
        assert asked[-1] - asked[0] < 30, "it watches its predecessor's znode, and asks for it about once a second"
        assert world.brokers["broker-1"].status()["state"] == "RUNNING"
        assert world.brokers["broker-1"].status()["registration_wait"] is None

    played(1, play)


def test_b23_a_second_live_broker_of_the_same_id_is_told_who_has_it() -> None:
    """KAFKA-150: it neither takes the id over nor dies at once."""

    async def play(world: World) -> None:
        node = world.nodes["twin"] = Node(world.loop, world.network, Chance(1, "twin"), "twin")
        ended: asyncio.Future[tuple[float, Exception]] = asyncio.get_running_loop().create_future()

        async def main(runtime: Runtime) -> None:
            values = {**world.config_of(1, "twin"), "barnabas.registration.timeout.ms": "9000"}
            began = runtime.clock.monotonic_ms()
            try:
                await Broker(runtime, broker_config(values)).startup()
            except BrokerStartError as error:
                ended.set_result((runtime.clock.monotonic_ms() - began, error))

        before = owner(world, "broker-1")
        node.begin(main)
        waited_ms, error = await asyncio.wait_for(ended, 60)
        assert 9_000 <= waited_ms < 12_000
        for part in ("Broker id 1 is registered", "of a broker at broker-1:9092", "choose another"):
            assert part in str(error)
        assert owner(world, "broker-1") == before
        assert f"{LOG_DIR}/{CLEAN_SHUTDOWN_FILE}" in node.volume.durable_files(LOG_DIR), "no log is to be recovered"
        await settled(world, "the first one never noticed")

    played(1, play)


def test_an_ensemble_that_is_dead_takes_no_znode_away() -> None:
    """What it was late with is gone with it; the next one reads what was logged."""

    async def play(world: World) -> None:
        dead = coordinator(world)
        dead.ephemerals_late_ms = 1_000
        dead.expire("broker-1")
        world.kill(ZOOKEEPER)
        last_zxid = dead.committed.last_zxid
        await asyncio.sleep(2)
        assert dead.committed.last_zxid == last_zxid

    played(1, play)


def test_b23_a_broker_whose_id_was_taken_while_it_had_no_session_gets_it_back_later() -> None:
    async def play(world: World) -> None:
        node = world.nodes["twin"] = Node(world.loop, world.network, Chance(1, "twin"), "twin")

        async def main(runtime: Runtime) -> None:
            twin = Broker(runtime, broker_config(world.config_of(1, "twin")))
            process.remains.append(twin)
            await twin.startup()

        first = owner(world, "broker-1")
        world.pause("broker-1")
        coordinator(world).expire("broker-1")
        process = node.begin(main)
        await world.until(lambda: owner(world, "broker-1") not in (0, first), "the other one has the id")
        taken = owner(world, "broker-1")
        world.resume("broker-1")
        broker = world.brokers["broker-1"]
        await asyncio.sleep(20)
        assert owner(world, "broker-1") == taken
        assert not broker.controller.is_active
        assert not broker.controller.event_manager.event_queue_size
        assert broker.zk.session_id not in (first, taken)
        node.kill()
        await settled(world, "the first one is registered again")

    played(1, play)


def test_a_broker_whose_session_ends_while_it_stops_hands_over_what_it_leads() -> None:
    """Its epoch is another one then: the controller refuses who asks by the one before."""

    async def play(world: World) -> None:
        await create_topic(world, "t")
        await led(world, "t")
        controller = world.controller()
        assert controller is not None
        victim = next(name for name in world.broker_names if name != controller)
        number = int(victim.rpartition("-")[2])
        world.kill(controller)
        stopping = asyncio.ensure_future(world.shut_down(victim))
        before = owner(world, victim)
        coordinator(world).expire(victim)
        await world.until(lambda: owner(world, victim) not in (0, before), "it is registered anew")

        led_last = list(range(6))
        while owner(world, victim):
            led_last = [each for each in range(6) if (world.state(f"t-{each}") or {})["leader"] == number]
            await asyncio.sleep(0.001)
        assert led_last == [], "it was handed over while the broker was there"
        assert await stopping

    played(1, play, {"controlled.shutdown.retry.backoff.ms": "5000"})


def test_a_replica_that_moves_away_while_its_broker_has_no_session_is_let_go() -> None:
    async def play(world: World) -> None:
        await create_topic(world, "t", 1)
        await led(world, "t", 1)
        moved = TopicPartition("t", 0)
        victim = next(name for name in world.broker_names if name != world.controller())
        left = [number for number in range(3) if broker_name(number) != victim]
        world.network.partition([victim], [ZOOKEEPER])
        await world.until(lambda: not owner(world, victim), "its session is over")

        async def move(_: Any, cluster: Any) -> None:
            assert await Admin(cluster).alter_reassignments({moved: left}) == {moved: None}

        await world.client(move, "operator")
        await world.until(lambda: b'"adding_replicas":{}' in (world.znode("/brokers/topics/t") or b""), "it is moved")
        assert world.brokers[victim].replicas.partition(moved) is not None
        world.network.heal()
        await settled(world, "the broker is registered again")
        await world.until(lambda: world.brokers[victim].replicas.partition(moved) is None, "it is let go", 10)

    played(1, play)


@pytest.mark.parametrize("delay_ms", [0, 1, 3, 6])
def test_b11_a_controller_whose_session_ends_in_the_middle_of_its_failover(delay_ms: int) -> None:
    """KAFKA-6879: the expiry's hook waits for an event, which waits for ZooKeeper, which waits for the hook."""

    async def play(world: World) -> None:
        await create_topic(world, "t", 12)
        await led(world, "t", 12)
        for _ in range(2):
            dead = world.controller()
            assert dead is not None
            world.kill(dead)
            await world.until(lambda dead=dead: world.controller() not in (None, dead), "another one is elected")
            await asyncio.sleep(delay_ms / 1000)
            elected = world.controller()
            assert elected is not None
            coordinator(world).expire(elected)
            world.start_broker(dead)
            await settled(world, "the controller's queue goes on")
            await led(world, "t", 12)

    played(delay_ms, play)


@pytest.mark.parametrize("seed", range(1))
def test_b12_a_session_that_is_refused_for_long_is_made_in_the_end(seed: int) -> None:
    """KAFKA-5473: nobody gives up, and nobody who has no session counts as alive or reigns."""

    async def play(world: World) -> None:
        await create_topic(world, "t")
        await led(world, "t")
        controller = world.controller()
        assert controller is not None
        before = epoch(world)
        coordinator(world).refuse_sessions[controller] = None
        coordinator(world).expire(controller)
        await asyncio.sleep(60)
        assert world.controller() not in (None, controller)
        assert epoch(world) == before + 1
        assert not world.brokers[controller].controller.is_active
        assert owner(world, controller) == 0
        status = world.brokers[controller].status()["zookeeper"]
        assert status["state"] in ("AUTH_FAILED", "CONNECTING", "EXPIRED")
        assert status["auth_failures"] > 10
        coordinator(world).refuse_sessions.clear()
        await settled(world, "the refused one is back")
        await led(world, "t")

    played(seed, play)


def test_b12_all_servers_are_away_for_longer_than_any_session() -> None:
    async def play(world: World) -> None:
        await create_topic(world, "t")
        await led(world, "t")
        sessions = [owner(world, name) for name in world.broker_names]
        before = coordinator(world)
        world.kill(ZOOKEEPER)
        await asyncio.sleep(120)
        world.start_coordinator()
        await world.until(lambda: coordinator(world) is not before and len(coordinator(world).connections) >= 3, "back")
        for name in world.broker_names:
            coordinator(world).expire(name)
        await settled(world, "everybody has a new session")
        assert not {owner(world, name) for name in world.broker_names} & set(sessions)
        await create_topic(world, "u")
        await led(world, "u")

    played(1, play)


def test_b12_all_servers_go_just_when_a_new_session_is_wanted() -> None:
    async def play(world: World) -> None:
        await create_topic(world, "t")
        await led(world, "t")
        for name in (world.controller() or "", "broker-0"):
            client = world.brokers[name]._client
            assert client is not None

            def everything_goes() -> None:
                # In the world's own context: the hook's is the broker's.
                world.loop.call_later(0, world.kill, ZOOKEEPER, context=world.context)
                world.loop.call_later(5, world.start_coordinator, context=world.context)

            client.register_state_change_handler(StateChangeHandler("test", everything_goes))
            refused = client.expires
            coordinator(world).expire(name)
            await asyncio.sleep(4)
            assert client.expires == refused + 1
            assert client.state is ConnectionState.CONNECTING
            client.unregister_state_change_handler("test")
            await settled(world, "it got its session in the end")
            await led(world, "t")

    played(1, play)


@pytest.mark.parametrize("seed", range(2))
def test_b13_what_changes_while_a_connection_is_away_is_told_by_the_next(seed: int) -> None:
    async def play(world: World) -> None:
        for turn in range(3):
            before = {name: (owner(world, name), expires(world, name)) for name in world.broker_names}
            for name in world.broker_names:
                coordinator(world).fall_behind(name, 0)
                coordinator(world).catch_up(name)
            if turn == 0:  # the change comes first, then the connection; or the other way round
                await asyncio.sleep(1)
            await create_topic(world, f"t{turn}")
            await led(world, f"t{turn}")
            assert before == {name: (owner(world, name), expires(world, name)) for name in world.broker_names}

    played(seed, play)


@pytest.mark.parametrize("seed", range(2))
def test_b13_what_changes_while_a_session_is_over_is_seen_by_the_next(seed: int) -> None:
    """KAFKA-928: a watch goes with its session; the next session reads again and sets it again."""

    async def play(world: World) -> None:
        for turn in range(2):
            for name in world.broker_names:
                coordinator(world).expire(name)
            await create_topic(world, f"t{turn}")
            await led(world, f"t{turn}")
            await settled(world, "whole again")
            # And what every broker follows by itself.
            await features_are_known(world)
        before = {name: expires(world, name) for name in world.broker_names}
        await feature_changes(world)
        await features_are_known(world)
        assert {name: expires(world, name) for name in world.broker_names} == before

    played(seed, play)


@pytest.mark.parametrize("seed", range(4))
def test_whoever_is_served_is_told_the_features_that_count(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[int] = []
    startup = Broker.startup

    async def noted(broker: Broker) -> None:
        await startup(broker)
        told.append(broker.features_epoch)  # nothing ran since it began to serve

    async def play(world: World) -> None:
        await feature_changes(world)
        await features_are_known(world)
        assert world.kill("broker-1")
        monkeypatch.setattr(Broker, "startup", noted)
        world.start_broker("broker-1")
        await world.until(lambda: "broker-1" in world.brokers, "it is back")

    played(seed, play)
    assert told == [1]


async def features_are_known(world: World) -> None:
    version = coordinator(world).committed.node("/feature").version
    await world.until(
        lambda: all(broker.features_epoch == version for broker in world.brokers.values()), "every broker knows", 5
    )


async def feature_changes(world: World) -> None:
    async def story(runtime: Runtime, _: Any) -> None:
        client = ZooKeeperClient(
            runtime, f"{ZOOKEEPER}:2181", session_timeout_ms=6_000, connection_timeout_ms=30_000, name="tool"
        )
        await client.start()
        data, _ = await client.get("/feature")
        assert json.loads(data or b"")["status"] == 1
        await client.set("/feature", data)
        await client.close()

    await world.client(story, "feature-tool")


@pytest.mark.parametrize("seed", range(2))
def test_b24_elections_whose_answers_are_lost_are_won_by_one(seed: int) -> None:
    """ZOOKEEPER-2355: the multi is done and its answer lost; the winner has to know, and nobody wins twice."""

    async def play(world: World) -> None:
        await create_topic(world, "t")
        await led(world, "t")
        for _ in range(3):
            before, dead = epoch(world), world.controller()
            assert dead is not None
            for name in world.broker_names:
                if name != dead:
                    coordinator(world).lose_requests[name] = [True, True]
            world.kill(dead)
            await world.until(lambda dead=dead: world.controller() not in (None, dead), "another one is elected")
            world.start_broker(dead)
            await settled(world, "one of them reigns")
            coordinator(world).lose_requests.clear()
            # The winner recognized itself: it did not have to be elected again.
            assert epoch(world) == before + 1
            await led(world, "t")

    played(seed, play)


def test_what_is_written_behind_a_lagging_front_end_outlives_the_coordinator() -> None:
    """Its answer comes late, and it may be the only one of its turn: it is in the log all the same."""

    async def play(world: World) -> None:
        client = world.brokers["broker-0"]._client
        assert client is not None
        before = coordinator(world)
        others = set(before.connections)
        before.fall_behind("broker-0", 100)
        await world.until(lambda: any(each.session for each in set(before.connections) - others), "it is back")
        answer = client.submit(Create("/late", b""))
        for _ in range(1000):
            if "/late" in coordinator(world).committed.nodes:
                break
            await asyncio.sleep(0.001)
        assert not answer.done()
        world.kill(ZOOKEEPER)
        answer.cancel()
        world.start_coordinator()
        await world.until(lambda: coordinator(world) is not before, "another coordinator")
        assert "/late" in coordinator(world).committed.nodes

    played(1, play)


def test_a_start_that_takes_longer_than_notifications_last_misses_no_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """Logs may take an hour to recover, and whichever broker comes by removes notifications after a quarter of one."""
    config = {
        "listeners": "PLAINTEXT://broker-0:9092,SASL_PLAINTEXT://broker-0:9093",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
        "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        ),
    }
    world = World(1, 1, config)
    mechanism = ScramMechanism.SCRAM_SHA_256
    alice = ScramCredential.of(mechanism, b"salt", mechanism.salted_password("word", b"salt", 4096), 4096)
    load, loaded = LogDirs.load, False

    async def written(tell: Callable[[KafkaZkClient], Awaitable[None]]) -> None:
        async def story(runtime: Runtime, _: Any) -> None:
            client = ZooKeeperClient(
                runtime, f"{ZOOKEEPER}:2181", session_timeout_ms=6_000, connection_timeout_ms=30_000, name="tool"
            )
            await client.start()
            await tell(KafkaZkClient(runtime, client))
            await client.close()

        await world.client(story, "operator")

    async def slowly(self: LogDirs, values: Mapping[str, Mapping[str, str]] | None = None) -> None:
        nonlocal loaded
        await load(self, values)
        loaded = True
        await asyncio.sleep(20 * 60)

    async def before(zk: KafkaZkClient) -> None:
        await zk.create_recursive(ConfigEntityZNode.path(TOPICS, "t"), ConfigEntityZNode.encode({}))
        await zk.create_topic_assignment("t", Uuid(b"t" * 16), {TopicPartition("t", 0): (0,)})
        user = ConfigEntityZNode.encode({mechanism.mechanism_name: alice.encode()})
        await zk.create_recursive(ConfigEntityZNode.path(USERS, "alice"), user)

    async def meanwhile(zk: KafkaZkClient) -> None:
        await zk.client.set(ConfigEntityZNode.path(TOPICS, "t"), ConfigEntityZNode.encode({"retention.ms": "5000"}))
        defaults = ConfigEntityZNode.encode({"log.segment.bytes": "2000000"})
        await zk.create_recursive(ConfigEntityZNode.path(BROKERS, DEFAULT_ENTITY), defaults)
        await zk.delete_path(ConfigEntityZNode.path(USERS, "alice"))

    async def run() -> None:
        world.start_coordinator()
        await world.until(lambda: world.coordinator is not None, "the coordinator is up")
        await written(before)
        world.start_broker("broker-0")
        await world.until(lambda: world.state("t-0") is not None, "the topic has a leader")
        assert await world.shut_down("broker-0")
        monkeypatch.setattr(LogDirs, "load", slowly)
        world.start_broker("broker-0")
        await world.until(lambda: loaded, "the logs are loaded")
        await written(meanwhile)
        await world.until(lambda: "broker-0" in world.brokers, "the broker is up", 30 * 60)

    world.loop.run_until_complete(run())
    broker = world.brokers["broker-0"]
    log = broker.log_dirs.get(TopicPartition("t", 0))
    assert log is not None
    assert (log.settings.retention_ms, log.settings.segment_bytes) == (5_000, 2_000_000)
    assert broker.scram_users.credential(mechanism, "alice") is None
