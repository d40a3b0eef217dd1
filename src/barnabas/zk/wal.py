"""The coordinator's memory on disk: a write-ahead log of transactions, and snapshots of everything.

A log file ``log.<zxid>`` begins with a magic number and holds records: length, CRC-32C, and the payload (zxid, wall
clock, session, op code, the operation's own record). Each transaction takes the next zxid, so a gap is a loss. Records
are collected by `append` and written by `commit` with one fsync for all of them: the group commit.

A snapshot ``snapshot.<zxid>`` holds tree and sessions exactly as they were after that transaction, made while nothing
else runs. After it a new log file begins. Recovery takes the newest snapshot that is whole and does again what the logs
have after it. It stops at the first record that is torn: nobody was told that one was done, since the answer waits for
the commit.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from itertools import pairwise
from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

from barnabas.runtime.doors import Disk, File

logger = logging.getLogger(__name__)

_LOG_MAGIC: Final = b"BNBSLOG1"
_SNAPSHOT_MAGIC: Final = b"BNBSSNP1"
_HEAD: Final = Struct(">II")  # length of the payload, its CRC-32C
_TRANSACTION: Final = Struct(">qqqi")  # zxid, wall clock, session id, op code
_SNAPSHOT_HEAD: Final = Struct(">8sQIq")  # magic, length of the body, its CRC-32C, zxid
SNAPSHOTS_KEPT: Final = 3


class CorruptState(Exception):
    """The files are not a state anyone was told of, and starting from them could lose what was acknowledged."""


class Transaction(NamedTuple):
    zxid: int
    time_ms: int
    session_id: int
    op_code: int
    record: bytes


def _log_name(zxid: int) -> str:
    return f"log.{zxid:016x}"


def _snapshot_name(zxid: int) -> str:
    return f"snapshot.{zxid:016x}"


def _zxids(names: list[str], kind: str) -> list[int]:
    """The zxids of the files of this kind, ascending."""
    found = []
    for name in names:
        stem, _, digits = name.partition(".")
        if stem == kind and len(digits) == 16 and all(digit in "0123456789abcdef" for digit in digits):
            found.append(int(digits, 16))
    return sorted(found)


def decode_records(data: bytes, position: int) -> Iterator[tuple[Transaction, int]]:
    """The whole records from `position` on, each with the position behind it; ends before the first torn one."""
    while position + 8 <= len(data):
        length, checksum = _HEAD.unpack_from(data, position)
        start = position + 8
        end = start + length
        if length < _TRANSACTION.size or end > len(data):
            return
        payload = data[start:end]
        if crc32c(payload) != checksum:
            return
        zxid, time_ms, session_id, op_code = _TRANSACTION.unpack_from(payload)
        yield Transaction(zxid, time_ms, session_id, op_code, payload[_TRANSACTION.size :]), end
        position = end


class WriteAheadLog:
    """`snapshot_zxid` and `snapshot` are what `open` found; `transactions` is what came after."""

    def __init__(self, disk: Disk, directory: str, *, fsync: bool) -> None:
        self._disk = disk
        self._directory = directory
        self._fsync = fsync
        self._file: File | None = None
        self._position = 0
        self._pending: list[bytes] = []
        self.appended_since_snapshot = 0
        self.commits = 0

    # -- Recovery ------------------------------------------------------------------------------------------------------

    def recover(self) -> tuple[int, bytes | None, list[Transaction]]:
        """The newest whole snapshot (its zxid and body; 0 and None without one), and the transactions after it.

        Opens the log for appending behind the last whole record; what is torn after it is cut off.
        """
        disk, directory = self._disk, self._directory
        names = disk.listdir(directory)
        for name in names:
            if name.endswith(".tmp"):
                disk.remove(f"{directory}/{name}")
        snapshot_zxid, body = self._newest_snapshot(_zxids(names, "snapshot"))
        logs = _zxids(names, "log")
        # The last log that begins at or before the transaction after the snapshot holds it, and those behind follow.
        begin = max((index for index, zxid in enumerate(logs) if zxid <= snapshot_zxid + 1), default=0)
        last_zxid = snapshot_zxid
        transactions: list[Transaction] = []
        for index in range(begin, len(logs)):
            last_zxid = self._replay(logs[index], index == len(logs) - 1, last_zxid, transactions)
        if not logs:
            self._begin_log(last_zxid + 1)
        self.appended_since_snapshot = len(transactions)
        return snapshot_zxid, body, transactions

    def _newest_snapshot(self, zxids: list[int]) -> tuple[int, bytes | None]:
        for zxid in reversed(zxids):
            path = f"{self._directory}/{_snapshot_name(zxid)}"
            data = self._disk.read(path)
            if len(data) >= _SNAPSHOT_HEAD.size:
                magic, length, checksum, own_zxid = _SNAPSHOT_HEAD.unpack_from(data)
                body = data[_SNAPSHOT_HEAD.size :]
                if magic == _SNAPSHOT_MAGIC and length == len(body) and crc32c(body) == checksum and own_zxid == zxid:
                    return zxid, body
            logger.warning("the snapshot %s is damaged; an older one is taken", path)
        return 0, None

    def _replay(self, log_zxid: int, is_last: bool, last_zxid: int, transactions: list[Transaction]) -> int:
        """Reads one log file; the last one is opened for appending. Returns the last zxid known then."""
        path = f"{self._directory}/{_log_name(log_zxid)}"
        data = self._disk.read(path)
        position = 0
        if data.startswith(_LOG_MAGIC):
            position = len(_LOG_MAGIC)
            for transaction, end in decode_records(data, position):
                if transaction.zxid > last_zxid:
                    if transaction.zxid != last_zxid + 1:
                        raise CorruptState(
                            f"{path} goes on with transaction {transaction.zxid:#x} after {last_zxid:#x}: a log or "
                            f"snapshot between them is missing or damaged. Restore {self._directory} from a backup."
                        )
                    transactions.append(transaction)
                    last_zxid = transaction.zxid
                position = end
        elif len(data) > len(_LOG_MAGIC) and any(data) and not _LOG_MAGIC.startswith(data[:8].rstrip(b"\0")):
            raise CorruptState(f"{path} is not a log of this coordinator.")
        if not is_last:
            return last_zxid
        if position < len(data):
            logger.info(
                "%s: %d bytes after transaction %#x are torn and cut off", path, len(data) - position, last_zxid
            )
        file = self._disk.open(path)
        if position == 0:
            file.truncate(0)
            file.pwrite(_LOG_MAGIC, 0)
            position = len(_LOG_MAGIC)
        elif position < len(data):
            file.truncate(position)
        if self._fsync:
            file.fsync()
            self._disk.fsync_dir(self._directory)
        self._file = file
        self._position = position
        return last_zxid

    def _begin_log(self, zxid: int) -> None:
        file = self._disk.open(f"{self._directory}/{_log_name(zxid)}", create=True)
        file.truncate(0)
        file.pwrite(_LOG_MAGIC, 0)
        if self._fsync:
            file.fsync()
            self._disk.fsync_dir(self._directory)
        if self._file is not None:
            self._file.close()
        self._file = file
        self._position = len(_LOG_MAGIC)

    # -- Appending -----------------------------------------------------------------------------------------------------

    def append(self, zxid: int, time_ms: int, session_id: int, op_code: int, record: bytes) -> None:
        """Takes the transaction in; it is safe after the next `commit`."""
        payload = _TRANSACTION.pack(zxid, time_ms, session_id, op_code) + record
        self._pending.append(_HEAD.pack(len(payload), crc32c(payload)) + payload)

    def commit(self) -> None:
        """Writes what was appended and, unless told otherwise, forces it to disk. An ``OSError`` here is final."""
        if not self._pending:
            return
        assert self._file is not None, "the log is not open"
        data = b"".join(self._pending)
        self._file.pwrite(data, self._position)
        if self._fsync:
            self._file.fsync()
        self._position += len(data)
        self.appended_since_snapshot += len(self._pending)
        self._pending.clear()
        self.commits += 1

    @property
    def log_bytes(self) -> int:
        """Length of the current log file."""
        return self._position

    def save_snapshot(self, zxid: int, body: bytes) -> None:
        """Keeps the state after `zxid`, begins a new log, and drops the oldest snapshots and the logs before them."""
        assert not self._pending, "a snapshot must not contain what is not committed"
        disk, directory = self._disk, self._directory
        head = _SNAPSHOT_HEAD.pack(_SNAPSHOT_MAGIC, len(body), crc32c(body), zxid)
        disk.replace(f"{directory}/{_snapshot_name(zxid)}", head + body)
        self._begin_log(zxid + 1)
        self.appended_since_snapshot = 0
        names = disk.listdir(directory)
        kept = _zxids(names, "snapshot")[-SNAPSHOTS_KEPT:]
        for old in _zxids(names, "snapshot"):
            if old < kept[0]:
                disk.remove(f"{directory}/{_snapshot_name(old)}")
        logs = _zxids(names, "log")
        for old, following in pairwise(logs):
            if following <= kept[0] + 1:
                disk.remove(f"{directory}/{_log_name(old)}")

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
