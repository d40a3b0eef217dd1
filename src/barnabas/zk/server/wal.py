"""The coordinator's state on disk: a write-ahead log of transactions, and snapshots.

A log file ``log.<zxid>`` begins with a magic number and contains batches. A batch is the group commit of one `commit`,
forced to disk with one fsync. Its head has its position in the file, its length and its CRC; then come its transactions
(length, zxid, wall clock, session, op code, the operation's own record). A batch counts as a whole or not at all. Each
transaction takes the next zxid, so a gap is a loss. The file grows in steps, with zeros, so that a commit does not
change the file's size, which would cost the disk a second write.

A snapshot ``snapshot.<zxid>`` has tree and sessions exactly as they were after that transaction; it is made while
nothing else runs. After it a new log file begins. Recovery loads the newest whole snapshot and repeats the transactions
after it. It stops at a torn batch: no client was told of it, since the answer waits for the fsync. If another batch
follows a torn one, the cause is not a power loss, since the later batch was only written after the earlier one was
safe: the file is damaged, and recovery refuses. Recovery writes its result as a new snapshot, since a log that can be
read may still not be safe (a failed fsync leaves it in the page cache); so no log is ever written by two processes.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from itertools import pairwise
from struct import Struct
from typing import Final, NamedTuple
from zlib import crc32

from barnabas.runtime.doors import Disk, File

logger = logging.getLogger(__name__)

_LOG_MAGIC: Final = b"BNBSLOG2"
_SNAPSHOT_MAGIC: Final = b"BNBSSNP1"
_SAFE_BATCH: Final = b"\xbaTCH"
_UNSAFE_BATCH: Final = b"\xbatch"
"""The mark of a batch written without fsync: such batches may reach the disk in any order."""
_BATCH_HEAD: Final = Struct(">4sIqI")  # magic, CRC-32 of all that follows, position in the file, length of the body
_BATCH_PLACE: Final = Struct(">qI")
_TRANSACTION: Final = Struct(">Iqqqi")  # length of the record, zxid, wall clock, session id, op code
_SNAPSHOT_HEAD: Final = Struct(">8sQIq")  # magic, length of the body, its CRC-32, zxid
SNAPSHOTS_KEPT: Final = 3
ALLOCATED_AHEAD: Final = 256 * 1024


class CorruptState(ValueError):
    """The files are damaged, and starting from them could lose acknowledged writes."""


class LoggedTransaction(NamedTuple):
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


def _batch_end(data: bytes, position: int) -> int | None:
    """Where the batch at `position` ends; None if there is no whole batch."""
    start = position + _BATCH_HEAD.size
    if start > len(data):
        return None
    magic, checksum, own_position, length = _BATCH_HEAD.unpack_from(data, position)
    end: int = start + length
    if magic not in (_SAFE_BATCH, _UNSAFE_BATCH) or own_position != position or end > len(data):
        return None
    return end if crc32(memoryview(data)[position + 8 : end]) == checksum else None


def decode_batches(data: bytes, position: int) -> Iterator[tuple[LoggedTransaction, int]]:
    """The transactions of the whole batches from `position` on, each with the position behind its batch.

    Ends before the first incomplete batch. Raises `CorruptState` for a whole batch with invalid content.
    """
    while (end := _batch_end(data, position)) is not None:
        at = position + _BATCH_HEAD.size
        while at < end:
            if end - at < _TRANSACTION.size:
                raise CorruptState(f"a batch with a right checksum ends inside a transaction, at byte {at}")
            length, zxid, time_ms, session_id, op_code = _TRANSACTION.unpack_from(data, at)
            at += _TRANSACTION.size
            if length > end - at:
                raise CorruptState(f"a transaction of {length} bytes reaches beyond its batch, at byte {at}")
            yield LoggedTransaction(zxid, time_ms, session_id, op_code, data[at : at + length]), end
            at += length
        position = end


def _has_safe_batch(data: bytes, position: int) -> bool:
    """Whether a batch written after an fsync stands anywhere after `position`."""
    while (position := data.find(_SAFE_BATCH, position + 1)) != -1:
        if _batch_end(data, position) is not None:
            return True
    return False


class WriteAheadLog:
    def __init__(self, disk: Disk, directory: str, *, fsync: bool, snapshots_kept: int = SNAPSHOTS_KEPT) -> None:
        self._disk = disk
        self._directory = directory
        self._fsync = fsync
        self._snapshots_kept = snapshots_kept
        self._magic = _SAFE_BATCH if fsync else _UNSAFE_BATCH
        self._file: File | None = None
        self._position = 0
        self._allocated = 0
        self._pending: list[bytes] = []
        self._pending_count = 0
        self.appended_since_snapshot = 0
        self.commits = 0

    # -- Recovery ------------------------------------------------------------------------------------------------------

    def recover(self) -> tuple[int, bytes | None, list[LoggedTransaction]]:
        """The newest intact snapshot (its zxid and body; 0 and None without one), and the transactions after it.

        Only reads; `save_snapshot` or `begin` then make the log ready to append. Raises `CorruptState`.
        """
        disk, directory = self._disk, self._directory
        names = disk.listdir(directory)
        snapshot_zxid, body = self._newest_snapshot(_zxids(names, "snapshot"))
        logs = _zxids(names, "log")
        # The next transaction is in the last log that begins at or before it; the later logs have those that follow.
        begin = max((index for index, zxid in enumerate(logs) if zxid <= snapshot_zxid + 1), default=0)
        last_zxid = snapshot_zxid
        transactions: list[LoggedTransaction] = []
        for log_zxid in logs[begin:]:
            last_zxid = self._replay(log_zxid, last_zxid, transactions)
        # Snapshots and new logs are begun only after a commit: their names tell which zxid was safe at least.
        known_zxid = max([0, *_zxids(names, "snapshot"), *(zxid - 1 for zxid in logs)])
        if last_zxid < known_zxid:
            raise CorruptState(
                f"{directory} had transactions up to {known_zxid:#x}, and what can be read of it ends with "
                f"{last_zxid:#x}: a log or snapshot is missing or damaged. Restore {directory} from a backup."
            )
        for name in names:
            if name.endswith(".tmp"):
                disk.remove(f"{directory}/{name}")
        return snapshot_zxid, body, transactions

    def _newest_snapshot(self, zxids: list[int]) -> tuple[int, bytes | None]:
        for zxid in reversed(zxids):
            path = f"{self._directory}/{_snapshot_name(zxid)}"
            data = self._disk.read(path)
            if len(data) >= _SNAPSHOT_HEAD.size:
                magic, length, checksum, own_zxid = _SNAPSHOT_HEAD.unpack_from(data)
                body = data[_SNAPSHOT_HEAD.size :]
                if magic == _SNAPSHOT_MAGIC and length == len(body) and crc32(body) == checksum and own_zxid == zxid:
                    return zxid, body
            logger.warning("the snapshot %s is damaged; an older one is taken", path)
        return 0, None

    def _replay(self, log_zxid: int, last_zxid: int, transactions: list[LoggedTransaction]) -> int:
        """Reads one log file. Returns the last zxid read so far."""
        path = f"{self._directory}/{_log_name(log_zxid)}"
        data = self._disk.read(path)
        position = len(_LOG_MAGIC)
        if not data.startswith(_LOG_MAGIC):
            foreign = any(data[:position]) and not _LOG_MAGIC.startswith(data[:position].rstrip(b"\0"))
            if foreign or _has_safe_batch(data, position - 1):
                raise CorruptState(f"{path} is not a log of this coordinator, or of another version of it, or damaged.")
            return last_zxid
        for transaction, end in decode_batches(data, position):
            if transaction.zxid > last_zxid:
                if transaction.zxid != last_zxid + 1:
                    raise CorruptState(
                        f"{path} goes on with transaction {transaction.zxid:#x} after {last_zxid:#x}: a log or "
                        f"snapshot between them is missing or damaged. Restore {self._directory} from a backup."
                    )
                transactions.append(transaction)
                last_zxid = transaction.zxid
            position = end
        torn = len(data[position:].rstrip(b"\0"))
        if torn:
            if _has_safe_batch(data, position):
                raise CorruptState(
                    f"{path} is damaged at byte {position}, behind transaction {last_zxid:#x}, in the middle of what "
                    f"was safe on the disk. Restore {self._directory} from a backup."
                )
            logger.info("%s: %d bytes after transaction %#x are torn; nobody was told of them", path, torn, last_zxid)
        return last_zxid

    def begin(self, zxid: int) -> None:
        """Begins a log file, whose first transaction will be `zxid`."""
        file = self._disk.open(f"{self._directory}/{_log_name(zxid)}", create=True)
        file.truncate(0)
        file.pwrite(_LOG_MAGIC, 0)
        if self._fsync:
            file.fsync()
            self._disk.fsync_dir(self._directory)
        self.close()
        self._file = file
        self._position = self._allocated = len(_LOG_MAGIC)

    # -- Appending -----------------------------------------------------------------------------------------------------

    def append(self, zxid: int, time_ms: int, session_id: int, op_code: int, record: bytes) -> None:
        """Adds the transaction; it is safe after the next `commit`."""
        self._pending.append(_TRANSACTION.pack(len(record), zxid, time_ms, session_id, op_code))
        self._pending.append(record)
        self._pending_count += 1

    def commit(self) -> None:
        """Writes appended transactions and, unless fsync is off, forces them to disk. An ``OSError`` here is final."""
        if not self._pending:
            return
        assert self._file is not None, "the log is not open"
        body = b"".join(self._pending)
        place = _BATCH_PLACE.pack(self._position, len(body))
        checksum = crc32(body, crc32(place))
        data = b"".join((self._magic, checksum.to_bytes(4, "big"), place, body))
        end = self._position + len(data)
        if self._fsync and end > self._allocated:
            allocated = end + ALLOCATED_AHEAD
            self._file.pwrite(bytes(allocated - self._allocated), self._allocated)
            self._allocated = allocated
        self._file.pwrite(data, self._position)
        if self._fsync:
            self._file.fsync()
        self._position = end
        self.appended_since_snapshot += self._pending_count
        self._pending.clear()
        self._pending_count = 0
        self.commits += 1

    @property
    def log_bytes(self) -> int:
        """Length of the current log file's content."""
        return self._position

    def save_snapshot(self, zxid: int, body: bytes) -> None:
        """Saves the state after `zxid`, begins a new log, and removes the oldest snapshots and the logs before them."""
        assert not self._pending, "a snapshot must not contain what is not committed"
        disk, directory = self._disk, self._directory
        head = _SNAPSHOT_HEAD.pack(_SNAPSHOT_MAGIC, len(body), crc32(body), zxid)
        disk.replace(f"{directory}/{_snapshot_name(zxid)}", head + body)
        self.begin(zxid + 1)
        self.appended_since_snapshot = 0
        names = disk.listdir(directory)
        kept = _zxids(names, "snapshot")[-self._snapshots_kept :]
        for old in _zxids(names, "snapshot"):
            if old < kept[0]:
                disk.remove(f"{directory}/{_snapshot_name(old)}")
        # With fewer snapshots than are to be kept, every log stays: recovery may fall back to the first one.
        fallback = kept[0] if len(kept) == self._snapshots_kept else 0
        logs = _zxids(names, "log")
        for old, following in pairwise(logs):
            if following <= fallback + 1:
                disk.remove(f"{directory}/{_log_name(old)}")

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
