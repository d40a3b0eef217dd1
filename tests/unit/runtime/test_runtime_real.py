"""The real disk and network behave as their doors promise."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import pytest

from barnabas.runtime import real
from barnabas.runtime.event_loop import fastest_loop
from barnabas.runtime.real import RealDisk, RealEntropy, real_runtime


def test_a_file_is_written_read_and_cut_at_positions(tmp_path: Path) -> None:
    disk = RealDisk()
    file = disk.open(str(tmp_path / "f"), create=True)
    file.pwrite(memoryview(b"abcdefghi"), 2)
    assert file.pread(100, 0) == b"\0\0abcdefghi"
    assert file.pread(4, 9) == b"hi"
    file.truncate(5)
    assert file.size() == 5
    file.fsync()
    file.close()
    with pytest.raises(FileNotFoundError):
        disk.open(str(tmp_path / "missing"))


def test_what_the_kernel_takes_in_many_parts_stands_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda descriptor, data, position: whole(descriptor, data[:2], position))
    file = RealDisk().open(str(tmp_path / "f"), create=True)
    file.pwrite(memoryview(b"abcdefghi"), 1)
    assert file.pread(100, 0) == b"\0abcdefghi"
    file.close()


def test_replace_leaves_the_new_content_and_no_temporary(tmp_path: Path) -> None:
    disk = RealDisk()
    target = str(tmp_path / "checkpoint")
    disk.replace(target, b"one")
    disk.replace(target, b"two")
    assert disk.read(target) == b"two"
    assert disk.listdir(str(tmp_path)) == ["checkpoint"]


def test_a_lock_is_exclusive_until_it_is_released(tmp_path: Path) -> None:
    disk = RealDisk()
    held = disk.lock(str(tmp_path / ".lock"))
    with pytest.raises(BlockingIOError):
        disk.lock(str(tmp_path / ".lock"))
    held.release()
    disk.lock(str(tmp_path / ".lock")).release()


def test_a_random_uuid_is_version_4_and_never_looks_like_an_option() -> None:
    entropy = RealEntropy()
    for _ in range(500):
        made = entropy.uuid()
        assert made[6] >> 4 == 4
        assert not str(made).startswith("-")


@pytest.mark.parametrize("loop", [asyncio.SelectorEventLoop, fastest_loop()])
def test_the_kernel_asks_whether_the_other_side_of_a_silent_connection_is_there(
    loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def run() -> None:
        network = real_runtime().network
        accepted: asyncio.Future[asyncio.BaseTransport] = asyncio.get_running_loop().create_future()

        class Accepting(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                accepted.set_result(transport)

        listener = await network.listen(Accepting, "127.0.0.1", 0)
        with socket.create_connection(("127.0.0.1", listener.port)):
            transport = await accepted
            assert transport.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            transport.close()
        listener.close()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(run())


@pytest.mark.parametrize("host", ["", "::"])
@pytest.mark.parametrize("loop", [asyncio.SelectorEventLoop, fastest_loop()])
def test_who_listens_at_every_address_is_reached_by_ipv4_as_well(
    loop: Callable[[], asyncio.AbstractEventLoop], host: str
) -> None:
    async def run() -> None:
        network = real_runtime().network
        listener = await network.listen(asyncio.Protocol, host, 0)
        await network.connect(asyncio.Protocol, "127.0.0.1", listener.port, timeout_ms=1000)
        listener.close()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(run())


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="the machine has no IPv6")
@pytest.mark.parametrize("host", ["", "::"])
@pytest.mark.parametrize("loop", [asyncio.SelectorEventLoop, fastest_loop()])
def test_who_listens_at_every_address_on_any_port_has_one_port_for_ipv4_and_ipv6(
    loop: Callable[[], asyncio.AbstractEventLoop], host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        network = real_runtime().network
        with socket.create_server(("::1", 0), family=socket.AF_INET6) as taken:
            ports = iter([taken.getsockname()[1], real._free_port()])  # of which the first is free for IPv4 only
            monkeypatch.setattr(real, "_free_port", lambda: next(ports))
            listener = await network.listen(asyncio.Protocol, host, 0)
            assert listener.port != taken.getsockname()[1]
        for address in ("127.0.0.1", "::1"):
            await network.connect(asyncio.Protocol, address, listener.port, timeout_ms=1000)
        listener.close()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(run())


def test_a_port_in_use_is_an_oserror_and_a_refused_connection_too() -> None:
    async def run() -> None:
        network = real_runtime().network
        listener = await network.listen(asyncio.Protocol, "127.0.0.1", 0)
        with pytest.raises(OSError, match="in use"):
            await network.listen(asyncio.Protocol, "127.0.0.1", listener.port)
        listener.close()
        with pytest.raises(ConnectionRefusedError):
            await network.connect(asyncio.Protocol, "127.0.0.1", listener.port, timeout_ms=1000)

    asyncio.run(run())


def test_a_host_that_nobody_knows_is_named() -> None:
    connecting = real_runtime().network.connect(asyncio.Protocol, "nowhere.invalid", 99, timeout_ms=20_000)
    with pytest.raises(ConnectionError, match=r"nowhere\.invalid:99: "):
        asyncio.run(connecting)


@pytest.mark.parametrize("access", ["read", "open", "replace"])
def test_a_pipe_in_the_place_of_a_file_is_an_error_and_nobody_waits_for_its_other_end(
    tmp_path: Path, access: str
) -> None:
    path = str(tmp_path / "file")
    os.mkfifo(f"{path}.tmp" if access == "replace" else path)
    disk = RealDisk()
    calls = {"read": disk.read, "open": disk.open, "replace": lambda path: disk.replace(path, b"x")}
    tried = Thread(target=lambda: errors.append(raised(lambda: calls[access](path))), daemon=True)
    errors: list[OSError] = []
    tried.start()
    tried.join(10)
    assert [error.filename for error in errors] == [path]


def raised(call: Callable[[], object]) -> OSError:
    with pytest.raises(OSError) as caught:
        call()
    return caught.value
