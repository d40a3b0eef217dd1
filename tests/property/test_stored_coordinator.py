"""Whatever becomes of the coordinator's own files: it has all that was acknowledged, or it refuses to start."""

from __future__ import annotations

import copy
from functools import cache
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mutations import mutated

from barnabas.sim.world.disk import SimDisk, Volume
from barnabas.zk.protocol.data import OpCode
from barnabas.zk.protocol.jute import INT, encode_buffer
from barnabas.zk.protocol.ops import Create, SetData
from barnabas.zk.server.recovery import recover
from barnabas.zk.server.sessions import Sessions
from barnabas.zk.server.snapshot import encode_snapshot
from barnabas.zk.server.tree import DataTree
from barnabas.zk.server.wal import CorruptState, WriteAheadLog

SESSION = 9
TIMEOUT_MS = 5_000


class Coordinator:
    """Tree, sessions and log of a coordinator that has no sockets."""

    def __init__(self, volume: Volume) -> None:
        self.tree: DataTree[str] = DataTree()
        self.sessions: Sessions[str] = Sessions(timeout_min_ms=1_000, timeout_max_ms=40_000)
        disk = SimDisk(volume, lambda kind, path: None, lambda: 0)
        disk.makedirs("/zk")
        self.log = WriteAheadLog(disk, "/zk", fsync=True)
        recover(self.log, self.tree, self.sessions, 0)

    def begin_session(self) -> None:
        zxid = self.tree.last_zxid + 1
        self.sessions.open(SESSION, b"p" * 16, TIMEOUT_MS, 0)
        self.tree.last_zxid = zxid
        self.log.append(zxid, 1, SESSION, OpCode.CREATE_SESSION, INT.pack(TIMEOUT_MS) + encode_buffer(b"p" * 16))
        self.log.commit()

    def commit(self, *operations: Create | SetData) -> None:
        for operation in operations:
            zxid = self.tree.last_zxid + 1
            self.tree.write(operation, SESSION, (), zxid, zxid)
            assert self.tree.last_zxid == zxid
            self.log.append(zxid, zxid, SESSION, operation.op_code, operation.encode())
        self.log.commit()

    def state(self) -> bytes:
        return encode_snapshot(self.tree, self.sessions)


class Template(NamedTuple):
    volume: Volume
    states: list[bytes]
    """As it was when the last log began, and after each commit in it."""


@cache
def template() -> Template:
    """Two snapshots with their logs, and a log that goes on behind them."""
    volume = Volume()
    first = Coordinator(volume)
    first.begin_session()
    first.commit(Create("/a", b"1"), Create("/a/e", b"", ephemeral=True))
    first.log.close()
    second = Coordinator(volume)
    second.commit(SetData("/a", b"2", 0), Create("/a/s-", b"x", sequential=True))
    second.log.close()
    third = Coordinator(volume)
    states = [third.state()]
    for operations in ((Create("/b", b"3"),), (Create("/b/c", b"4" * 40), SetData("/a", b"5", 1))):
        third.commit(*operations)
        states.append(third.state())
    third.log.close()
    return Template(volume, states)


def names(volume: Volume) -> list[str]:
    return SimDisk(volume, lambda kind, path: None, lambda: 0).listdir("/zk")


def test_a_start_over_undamaged_files_has_everything() -> None:
    assert Coordinator(copy.deepcopy(template().volume)).state() == template().states[-1]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data(), how_many=st.integers(1, 2))
def test_nothing_acknowledged_is_lost_in_silence(data: st.DataObject, how_many: int) -> None:
    volume = copy.deepcopy(template().volume)
    disk = SimDisk(volume, lambda kind, path: None, lambda: 0)
    files = names(volume)
    last_log = max(name for name in files if name.startswith("log."))
    hit = [data.draw(st.sampled_from(files)) for _ in range(how_many)]
    for name in hit:
        disk.replace(f"/zk/{name}", data.draw(mutated(disk.read(f"/zk/{name}").rstrip(b"\0"))))
    try:
        found = Coordinator(volume).state()
    except CorruptState:
        return
    # Damage at the end of the last log looks as a torn batch does, which nobody was told of.
    assert found in (template().states if last_log in hit else template().states[-1:])


def test_the_only_snapshot_may_be_damaged_while_the_log_before_it_is_kept() -> None:
    volume = Volume()
    first = Coordinator(volume)
    first.begin_session()
    first.commit(Create("/a", b"1"))
    first.log.close()
    Coordinator(volume).log.close()
    (snapshot,) = (name for name in names(volume) if name.startswith("snapshot."))
    SimDisk(volume, lambda kind, path: None, lambda: 0).replace(f"/zk/{snapshot}", b"damaged")
    assert Coordinator(volume).state() == first.state()


@pytest.mark.parametrize("gone", [False, True], ids=["damaged", "gone"])
def test_a_snapshot_that_nothing_else_leads_to_is_missed_also_where_the_log_behind_it_is_empty(gone: bool) -> None:
    volume = Volume()
    only = Coordinator(volume)
    only.begin_session()
    only.commit(Create("/a", b"1"))
    only.log.close()
    Coordinator(volume).log.close()
    disk = SimDisk(volume, lambda kind, path: None, lambda: 0)
    (snapshot,) = (name for name in names(volume) if name.startswith("snapshot."))
    for name in names(volume):
        if name == "log.0000000000000001":
            disk.remove(f"/zk/{name}")
    if gone:
        disk.remove(f"/zk/{snapshot}")
    else:
        disk.replace(f"/zk/{snapshot}", b"BNBSSNP1 damaged")
    with pytest.raises(CorruptState, match=r"had transactions up to 0x2, .* ends with 0x0"):
        Coordinator(volume)


def test_a_log_whose_first_bytes_are_gone_is_not_taken_for_an_empty_one() -> None:
    volume = Volume()
    only = Coordinator(volume)
    only.begin_session()
    only.log.close()
    disk = SimDisk(volume, lambda kind, path: None, lambda: 0)
    data = disk.read("/zk/log.0000000000000001")
    disk.replace("/zk/log.0000000000000001", bytes(8) + data[8:])
    with pytest.raises(CorruptState, match="not a log of this coordinator"):
        Coordinator(volume)
