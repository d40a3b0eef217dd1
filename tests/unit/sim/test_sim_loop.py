"""The simulated world keeps its promises: time, order by seed, crashes without ``finally``."""

from __future__ import annotations

import asyncio
import gc

import pytest

from barnabas.runtime import Runtime
from barnabas.sim.plans.chance import Chance, EventHash
from barnabas.sim.world.loop import Deadlock, Restless, SimLoop
from barnabas.sim.world.network import SimulatedNetwork
from barnabas.sim.world.node import Node, ProcessDied


class World:
    def __init__(self, seed: int = 1) -> None:
        chance = Chance(seed, "test")
        self.hash = EventHash()
        self.loop = SimLoop(chance.stream("loop"), self.hash)
        self.network = SimulatedNetwork(self.loop, chance.stream("network"), self.hash)
        self.chance = chance

    def node(self, name: str) -> Node:
        return Node(self.loop, self.network, self.chance, name)

    def run(self, story: object) -> object:
        return self.loop.run_until_complete(story)


def test_waiting_an_hour_takes_no_time_and_moves_the_clock_by_an_hour() -> None:
    world = World()
    world.run(asyncio.sleep(3600))
    assert world.loop.now_ns == 3600 * 1_000_000_000


def test_a_timer_says_what_it_will_call_and_when() -> None:
    world = World()
    timer = world.loop.call_at(7.5, world.loop.stop)
    assert "stop" in repr(timer)
    assert "at 7.5 s" in repr(timer)
    timer.cancel()
    assert repr(timer) == "<cancelled at 7.5 s>"


def test_awaiting_what_nobody_will_do_is_a_deadlock_and_not_a_hang() -> None:
    world = World()
    with pytest.raises(Deadlock):
        world.run(world.loop.create_future())


async def asks_again_and_again(pause_s: float, times: int) -> None:
    for _ in range(times):
        await asyncio.sleep(pause_s)


def test_who_hardly_waits_between_one_attempt_and_the_next_is_ended() -> None:
    loop = SimLoop(Chance(1, "restless").stream("loop"), EventHash(), 1_000)
    loop.run_until_complete(asks_again_and_again(0.02, 1_000))
    with pytest.raises(Restless, match="1000 callbacks ran from"):
        loop.run_until_complete(asks_again_and_again(0.001, 5_000))


def order_of_ten(seed: int) -> list[int]:
    world = World(seed)
    ran: list[int] = []

    async def story() -> None:
        for number in range(10):
            asyncio.get_running_loop().call_soon(ran.append, number)
        await asyncio.sleep(0.001)

    world.run(story())
    return ran


def test_ready_callbacks_run_in_an_order_that_the_seed_draws() -> None:
    orders = {tuple(order_of_ten(seed)) for seed in range(20)}
    assert len(orders) > 15
    assert order_of_ten(7) == order_of_ten(7)
    assert all(sorted(order) == list(range(10)) for order in orders)


def test_a_killed_process_runs_no_finally_and_its_files_stay() -> None:
    world = World()
    node = world.node("a")
    ran: list[str] = []

    async def process(runtime: Runtime) -> None:
        file = runtime.disk.open("/data", create=True)
        file.pwrite(b"hello", 0)
        try:
            await asyncio.sleep(100)
        finally:
            ran.append("finally")

    node.begin(process)
    world.run(asyncio.sleep(1))
    node.kill()
    world.run(asyncio.sleep(200))
    assert ran == []
    assert bytes(node.volume.names["/data"].cached) == b"hello"


def test_a_task_that_a_killed_process_had_not_begun_is_dropped_silently(recwarn: pytest.WarningsRecorder) -> None:
    begun: list[str] = []

    async def later() -> None:
        begun.append("later")

    def die_at_once() -> None:
        world = World()
        node = world.node("a")

        async def process(runtime: Runtime) -> None:
            task = asyncio.create_task(later())
            node.kill()
            assert not task.done()

        node.begin(process)
        world.run(asyncio.sleep(1))

    gc.collect()  # what is left of other tests' worlds
    recwarn.clear()
    die_at_once()
    gc.collect()
    assert begun == []
    assert [str(warning.message) for warning in recwarn] == []


def test_a_dead_process_cannot_write_any_more() -> None:
    world = World()
    node = world.node("a")
    kept: list[Runtime] = []

    async def process(runtime: Runtime) -> None:
        kept.append(runtime)

    node.begin(process)
    world.run(asyncio.sleep(0.1))
    node.kill()
    with pytest.raises(ProcessDied):
        kept[0].disk.open("/data", create=True)


@pytest.mark.parametrize("seed", range(30))
def test_after_power_loss_synced_bytes_are_there_whatever_became_of_the_rest(seed: int) -> None:
    world = World(seed)
    node = world.node("a")

    async def process(runtime: Runtime) -> None:
        runtime.disk.makedirs("/d")
        file = runtime.disk.open("/d/log", create=True)
        file.pwrite(b"s" * 5000, 0)
        file.fsync()
        runtime.disk.fsync_dir("/d")
        file.pwrite(b"u" * 9000, 5000)
        runtime.disk.open("/d/unsynced", create=True).pwrite(b"x", 0)

    node.begin(process)
    world.run(asyncio.sleep(0.1))
    node.lose_power()
    after = bytes(node.volume.names["/d/log"].cached)
    # The page that holds both synced and unsynced bytes keeps its synced ones whichever image of it survived.
    assert after[:4096] == b"s" * 4096
    assert after[4096:5000] == b"s" * 904
    assert len(after) <= 14000


def test_replace_is_all_or_nothing_over_a_power_loss() -> None:
    for seed in range(30):
        world = World(seed)
        node = world.node("a")

        async def process(runtime: Runtime) -> None:
            runtime.disk.replace("/checkpoint", b"old")
            runtime.disk.replace("/checkpoint", b"new and longer")

        node.begin(process)
        world.run(asyncio.sleep(0.1))
        node.lose_power()
        assert bytes(node.volume.names["/checkpoint"].cached) == b"new and longer"


class Collect(asyncio.Protocol):
    def __init__(self) -> None:
        self.data = b""
        self.error: object = "open"

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.data += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.error = exc


def connected(world: World, server: Node, client: Node) -> tuple[Collect, Collect]:
    accepted = Collect()
    made: list[Collect] = []

    async def serve(runtime: Runtime) -> None:
        await runtime.network.listen(lambda: accepted, "", 1)
        await asyncio.sleep(1000)

    async def call(runtime: Runtime) -> None:
        made.append(await runtime.network.connect(Collect, server.name, 1, timeout_ms=5000))
        await asyncio.sleep(1000)

    server.begin(serve)
    world.run(asyncio.sleep(0.1))
    client.begin(call)
    world.run(asyncio.sleep(0.1))
    return accepted, made[0]


def test_bytes_arrive_in_order_whatever_the_pieces() -> None:
    for seed in range(10):
        world = World(seed)
        world.network.quality.piece = 0.5
        server, client = connected(world, world.node("s"), world.node("c"))
        for number in range(200):
            client.transport.write(bytes([number]) * 3)
        world.run(asyncio.sleep(1))
        assert server.data == b"".join(bytes([number]) * 3 for number in range(200))


def test_a_cut_link_holds_bytes_until_it_is_healed_and_keeps_their_order() -> None:
    world = World()
    server, client = connected(world, world.node("s"), world.node("c"))
    world.network.partition(["s"], ["c"])
    for number in range(50):
        client.transport.write(bytes([number]))
    world.run(asyncio.sleep(10))
    assert server.data == b""
    world.network.heal()
    client.transport.write(b"!")
    world.run(asyncio.sleep(1))
    assert server.data == bytes(range(50)) + b"!"


def test_another_bit_is_in_the_value_of_a_record_and_in_nothing_that_has_no_checksum() -> None:
    world = World()
    server, client = connected(world, world.node("s"), world.node("c"))
    world.network.flips["c", "s"] = 1
    for told in (
        b"client id: producer-1 ",
        b'{"compression.type":"producer"} ',
        b"\0producer-1 17",
        b"\0producer-1 18",
    ):
        client.transport.write(told)
        world.run(asyncio.sleep(1))
    assert server.data == b'client id: producer-1 {"compression.type":"producer"} \0qroducer-1 17\0producer-1 18'


def test_a_dying_process_resets_its_connections_and_one_without_power_says_nothing() -> None:
    for silently, expected in ((False, ConnectionResetError), (True, str)):
        world = World()
        server_node, client_node = world.node("s"), world.node("c")
        _, client = connected(world, server_node, client_node)
        if silently:
            server_node.lose_power()
        else:
            server_node.kill()
        world.run(asyncio.sleep(1))
        assert isinstance(client.error, expected)


def test_a_machine_that_is_up_again_resets_what_it_knows_nothing_of() -> None:
    world = World()
    server_node, client_node = world.node("s"), world.node("c")
    _, client = connected(world, server_node, client_node)

    async def nothing(_: Runtime) -> None:
        pass

    server_node.lose_power()
    client.transport.write(b"into the dark")
    world.run(asyncio.sleep(1))
    assert client.error == "open"
    server_node.begin(nothing)
    client.transport.write(b"again")
    world.run(asyncio.sleep(1))
    assert isinstance(client.error, ConnectionResetError)


def test_a_connection_to_nobody_is_refused_and_over_a_cut_link_times_out() -> None:
    world = World()
    node = world.node("c")
    seen: list[BaseException] = []

    async def call(runtime: Runtime) -> None:
        for _ in range(2):
            try:
                await runtime.network.connect(Collect, "s", 1, timeout_ms=500)
            except OSError as error:
                seen.append(error)
            world.network.cut("c", "s")

    node.begin(call)
    world.run(asyncio.sleep(5))
    assert [type(error) for error in seen] == [ConnectionRefusedError, TimeoutError]


def test_who_asks_a_dying_process_for_a_connection_waits_in_vain_until_it_gives_up() -> None:
    world = World()
    server, client = world.node("s"), world.node("c")
    seen: list[BaseException] = []

    async def serve(runtime: Runtime) -> None:
        await runtime.network.listen(Collect, "", 1)
        await asyncio.sleep(1000)

    async def call(runtime: Runtime) -> None:
        try:
            await runtime.network.connect(Collect, "s", 1, timeout_ms=5000)
        except OSError as error:
            seen.append(error)

    server.begin(serve)
    world.run(asyncio.sleep(0.1))
    world.network.link("c", "s").delay_ns = 1_000_000_000
    client.begin(call)
    world.run(asyncio.sleep(0.5))
    assert not world.network.waits_in_vain("c", "s"), "it is on its way"
    server.kill()
    server.begin(serve)
    world.run(asyncio.sleep(4))
    assert world.network.waits_in_vain("c", "s")
    assert not world.network.waits_in_vain("s", "c")
    world.run(asyncio.sleep(1))
    assert not world.network.waits_in_vain("c", "s")
    assert [type(error) for error in seen] == [TimeoutError]


def test_a_timer_is_never_early_by_the_clock_that_set_it() -> None:
    world = World()
    early: list[float] = []

    async def story() -> None:
        loop = asyncio.get_running_loop()
        done: list[float] = []

        def fired(when: float) -> None:
            done.append(when)
            if loop.time() < when:
                early.append(when)

        for number in range(2000):
            when = loop.time() + number / 3000 + 1e-10
            loop.call_at(when, fired, when)
        await asyncio.sleep(2)
        assert len(done) == 2000

    world.run(story())
    assert early == []
