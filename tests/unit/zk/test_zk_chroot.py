"""Operations below a chroot, and what their answers become."""

from __future__ import annotations

import pytest

from barnabas.zk.client.chroot import absolute, below, outcome, relative
from barnabas.zk.protocol.data import Stat
from barnabas.zk.protocol.errors import NoNode, ZkErrorCode, error_of
from barnabas.zk.protocol.frames import REPLY_HEADER_SIZE
from barnabas.zk.protocol.ops import Create, Delete, Exists, GetChildren, Multi

STAT = Stat(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)


def packet(record: bytes) -> bytes:
    return bytes(REPLY_HEADER_SIZE) + record


@pytest.mark.parametrize("chroot", ["", "/kafka", "/a/b"])
@pytest.mark.parametrize("path", ["/", "/brokers", "/brokers/ids"])
def test_a_path_comes_back_as_it_was(chroot: str, path: str) -> None:
    assert relative(absolute(path, chroot), chroot) == path


def test_a_multi_is_moved_part_by_part_and_the_original_stays() -> None:
    multi = Multi([Create("/a"), Delete("/b")])
    assert [part.path for part in below(multi, "/c").operations] == ["/c/a", "/c/b"]
    assert [part.path for part in multi.operations] == ["/a", "/b"]


def test_a_missing_znode_is_no_error_to_exists_alone() -> None:
    assert outcome(Exists("/a"), ZkErrorCode.NO_NODE, packet(b""), "") == (None, None)
    result, error = outcome(GetChildren("/a"), ZkErrorCode.NO_NODE, packet(b""), "")
    assert (result, error) == (None, NoNode("/a"))


def test_made_paths_lose_the_chroot() -> None:
    create = Create("/a-", sequential=True)
    assert outcome(create, 0, packet(create.encode_result("/kafka/a-0000000001")), "/kafka") == ("/a-0000000001", None)


def test_a_failed_multi_is_the_error_of_the_part_that_failed() -> None:
    multi = Multi([Create("/a"), Delete("/b"), Create("/c")])
    codes = (ZkErrorCode.OK, ZkErrorCode.NO_NODE, ZkErrorCode.RUNTIME_INCONSISTENCY)
    record = multi.encode_result([error_of(code, None) for code in codes])
    _, error = outcome(multi, 0, packet(record), "")
    assert error is not None
    assert (error, error.op_index) == (NoNode("/b"), 1)
