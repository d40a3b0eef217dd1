from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.runtime.real import RealDisk
from barnabas.zk.protocol.data import ACL, OpCode
from barnabas.zk.protocol.ops import Create
from barnabas.zk.server.sessions import Sessions
from barnabas.zk.server.snapshot import encode_snapshot, restore_snapshot
from barnabas.zk.server.tree import DataTree
from barnabas.zk.server.wal import CorruptState, LoggedTransaction, WriteAheadLog


def read(directory: Path, *, fsync: bool = False) -> tuple[WriteAheadLog, int, bytes | None, list[LoggedTransaction]]:
    log = WriteAheadLog(RealDisk(), str(directory), fsync=fsync)
    return (log, *log.recover())


def opened(directory: Path, *, fsync: bool = False) -> tuple[WriteAheadLog, int, bytes | None, list[LoggedTransaction]]:
    """Ready to append: what was read is kept in a snapshot first, as a server does."""
    log, zxid, body, transactions = read(directory, fsync=fsync)
    last = transactions[-1].zxid if transactions else zxid
    if transactions:
        log.save_snapshot(last, b"state %d" % last)
    else:
        log.begin(last + 1)
    return log, zxid, body, transactions


def append(log: WriteAheadLog, *zxids: int) -> None:
    for zxid in zxids:
        log.append(zxid, zxid * 10, 7, OpCode.CREATE, b"record %d" % zxid)
    log.commit()


def zxids(directory: Path) -> list[int]:
    _, _, _, transactions = read(directory)
    return [transaction.zxid for transaction in transactions]


def newest_log(directory: Path) -> Path:
    return max(directory.glob("log.*"))


def test_what_was_committed_is_there_after_a_restart(tmp_path: Path) -> None:
    log, zxid, body, transactions = opened(tmp_path)
    assert (zxid, body, transactions) == (0, None, [])
    append(log, 1, 2)
    append(log, 3)
    log.close()
    log, _, _, transactions = opened(tmp_path)
    assert transactions[2] == LoggedTransaction(3, 30, 7, OpCode.CREATE, b"record 3")
    append(log, 4)
    log.close()
    _, zxid, body, transactions = read(tmp_path)
    assert (zxid, body, [each.zxid for each in transactions]) == (3, b"state 3", [4])


def test_what_was_not_committed_is_not_there(tmp_path: Path) -> None:
    log, *_ = opened(tmp_path)
    append(log, 1)
    log.append(2, 20, 7, OpCode.CREATE, b"")
    log.close()
    assert zxids(tmp_path) == [1]


def test_a_log_cut_at_any_byte_keeps_its_whole_batches_and_goes_on_from_there(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    log, *_ = opened(tmp_path / "log")
    for zxid in (1, 2, 3):
        append(log, zxid)
    log.close()
    whole = newest_log(tmp_path / "log").read_bytes()
    ends = [8 + (len(whole) - 8) // 3 * count for count in range(4)]
    for cut in range(len(whole) + 1):
        directory = tmp_path / str(cut)
        directory.mkdir()
        (directory / "log.0000000000000001").write_bytes(whole[:cut])
        log, _, _, transactions = opened(directory)
        kept = sum(1 for end in ends[1:] if end <= cut)
        assert [transaction.zxid for transaction in transactions] == list(range(1, kept + 1))
        append(log, kept + 1)
        log.close()
        assert zxids(directory) == [kept + 1]


def test_the_transactions_of_one_commit_are_there_together_or_not_at_all(tmp_path: Path) -> None:
    log, *_ = opened(tmp_path)
    append(log, 1)
    append(log, 2, 3, 4)
    log.close()
    path = newest_log(tmp_path)
    whole = path.read_bytes()
    for cut in range(len(whole) - 100, len(whole)):
        path.write_bytes(whole[:cut])
        assert zxids(tmp_path) == [1]


@pytest.mark.parametrize("tail", [bytes(64), b"\xff" * 64, b"\0\0\0\x20" + b"x" * 60])
def test_rubbish_behind_the_last_batch_is_passed_over(tmp_path: Path, tail: bytes) -> None:
    log, *_ = opened(tmp_path)
    append(log, 1, 2)
    log.close()
    path = newest_log(tmp_path)
    path.write_bytes(path.read_bytes() + tail)
    assert zxids(tmp_path) == [1, 2]


def test_a_flipped_bit_in_the_last_batch_ends_the_log_before_it(tmp_path: Path) -> None:
    log, *_ = opened(tmp_path, fsync=True)
    append(log, 1)
    append(log, 2)
    log.close()
    path = newest_log(tmp_path)
    data = bytearray(path.read_bytes().rstrip(b"\0"))
    data[-1] ^= 1
    path.write_bytes(data)
    assert zxids(tmp_path) == [1]


def test_a_flipped_bit_before_what_was_safe_is_refused(tmp_path: Path) -> None:
    log, *_ = opened(tmp_path, fsync=True)
    for zxid in (1, 2, 3):
        append(log, zxid)
    log.close()
    path = newest_log(tmp_path)
    data = bytearray(path.read_bytes())
    data[data.index(b"record 2")] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptState, match="is damaged at byte"):
        read(tmp_path)


def test_without_fsync_batches_may_be_torn_anywhere_after_a_power_loss(tmp_path: Path) -> None:
    log, *_ = opened(tmp_path, fsync=False)
    for zxid in (1, 2, 3):
        append(log, zxid)
    log.close()
    path = newest_log(tmp_path)
    data = bytearray(path.read_bytes())
    data[data.index(b"record 2")] ^= 1
    path.write_bytes(data)
    assert zxids(tmp_path) == [1]


def test_a_log_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "log.0000000000000001").write_bytes(b"ZKLG" + bytes(60))
    with pytest.raises(CorruptState, match="not a log of this coordinator"):
        read(tmp_path)


def test_a_snapshot_stands_for_the_transactions_before_it(tmp_path: Path) -> None:
    log, *_ = opened(tmp_path)
    append(log, 1, 2)
    log.save_snapshot(2, b"state")
    append(log, 3)
    log.close()
    _, zxid, body, transactions = read(tmp_path)
    assert (zxid, body, [transaction.zxid for transaction in transactions]) == (2, b"state", [3])


def test_a_damaged_snapshot_gives_way_to_the_one_before_and_its_logs(tmp_path: Path) -> None:
    log, *_ = opened(tmp_path)
    append(log, 1)
    log.save_snapshot(1, b"first")
    append(log, 2)
    log.save_snapshot(2, b"second")
    append(log, 3)
    log.close()
    newest = max(tmp_path.glob("snapshot.*"))
    newest.write_bytes(newest.read_bytes()[:-1] + b"?")
    _, zxid, body, transactions = read(tmp_path)
    assert (zxid, body, [transaction.zxid for transaction in transactions]) == (1, b"first", [2, 3])


def test_a_missing_log_is_refused_and_not_skipped(tmp_path: Path) -> None:
    log, *_ = opened(tmp_path)
    append(log, 1)
    log.save_snapshot(1, b"first")
    append(log, 2)
    log.save_snapshot(2, b"second")
    append(log, 3)
    log.close()
    max(tmp_path.glob("snapshot.*")).unlink()
    (tmp_path / "log.0000000000000002").unlink()
    with pytest.raises(CorruptState, match="missing or damaged"):
        read(tmp_path)


def test_old_snapshots_and_the_logs_before_them_are_dropped(tmp_path: Path) -> None:
    log, *_ = opened(tmp_path)
    for zxid in range(1, 8):
        append(log, zxid)
        log.save_snapshot(zxid, b"state %d" % zxid)
    log.close()
    names = sorted(path.name.partition(".")[2].lstrip("0") for path in tmp_path.iterdir())
    assert names == ["5", "6", "6", "7", "7", "8"]


def test_a_snapshot_gives_back_every_stat_owner_acl_and_session() -> None:
    tree: DataTree[str] = DataTree()
    sessions: Sessions[str] = Sessions(timeout_min_ms=1_000, timeout_max_ms=40_000)
    sessions.open(9, b"p" * 16, 5_000, 0)
    made = (
        Create("/a", None),
        Create("/a/e", b"", ephemeral=True, acl=(ACL(1, "world", "anyone"),)),
        Create("/c", b"\xff", container=True),
        Create("/a/s-", b"x", sequential=True),
    )
    for zxid, operation in enumerate(made, 1):
        tree.write(operation, 9, (), zxid, zxid)
    body = encode_snapshot(tree, sessions)
    restored: DataTree[str] = DataTree()
    again: Sessions[str] = Sessions(timeout_min_ms=1_000, timeout_max_ms=40_000)
    restore_snapshot(body, restored, again, 100)

    def seen(of: DataTree[str]) -> list[object]:
        return [(path, node.data, node.acl, node.stat(), list(node.children)) for path, node in of.nodes.items()]

    assert seen(restored) == seen(tree)
    assert (restored.ephemerals, restored.containers) == (tree.ephemerals, tree.containers)
    assert (restored.last_zxid, restored.data_bytes) == (tree.last_zxid, tree.data_bytes)
    assert (again.live[9].password, again.live[9].expires_ms, again.last_id) == (b"p" * 16, 5_100, 9)
    assert encode_snapshot(restored, again) == body
