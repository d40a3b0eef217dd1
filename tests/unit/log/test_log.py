from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path
from struct import pack, pack_into
from zlib import crc32

import pytest
from log_worlds import DISK, NOW, append, batch, idempotent, marker, open_log, values

from barnabas.log.log import AppendOrigin, Log, UnexpectedAppendOffset
from barnabas.log.log_dir import LogDirFailure
from barnabas.log.results import TimestampOffset
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import Uuid
from barnabas.wire.records import ControlType, parse_header


def refused(log: Log, records: bytearray, **options: object) -> ErrorCode:
    before = log.log_end_offset, log.size
    with pytest.raises(KafkaError) as caught:
        log.append_as_leader(records, 0, now_ms=NOW, **options)  # type: ignore[arg-type]
    assert (log.log_end_offset, log.size) == before
    return caught.value.code


# Appending and reading


def test_offsets_are_given_in_the_order_of_appends(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    assert append(log, "a", "b") == 0
    assert append(log, "c") == 2
    assert log.log_end_offset == 3
    assert values(log) == [(0, "a"), (1, "b"), (2, "c")]


def test_the_leader_stamps_offset_and_epoch_into_the_batch(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, "a", epoch=3)
    append(log, "b", epoch=5)
    header = parse_header(log.read(1, 1000))
    assert (header.base_offset, header.partition_leader_epoch) == (1, 5)
    assert [tuple(entry) for entry in log.leader_epochs.entries] == [(3, 0), (5, 1)]


def test_a_read_ends_before_its_bound(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for value in "abc":
        append(log, value)
    assert values(log, 0, 2) == [(0, "a"), (1, "b")]
    assert log.read(2, 1000, bound=2) == b""


def test_a_read_returns_one_batch_even_where_it_is_larger_than_asked(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, "x" * 500)
    append(log, "y")
    assert len(log.read(0, 1)) == len(batch(["x" * 500]))
    assert log.read(0, 1, min_one_batch=False) == b""


def test_reads_outside_the_log_are_out_of_range(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, "a")
    for offset in (-1, 2):
        with pytest.raises(KafkaError) as caught:
            log.read(offset, 100)
        assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert log.read(1, 100) == b""


def test_segments_roll_by_size_and_are_read_across(tmp_path: Path) -> None:
    log = open_log(tmp_path, config={"segment.bytes": "400"})
    expected = [(append(log, f"value {i}"), f"value {i}") for i in range(40)]
    assert len(log.segments) > 5
    assert values(log) == expected


def test_segments_roll_by_the_age_of_their_first_record(tmp_path: Path) -> None:
    log = open_log(tmp_path, config={"segment.ms": "1000"})
    append(log, "a")
    append(log, "b", timestamp=NOW + 900)
    assert len(log.segments) == 1
    append(log, "c", timestamp=NOW + 1100)
    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_segments_roll_when_the_index_is_full(tmp_path: Path) -> None:
    log = open_log(tmp_path, config={"segment.index.bytes": "36", "index.interval.bytes": "0"})
    for i in range(12):
        append(log, str(i), timestamp=NOW + i)
    assert len(log.segments) > 2
    assert [value for _, value in values(log)] == [str(i) for i in range(12)]


def test_every_offset_is_found_through_the_index(tmp_path: Path) -> None:
    log = open_log(tmp_path, config={"index.interval.bytes": "200"})
    for i in range(3000):
        append(log, f"{i}")
    assert log.active_segment.offset_index.entries > 100
    for offset in range(0, 3000, 37):
        assert parse_header(log.read(offset, 100)).base_offset == offset


# What a leader refuses


def test_a_wrong_crc_is_refused(tmp_path: Path) -> None:
    records = batch(["a"])
    records[-1] ^= 1
    assert refused(open_log(tmp_path), records) is ErrorCode.CORRUPT_MESSAGE


def test_a_batch_larger_than_max_message_bytes_is_refused(tmp_path: Path) -> None:
    log = open_log(tmp_path, config={"max.message.bytes": "200"})
    assert refused(log, batch(["x" * 300])) is ErrorCode.MESSAGE_TOO_LARGE


def test_a_batch_larger_than_a_segment_is_refused(tmp_path: Path) -> None:
    log = open_log(tmp_path, config={"segment.bytes": "200"})
    assert refused(log, batch(["x" * 300])) is ErrorCode.RECORD_LIST_TOO_LARGE


def test_two_batches_at_once_are_refused(tmp_path: Path) -> None:
    assert refused(open_log(tmp_path), batch(["a"]) + batch(["b"])) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("length", [0, 1, 11, 16, 60, 70])
def test_a_piece_of_a_batch_is_refused(tmp_path: Path, length: int) -> None:
    assert refused(open_log(tmp_path), batch(["abc"])[:length]) in (
        ErrorCode.INVALID_RECORD,
        ErrorCode.CORRUPT_MESSAGE,
    )


def test_clients_write_no_control_batches(tmp_path: Path) -> None:
    assert refused(open_log(tmp_path), marker(ControlType.COMMIT)) is ErrorCode.INVALID_RECORD


def test_a_base_offset_from_a_client_is_refused(tmp_path: Path) -> None:
    records = batch(["a"])
    pack_into(">q", records, 0, 4)
    assert refused(open_log(tmp_path), records) is ErrorCode.INVALID_RECORD


def test_timestamps_beyond_the_bound_are_refused(tmp_path: Path) -> None:
    log = open_log(tmp_path, config={"message.timestamp.after.max.ms": "1000"})
    assert refused(log, batch(["a"], timestamp=NOW + 2000)) is ErrorCode.INVALID_TIMESTAMP
    append(log, "a", timestamp=NOW + 500)


def test_a_compacted_topic_wants_keys(tmp_path: Path) -> None:
    log = open_log(tmp_path, config={"cleanup.policy": "compact"})
    assert refused(log, batch(["a"], key=None)) is ErrorCode.INVALID_RECORD
    append(log, "a")


def test_log_append_time_replaces_the_clients_timestamp(tmp_path: Path) -> None:
    log = open_log(tmp_path, config={"message.timestamp.type": "LogAppendTime"})
    info = log.append_as_leader(batch(["a"], timestamp=5), 0, now_ms=NOW)
    assert info.log_append_time == NOW
    header = parse_header(log.read(0, 1000))
    assert (header.max_timestamp, header.timestamp_type) == (NOW, 1)
    log.close_files()
    assert open_log(tmp_path, clean=False).log_end_offset == 1, "the CRC is that of the stamped batch"


def test_a_topics_own_compression_replaces_the_clients(tmp_path: Path) -> None:
    log = open_log(tmp_path, config={"compression.type": "zstd"})
    append(log, "a" * 500, "b" * 500)
    assert parse_header(log.read(0, 10_000)).compression.name == "ZSTD"
    assert values(log) == [(0, "a" * 500), (1, "b" * 500)]


# Idempotent producers


def test_a_repeated_batch_gets_its_first_offset_and_is_not_written(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for sequence in range(6):
        log.append_as_leader(idempotent([str(sequence)], sequence), 0, now_ms=NOW)
    again = log.append_as_leader(idempotent(["3"], 3), 0, now_ms=NOW)
    assert (again.first_offset, again.last_offset, again.duplicate) == (3, 3, True)
    assert log.log_end_offset == 6


def test_only_five_batches_are_remembered(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for sequence in range(6):
        log.append_as_leader(idempotent([str(sequence)], sequence), 0, now_ms=NOW)
    assert refused(log, idempotent(["0"], 0)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_gap_in_the_sequence_is_refused(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.append_as_leader(idempotent(["a", "b"], 0), 0, now_ms=NOW)
    assert refused(log, idempotent(["d"], 3)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    log.append_as_leader(idempotent(["c"], 2), 0, now_ms=NOW)


def test_the_sequence_wraps(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.append_as_leader(idempotent(["a", "b"], 2**31 - 2), 0, now_ms=NOW)
    log.append_as_leader(idempotent(["c"], 0), 0, now_ms=NOW)
    assert log.log_end_offset == 3


def test_a_new_epoch_begins_at_sequence_zero_and_fences_the_old_one(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.append_as_leader(idempotent(["a"], 0), 0, now_ms=NOW)
    assert refused(log, idempotent(["b"], 1, epoch=1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    log.append_as_leader(idempotent(["b"], 0, epoch=1), 0, now_ms=NOW)
    assert refused(log, idempotent(["c"], 1)) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_producers_are_known_again_after_a_restart(tmp_path: Path) -> None:
    for clean in (True, False):
        log = open_log(tmp_path / str(clean))
        for sequence in range(4):
            log.append_as_leader(idempotent([str(sequence)], sequence), 0, now_ms=NOW)
        log.close(now_ms=NOW) if clean else log.close_files()
        log = open_log(tmp_path / str(clean), clean=clean)
        again = log.append_as_leader(idempotent(["3"], 3), 0, now_ms=NOW)
        assert (again.first_offset, again.duplicate) == (3, True)
        assert refused(log, idempotent(["9"], 9)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_an_unused_producer_expires(tmp_path: Path) -> None:
    log = open_log(tmp_path, producer_id_expiration_ms=1000)
    log.append_as_leader(idempotent(["a"], 0), 0, now_ms=NOW)
    log.producers.remove_expired(NOW + 999)
    assert 7 in log.producers.entries
    log.producers.remove_expired(NOW + 1000)
    assert not log.producers.entries


def test_who_expired_does_not_come_back_with_a_truncation_as_it_was_long_ago(tmp_path: Path) -> None:
    """A snapshot has what it wrote first; without what it wrote since, its next batch would be out of order."""
    log = open_log(tmp_path, producer_id_expiration_ms=1000)
    log.append_as_leader(idempotent(["a"], 0), 0, now_ms=NOW)
    log.roll(now_ms=NOW)
    log.append_as_leader(idempotent(["b"], 1), 0, now_ms=NOW)
    log.append_as_leader(idempotent(["cut"], 2), 0, now_ms=NOW)
    log.producers.remove_expired(NOW + 1000)
    assert not log.producers.entries
    log.truncate_to(2, now_ms=NOW + 1000)
    assert log.append_as_leader(idempotent(["c"], 2), 0, now_ms=NOW).first_offset == 2


def test_a_transaction_whose_end_is_cut_is_open_again_though_its_producer_has_expired(tmp_path: Path) -> None:
    log = open_log(tmp_path, producer_id_expiration_ms=1000)
    transactional(log, "a", 0)
    end(log, ControlType.ABORT)
    log.producers.remove_expired(NOW + 1000)
    assert not log.producers.entries
    log.truncate_to(1, now_ms=NOW + 1000)
    assert log.producers.first_unstable_offset == 0


@pytest.mark.parametrize("clean", [True, False])
def test_a_producer_is_known_after_a_restart_at_which_the_clock_is_days_ahead(tmp_path: Path, clean: bool) -> None:
    log = open_log(tmp_path, config={"segment.bytes": "100"})
    for sequence in range(3):
        log.append_as_leader(idempotent([str(sequence)], sequence), 0, now_ms=NOW)
    log.close(now_ms=NOW) if clean else log.close_files()
    log = open_log(tmp_path, clean=clean, now_ms=NOW + 7 * 86_400_000)
    assert log.append_as_leader(idempotent(["2"], 2), 0, now_ms=NOW).duplicate


@pytest.mark.parametrize("clean", [True, False])
def test_a_producer_whose_records_are_all_deleted_is_known_after_a_restart(tmp_path: Path, clean: bool) -> None:
    log = open_log(tmp_path, config={"retention.ms": "1000"})
    for sequence in range(3):
        log.append_as_leader(idempotent([str(sequence)], sequence), 0, now_ms=NOW)
    log.update_high_watermark(3)
    log.delete_old_segments(now_ms=NOW + 5000)
    assert log.log_start_offset == log.log_end_offset == 3
    log.close(now_ms=NOW) if clean else log.close_files()
    log = open_log(tmp_path, clean=clean)
    assert refused(log, idempotent(["4"], 4)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.append_as_leader(idempotent(["3"], 3), 0, now_ms=NOW).first_offset == 3


# Transactions


def transactional(log: Log, value: str, sequence: int, producer_id: int = 7) -> int:
    records = idempotent([value], sequence, producer_id=producer_id, is_transactional=True)
    return log.append_as_leader(records, 0, now_ms=NOW).first_offset


def end(log: Log, kind: ControlType, producer_id: int = 7) -> int:
    records = marker(kind, producer_id=producer_id)
    return log.append_as_leader(records, 0, now_ms=NOW, origin=AppendOrigin.COORDINATOR).first_offset


def test_the_last_stable_offset_waits_for_the_oldest_transaction_and_its_marker(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, "plain")
    first = transactional(log, "a", 0)
    transactional(log, "b", 0, producer_id=8)
    log.update_high_watermark(log.log_end_offset)
    assert log.last_stable_offset == first
    end(log, ControlType.COMMIT)
    assert log.last_stable_offset == first, "the marker is not replicated yet"
    log.update_high_watermark(log.log_end_offset)
    assert log.last_stable_offset == 2, "the second transaction is open"
    end(log, ControlType.ABORT, producer_id=8)
    log.update_high_watermark(log.log_end_offset)
    assert log.last_stable_offset == log.high_watermark == 5


def test_aborted_transactions_are_listed_also_after_a_restart(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    transactional(log, "a", 0)
    end(log, ControlType.COMMIT)
    transactional(log, "b", 1)
    end(log, ControlType.ABORT)
    append(log, "plain")
    expected = [(7, 2, 3, 4)]
    assert [tuple(each) for each in log.aborted_transactions(0, 5)] == expected
    assert log.aborted_transactions(0, 2) == []
    log.close_files()
    recovered = open_log(tmp_path, clean=False)
    assert [tuple(each) for each in recovered.aborted_transactions(0, 5)] == expected
    recovered.close(now_ms=NOW)
    assert [tuple(each) for each in open_log(tmp_path).aborted_transactions(0, 5)] == expected


def test_what_is_committed_where_an_abort_marker_was_cut_is_not_hidden(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    transactional(log, "a", 0)
    abort_marker = end(log, ControlType.ABORT)
    assert log.truncate_to(abort_marker, now_ms=NOW)
    transactional(log, "b", 1)
    end(log, ControlType.COMMIT)
    assert log.aborted_transactions(0, 3) == []
    log.close(now_ms=NOW)
    log = open_log(tmp_path)
    log.update_high_watermark(log.log_end_offset)
    assert log.last_stable_offset == 3
    assert log.aborted_transactions(0, 3) == []


def test_an_open_transaction_is_open_after_a_restart(tmp_path: Path) -> None:
    for clean in (True, False):
        log = open_log(tmp_path / str(clean))
        transactional(log, "a", 0)
        log.close(now_ms=NOW) if clean else log.close_files()
        log = open_log(tmp_path / str(clean), clean=clean)
        log.update_high_watermark(log.log_end_offset)
        assert log.last_stable_offset == 0
        end(log, ControlType.COMMIT)
        log.update_high_watermark(log.log_end_offset)
        assert log.last_stable_offset == 2


def test_a_marker_from_an_older_coordinator_is_fenced(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    transactional(log, "a", 0)
    log.append_as_leader(
        marker(ControlType.COMMIT, coordinator_epoch=2), 0, now_ms=NOW, origin=AppendOrigin.COORDINATOR
    )
    transactional(log, "b", 1)
    code = refused(log, marker(ControlType.ABORT, coordinator_epoch=1), origin=AppendOrigin.COORDINATOR)
    assert code is ErrorCode.TRANSACTION_COORDINATOR_FENCED


# Followers


def test_a_follower_holds_the_leaders_bytes(tmp_path: Path) -> None:
    leader = open_log(tmp_path / "leader", config={"segment.bytes": "500"})
    for i in range(30):
        leader.append_as_leader(idempotent([f"value {i}"], i), i // 10, now_ms=NOW)
    follower = open_log(tmp_path / "follower", config={"segment.bytes": "500"})
    while follower.log_end_offset < leader.log_end_offset:
        follower.append_as_follower(leader.read(follower.log_end_offset, 450), now_ms=NOW)
    assert values(follower) == values(leader)
    assert follower.leader_epochs.entries == leader.leader_epochs.entries
    assert follower.producers.entries[7].batches == leader.producers.entries[7].batches


def test_a_follower_refuses_what_it_has_and_what_is_corrupt(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, "a")
    with pytest.raises(UnexpectedAppendOffset):
        log.append_as_follower(batch(["a"]), now_ms=NOW)
    records = batch(["b"])
    pack_into(">q", records, 0, 1)
    records[-1] ^= 1
    with pytest.raises(KafkaError) as caught:
        log.append_as_follower(records, now_ms=NOW)
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
    assert not log.append_as_follower(records[:40], now_ms=NOW)
    assert log.log_end_offset == 1


def test_offsets_too_far_apart_for_one_index_begin_a_new_segment(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, "a")
    records = batch(["far"])
    pack_into(">q", records, 0, 2**31 + 5)
    log.append_as_follower(records, now_ms=NOW)
    assert [segment.base_offset for segment in log.segments] == [0, 2**31 + 5]
    assert log.offset_metadata(1).segment_base_offset == 2**31 + 5


# Truncation, deletion


@pytest.mark.parametrize(
    ("start", "left"), [(4, [(2, 4), (5, 6)]), (5, [(2, 5), (5, 6)]), (6, [(5, 6)]), (7, [(5, 7)])]
)
def test_a_log_whose_start_moves_keeps_the_epoch_in_which_it_begins(
    tmp_path: Path, start: int, left: list[tuple[int, int]]
) -> None:
    log = open_log(tmp_path)
    for number, epoch in enumerate([0, 0, 1, 1, 2, 2, 5, 5]):
        append(log, str(number), epoch=epoch)
    log.update_high_watermark(8)
    log.maybe_increment_log_start_offset(start)
    assert [tuple(entry) for entry in log.leader_epochs.entries] == left
    assert log.end_offset_for_epoch(5) == (5, 8)


def test_truncation_cuts_records_epochs_and_producers(tmp_path: Path) -> None:
    log = open_log(tmp_path, config={"segment.bytes": "300"})
    for i in range(20):
        log.append_as_leader(idempotent([str(i)], i), i // 5, now_ms=NOW)
    log.update_high_watermark(20)
    assert log.truncate_to(12, now_ms=NOW)
    assert [value for _, value in values(log)] == [str(i) for i in range(12)]
    assert [tuple(entry) for entry in log.leader_epochs.entries] == [(0, 0), (1, 5), (2, 10)]
    assert log.producers.entries[7].last_sequence == 11
    assert log.high_watermark == 12
    log.append_as_leader(idempotent(["twelve"], 12), 4, now_ms=NOW)
    assert values(log)[-1] == (12, "twelve")
    assert not log.truncate_to(50, now_ms=NOW)


def test_truncation_beyond_the_end_forgets_an_epoch_without_records(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, "a")
    log.maybe_assign_epoch_start_offset(4, 1)
    assert log.latest_epoch == 4
    log.truncate_to(1, now_ms=NOW)
    assert log.latest_epoch == 0


def test_an_epoch_is_written_with_its_first_record(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    path = tmp_path / "flights-0" / "leader-epoch-checkpoint"
    append(log, "a", epoch=1)
    log.maybe_assign_epoch_start_offset(4, 1)
    assert path.read_text() == "0\n1\n1 0\n"
    assert log.end_offset_for_epoch(4) == (4, 1)
    append(log, "b", epoch=4)
    assert path.read_text() == "0\n2\n1 0\n4 1\n"
    log.close(now_ms=NOW)
    follower = open_log(tmp_path)
    follower.maybe_assign_epoch_start_offset(6, 2)
    records = batch(["c"])
    pack_into(">q", records, 0, 2)
    pack_into(">i", records, 12, 5)
    follower.truncate_to(2, now_ms=NOW)
    follower.append_as_follower(records, now_ms=NOW)
    assert path.read_text() == "0\n3\n1 0\n4 1\n5 2\n"


def test_a_new_logs_epochs_are_written_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replace, replaced = type(DISK).replace, []

    def noted(disk: object, path: str, *arguments: object, **options: object) -> None:
        replaced.append(path.rpartition("/")[2])
        replace(disk, path, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(type(DISK), "replace", noted)
    open_log(tmp_path)
    assert replaced.count("leader-epoch-checkpoint") == 1


def test_deleting_records_one_by_one_writes_no_file_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log(tmp_path)
    for at in range(20):
        append(log, str(at), epoch=at // 5)
    log.update_high_watermark(20)
    replace, replaced = type(DISK).replace, []

    def noted(disk: object, path: str, *arguments: object, **options: object) -> None:
        replaced.append(path.rpartition("/")[2])
        replace(disk, path, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(type(DISK), "replace", noted)
    for offset in range(1, 18):
        log.maybe_increment_log_start_offset(offset)
    assert replaced == []
    assert [tuple(entry) for entry in log.leader_epochs.entries] == [(3, 17)]
    opened = open_log(tmp_path, log_start_offset=17)
    assert [tuple(entry) for entry in opened.leader_epochs.entries] == [(3, 17)]
    log.flush(now_ms=NOW)
    assert (tmp_path / "flights-0" / "leader-epoch-checkpoint").read_text() == "0\n1\n3 17\n"


def test_a_batch_of_an_older_epoch_takes_back_a_later_one_that_began_without_a_record(tmp_path: Path) -> None:
    """Which a leader begins that lost with the power what it had in its epoch, and that soon follows again."""
    log = open_log(tmp_path)
    append(log, "a", epoch=9)
    log.maybe_assign_epoch_start_offset(11, 1)
    records = batch(["b"])
    pack_into(">q", records, 0, 1)
    pack_into(">i", records, 12, 9)
    log.append_as_follower(records, now_ms=NOW)
    assert [tuple(entry) for entry in log.leader_epochs.entries] == [(9, 0)]
    assert (tmp_path / "flights-0" / "leader-epoch-checkpoint").read_text() == "0\n1\n9 0\n"


def test_a_log_truncated_fully_begins_where_it_is_told(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, "a")
    log.truncate_fully_and_start_at(100, now_ms=NOW)
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (100, 100, 100)
    assert append(log, "b") == 100
    log.close(now_ms=NOW)
    assert open_log(tmp_path).log_start_offset == 100


def test_a_log_truncated_to_nothing_rolls_and_appends_again(tmp_path: Path) -> None:
    log = open_log(tmp_path, config={"segment.ms": "1000"})
    append(log, "a")
    log.truncate_to(0, now_ms=NOW)
    log.append_as_leader(batch(["b"]), 1, now_ms=NOW + 10_000)
    assert values(log) == [(0, "b")]


def test_retention_deletes_whole_segments_below_the_high_watermark(tmp_path: Path) -> None:
    log = open_log(tmp_path, config={"segment.bytes": "200", "retention.ms": "1000", "retention.bytes": "-1"})
    for i in range(10):
        append(log, str(i), timestamp=NOW + i)
    assert log.delete_old_segments(now_ms=NOW + 10_000) == 0, "nothing is replicated"
    log.update_high_watermark(5)
    log.delete_old_segments(now_ms=NOW + 10_000)
    assert log.log_start_offset <= 5 < log.log_start_offset + 3
    log.update_high_watermark(10)
    log.delete_old_segments(now_ms=NOW + 10_000)
    assert (log.log_start_offset, log.log_end_offset, log.size) == (10, 10, 0)


def test_retention_by_size_keeps_at_least_as_much(tmp_path: Path) -> None:
    log = open_log(tmp_path, config={"segment.bytes": "200", "retention.bytes": "500", "retention.ms": "-1"})
    for i in range(20):
        append(log, str(i))
    log.update_high_watermark(20)
    log.delete_old_segments(now_ms=NOW)
    assert 500 <= log.size < 700


def test_deleted_files_are_removed_after_the_delay(tmp_path: Path) -> None:
    log = open_log(tmp_path, config={"segment.bytes": "200", "file.delete.delay.ms": "1000"})
    for i in range(6):
        append(log, str(i))
    log.update_high_watermark(6)
    log.maybe_increment_log_start_offset(6)
    log.delete_old_segments(now_ms=NOW)
    marked = list((tmp_path / "flights-0").glob("*.deleted"))
    assert marked
    log.delete_marked_files(now_ms=NOW)
    log.delete_marked_files(now_ms=NOW + 999)
    assert all(path.exists() for path in marked)
    log.delete_marked_files(now_ms=NOW + 1000)
    assert not any(path.exists() for path in marked)


def test_the_log_start_offset_stays_below_the_high_watermark(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, "a", "b")
    with pytest.raises(KafkaError) as caught:
        log.maybe_increment_log_start_offset(1)
    assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    log.update_high_watermark(2)
    assert log.maybe_increment_log_start_offset(1)
    assert values(log) == [(1, "b")]


# Timestamps and epochs


def test_offsets_are_found_by_timestamp(tmp_path: Path) -> None:
    log = open_log(tmp_path, config={"segment.bytes": "1000", "index.interval.bytes": "100"})
    for i in range(100):
        append(log, f"{i}a", f"{i}b", timestamp=NOW + 10 * i, epoch=i // 50)
    assert log.fetch_offset_by_timestamp(NOW + 10 * 60 + 1) == (NOW + 601, 121, 1)
    assert log.fetch_offset_by_timestamp(0) == (NOW, 0, 0)
    assert log.fetch_offset_by_timestamp(NOW + 10_000) is None
    assert log.fetch_offset_by_timestamp(-1) == (-1, 200, 1)
    assert log.fetch_offset_by_timestamp(-2) == (-1, 0, 0)
    assert log.fetch_offset_by_timestamp(-3) == (NOW + 991, 199, 1)


def test_a_record_is_found_behind_segments_that_are_deleted_and_still_there(tmp_path: Path) -> None:
    log = open_log(tmp_path, config={"segment.bytes": "200"})
    for i in range(10):
        append(log, str(i), timestamp=NOW + i)
    log.update_high_watermark(10)
    log.maybe_increment_log_start_offset(7)
    assert log.segments[1].base_offset <= 7
    assert log.fetch_offset_by_timestamp(NOW) == (NOW + 7, 7, 0)


def test_whoever_looks_for_a_record_in_a_batch_of_many_lets_others_go_on_and_the_segment_may_go_meanwhile(
    tmp_path: Path,
) -> None:
    log = open_log(tmp_path)
    count = 20_000
    append(log, *map(str, range(count)), timestamp=NOW, compression="gzip")
    for timestamp, wanted in ((NOW + count - 1, count - 1), (-3, count - 1), (NOW + 500, 500)):
        found: list[TimestampOffset | None] = []

        def searched(timestamp: int = timestamp, found: list[TimestampOffset | None] = found) -> Iterator[None]:
            found.append((yield from log.searching(timestamp)))

        steps = 0
        for _ in searched():
            steps += 1
            log.segments.active.close_files()
        assert [each and each.offset for each in found] == [wanted]
        assert steps >= wanted // 128


def test_the_end_of_an_epoch_is_where_the_next_began(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, "a", epoch=2)
    append(log, "b", epoch=5)
    assert log.end_offset_for_epoch(2) == (2, 1)
    assert log.end_offset_for_epoch(3) == (2, 1)
    assert log.end_offset_for_epoch(5) == (5, 2)
    assert log.end_offset_for_epoch(1) == (1, 0)
    assert log.end_offset_for_epoch(6) == (-1, -1)
    assert log.end_offset_for_epoch(-1) == (-1, -1)


# Opening


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("batches", [2, 9])
def test_a_torn_tail_is_cut(tmp_path: Path, batches: int, clean: bool) -> None:
    """Also where the stop was clean: the file was not left as it is."""
    config = {"segment.bytes": "210"}  # of two batches
    log = open_log(tmp_path, config=config)
    for number in range(batches):
        log.append_as_leader(idempotent([str(number)], number), 0, now_ms=NOW)
    log.close(now_ms=NOW) if clean else log.close_files()
    path = sorted((tmp_path / "flights-0").glob("*.log"))[-1]
    path.write_bytes(path.read_bytes()[:-3])
    log = open_log(tmp_path, config=config, clean=clean)
    end = batches - 1
    assert values(log) == [(number, str(number)) for number in range(end)]
    last = log.append_as_leader(idempotent([str(end - 1)], end - 1), 0, now_ms=NOW)
    assert (last.first_offset, last.duplicate) == (end - 1, True)
    assert log.append_as_leader(idempotent(["again"], end), 0, now_ms=NOW).first_offset == end
    assert values(log, end) == [(end, "again")]


def test_everything_after_a_corrupt_batch_is_dropped(tmp_path: Path) -> None:
    log = open_log(tmp_path, config={"segment.bytes": "200"})
    for i in range(10):
        append(log, str(i))
    log.close_files()
    second = sorted((tmp_path / "flights-0").glob("*.log"))[1]
    data = bytearray(second.read_bytes())
    data[65] ^= 1
    second.write_bytes(data)
    log = open_log(tmp_path, clean=False)
    assert values(log) == [(i, str(i)) for i in range(int(second.stem))]
    assert len(log.segments) == 2


@pytest.mark.parametrize("suffix", ["index", "timeindex"])
@pytest.mark.parametrize("damage", ["missing", "truncated", "zeros"])
def test_a_damaged_index_is_made_anew(tmp_path: Path, suffix: str, damage: str) -> None:
    log = open_log(tmp_path, config={"segment.bytes": "3000", "index.interval.bytes": "100"})
    for i in range(100):
        append(log, str(i), timestamp=NOW + i)
    log.close(now_ms=NOW)
    for path in (tmp_path / "flights-0").glob(f"*.{suffix}"):
        if damage == "missing":
            path.unlink()
        elif damage == "truncated":
            path.write_bytes(path.read_bytes()[:-5])
        else:
            path.write_bytes(bytes(path.stat().st_size))
    log = open_log(tmp_path, config={"segment.bytes": "3000"})
    assert values(log) == [(i, str(i)) for i in range(100)]
    assert log.fetch_offset_by_timestamp(NOW + 77) == (NOW + 77, 77, 0)


@pytest.mark.parametrize("content", [None, b"", b"rubbish", b"0\n5\n0 0\n"])
def test_lost_leader_epochs_are_read_from_the_batches(tmp_path: Path, content: bytes | None) -> None:
    log = open_log(tmp_path)
    append(log, "a", epoch=1)
    append(log, "b", epoch=4)
    log.close(now_ms=NOW)
    path = tmp_path / "flights-0" / "leader-epoch-checkpoint"
    path.unlink() if content is None else path.write_bytes(content)
    assert [tuple(entry) for entry in open_log(tmp_path).leader_epochs.entries] == [(1, 0), (4, 1)]


def test_lost_leader_epochs_of_a_log_with_a_damaged_segment_are_read_as_far_as_they_go(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, "a", epoch=1)
    append(log, "b", epoch=2)
    log.roll(now_ms=NOW)
    append(log, "c", epoch=4)
    log.close(now_ms=NOW)
    (tmp_path / "flights-0" / "leader-epoch-checkpoint").unlink()
    damaged = tmp_path / "flights-0" / f"{0:020d}.log"
    os.truncate(damaged, damaged.stat().st_size - 1)
    assert [tuple(entry) for entry in open_log(tmp_path, clean=True).leader_epochs.entries] == [(1, 0), (4, 2)]


def test_no_snapshot_outlives_the_segments_that_it_was_of(tmp_path: Path) -> None:
    """A loss of power took their names, and left that of the snapshot: what comes to stand there is another's."""
    log = open_log(tmp_path)
    append(log, "a", "b")
    log.close(now_ms=NOW)
    for path in (tmp_path / "flights-0").glob("*.log"):
        path.unlink()
    again = open_log(tmp_path, clean=True)
    assert again.log_end_offset == 0
    assert list(again.producers.snapshot_offsets) == []


def test_a_torn_producer_snapshot_is_replaced_by_reading_the_log(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for sequence in range(3):
        log.append_as_leader(idempotent([str(sequence)], sequence), 0, now_ms=NOW)
    log.close(now_ms=NOW)
    (snapshot,) = (tmp_path / "flights-0").glob("*.snapshot")
    snapshot.write_bytes(snapshot.read_bytes()[:-1])
    log = open_log(tmp_path)
    assert log.producers.entries[7].last_sequence == 2


@pytest.mark.parametrize(("policy", "end"), [("delete", 4), ("compact", 6)])
def test_a_gap_between_segments_is_a_lost_tail_where_nothing_compacts(tmp_path: Path, policy: str, end: int) -> None:
    """A power loss may take the end of a segment, between two of its batches, and leave the name of the next."""
    config = {"segment.bytes": "230", "cleanup.policy": policy}
    log = open_log(tmp_path, config=config)
    for value in range(6):
        log.append_as_leader(batch([str(value)]), 0, now_ms=NOW)
    assert [segment.base_offset for segment in log.segments] == [0, 3]
    log.roll(now_ms=NOW)
    log.close_files()
    path = tmp_path / "flights-0" / f"{3:020d}.log"
    os.truncate(path, path.stat().st_size // 3)
    assert open_log(tmp_path, config=config, clean=False).log_end_offset == end


def follow(log: Log, base_offset: int, value: str, *, epoch: int = 0) -> None:
    """Appends a batch of one record as the leader has it, which may leave a gap."""
    records = batch([value])
    pack_into(">q", records, 0, base_offset)
    pack_into(">i", records, 12, epoch)
    log.append_as_follower(records, now_ms=NOW)


@pytest.mark.parametrize(("clean", "recovery_point"), [(True, 0), (False, 21)])
def test_a_gap_below_the_recovery_point_is_no_lost_tail(tmp_path: Path, clean: bool, recovery_point: int) -> None:
    """It is from a time when the topic was compacted, on this replica or another: what is flushed loses no tail."""
    config = {"segment.bytes": "100", "cleanup.policy": "delete"}
    log = open_log(tmp_path, config=config)
    for offset in (0, 10, 20):
        follow(log, offset, str(offset))
    assert [segment.base_offset for segment in log.segments] == [0, 10, 20]
    log.close(now_ms=NOW)
    (tmp_path / "flights-0" / f"{0:020d}.index").unlink()
    log = open_log(tmp_path, config=config, clean=clean, recovery_point=recovery_point)
    assert values(log) == [(0, "0"), (10, "10"), (20, "20")]


@pytest.mark.parametrize(("clean", "recovery_point"), [(True, 0), (False, 3)])
def test_a_falling_epoch_below_the_recovery_point_is_no_older_batch_come_back(
    tmp_path: Path, clean: bool, recovery_point: int
) -> None:
    """Apache's followers keep such, and epochs begin anew where a cluster's znodes were lost."""
    log = open_log(tmp_path)
    for offset, epoch in enumerate((5, 0, 0)):
        follow(log, offset, str(offset), epoch=epoch)
    log.close(now_ms=NOW)
    (tmp_path / "flights-0" / f"{0:020d}.index").unlink()
    log = open_log(tmp_path, clean=clean, recovery_point=recovery_point)
    assert values(log) == [(0, "0"), (1, "1"), (2, "2")]


def test_a_missing_index_has_only_its_own_segment_checked(tmp_path: Path) -> None:
    """Others were flushed and are as they were: damage that nobody has met yet is no reason to end the log there."""
    config = {"segment.bytes": "100"}
    log = open_log(tmp_path, config=config)
    for value in "abcd":
        append(log, value)
    log.close(now_ms=NOW)
    directory = tmp_path / "flights-0"
    (directory / f"{0:020d}.index").unlink()
    (directory / f"{3:020d}.timeindex").unlink()
    damaged = directory / f"{1:020d}.log"
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"!")
    log = open_log(tmp_path, config=config)
    assert log.log_end_offset == 4
    assert [segment.base_offset for segment in log.segments] == [0, 1, 2, 3]
    assert values(log, 2) == [(2, "c"), (3, "d")]
    assert (directory / f"{0:020d}.index").exists()
    assert (directory / f"{3:020d}.timeindex").stat().st_size == 12


def test_an_index_never_grows_beyond_its_bytes(tmp_path: Path) -> None:
    """A follower is sent many batches at once. Apache's broker does not start beside the index of an active segment
    that is larger than ``segment.index.bytes``."""
    config = {"segment.index.bytes": "96", "index.interval.bytes": "10"}
    log = open_log(tmp_path, config=config)
    records = bytearray()
    for offset in range(40):
        one = batch(["x" * 2_000], timestamp=NOW + offset)
        pack_into(">q", one, 0, offset)
        records += one
    log.append_as_follower(records, now_ms=NOW)
    log.close(now_ms=NOW)

    def index_sizes() -> list[int]:
        return [(tmp_path / "flights-0" / f"{0:020d}{suffix}").stat().st_size for suffix in (".index", ".timeindex")]

    assert index_sizes() == [7 * 8, 8 * 12]
    log = open_log(tmp_path, config=config, clean=False)
    assert index_sizes() == [7 * 8, 8 * 12], "after recovery"
    log.roll(now_ms=NOW)
    log.close(now_ms=NOW)
    (tmp_path / "flights-0" / f"{0:020d}.index").write_bytes(pack(">4i", 9, 9, 5, 5))
    log = open_log(tmp_path, config=config)
    assert len(log.read(0, 100_000)) == len(records)
    assert index_sizes() == [7 * 8, 8 * 12], "made anew"
    found = log.fetch_offset_by_timestamp(NOW + 39)
    assert found is not None
    assert found.offset == 39


def test_another_topics_directory_is_refused(tmp_path: Path) -> None:
    open_log(tmp_path, topic_id=Uuid(b"a" * 16)).close(now_ms=NOW)
    with pytest.raises(KafkaError) as caught:
        open_log(tmp_path, topic_id=Uuid(b"b" * 16))
    assert caught.value.code is ErrorCode.INCONSISTENT_TOPIC_ID
    assert open_log(tmp_path).topic_id == Uuid(b"a" * 16)


# A failing disk


class FailingFile:
    """A file whose writes fail, as on a full disk."""

    def __init__(self, file: object) -> None:
        self._file = file

    def __getattr__(self, name: str) -> object:
        return getattr(self._file, name)

    def pwrite(self, data: bytes, position: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_after_a_failed_write_nothing_is_appended_any_more(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, "a")
    segment = log.active_segment
    real = segment.file
    segment._file = FailingFile(real)  # type: ignore[assignment]
    with pytest.raises(LogDirFailure):
        append(log, "b")
    segment._file = real
    with pytest.raises(LogDirFailure):
        append(log, "b")
    assert not log.log_dir.online
    assert log.log_end_offset == 1
    assert DISK.size(segment.path) == segment.size


def test_index_entries_leave_many_at_a_time_and_with_a_flush(tmp_path: Path) -> None:
    log = open_log(tmp_path, config={"index.interval.bytes": "0"})
    path = tmp_path / "flights-0" / "00000000000000000000.index"
    sizes = []
    for i in range(70):
        append(log, str(i), timestamp=NOW + i)
        sizes.append(path.stat().st_size)
    assert set(sizes) == {0, 64 * 8}
    log.flush(now_ms=NOW)
    assert path.stat().st_size == 69 * 8, "the first batch needs no entry"
    assert path.with_suffix(".timeindex").stat().st_size == 69 * 12


def test_index_entries_that_a_crash_took_back_are_made_anew(tmp_path: Path) -> None:
    log = open_log(tmp_path, config={"index.interval.bytes": "0"})
    for i in range(10):
        append(log, str(i), timestamp=NOW + i)
    log.close_files()
    path = tmp_path / "flights-0" / "00000000000000000000.index"
    assert path.stat().st_size == 0
    again = open_log(tmp_path, config={"index.interval.bytes": "0"}, clean=False)
    assert path.stat().st_size == 9 * 8
    assert values(again) == [(i, str(i)) for i in range(10)]


def test_a_cut_within_what_no_index_file_has_yet_keeps_the_entries_before_it(tmp_path: Path) -> None:
    log = open_log(tmp_path, config={"index.interval.bytes": "0"})
    for i in range(10):
        append(log, str(i), timestamp=NOW + i)
    log.truncate_to(5, now_ms=NOW)
    path = tmp_path / "flights-0" / "00000000000000000000.index"
    assert path.stat().st_size == 4 * 8
    for i in (5, 6):
        append(log, str(i), timestamp=NOW + i)
    log.flush(now_ms=NOW)
    assert path.stat().st_size == 5 * 8, "the first batch behind a cut needs no entry"
    assert values(log) == [(i, str(i)) for i in range(7)]


@pytest.mark.parametrize("fully", [False, True])
def test_a_cut_that_fails_half_way_leaves_offsets_in_their_order(tmp_path: Path, fully: bool) -> None:
    def fail(log: Log) -> None:
        raise OSError(errno.EIO, "Input/output error")

    log = open_log(tmp_path)
    for value in "abcd":
        append(log, value)
    log.update_high_watermark(3)
    log.flush(now_ms=NOW)
    log.on_recovery_point_lowered = fail
    cut = log.truncate_fully_and_start_at if fully else log.truncate_to
    with pytest.raises(LogDirFailure):
        cut(1, now_ms=NOW)
    assert log.log_start_offset <= log.high_watermark <= log.log_end_offset == 1


# Old formats


def message(magic: int, value: bytes, timestamp: int = NOW) -> bytearray:
    """One message of magic 0 or 1, as clients before 0.11 sent it."""
    content = pack(">bb", magic, 0) + (pack(">q", timestamp) if magic else b"")
    content += pack(">i", 1) + b"k" + pack(">i", len(value)) + value
    return bytearray(pack(">qiI", 0, len(content) + 4, crc32(content)) + content)


@pytest.mark.parametrize("magic", [0, 1])
def test_old_messages_become_a_batch(tmp_path: Path, magic: int) -> None:
    log = open_log(tmp_path)
    info = log.append_as_leader(message(magic, b"a") + message(magic, b"b"), 0, now_ms=NOW)
    assert (info.first_offset, info.last_offset) == (0, 1)
    header = parse_header(log.read(0, 1000))
    assert (header.magic, header.max_timestamp) == (2, NOW if magic else -1)
    assert values(log) == [(0, "a"), (1, "b")]


def test_an_old_message_with_a_wrong_crc_is_refused(tmp_path: Path) -> None:
    records = message(1, b"a")
    records[-1] ^= 1
    assert refused(open_log(tmp_path), records) is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("magic", [0, 1])
def test_a_segment_of_old_messages_is_read(tmp_path: Path, magic: int) -> None:
    directory = tmp_path / "flights-0"
    directory.mkdir()
    data = bytearray()
    for offset in range(5):
        one = message(magic, b"old %d" % offset)
        pack_into(">q", one, 0, offset)
        data += one
    (directory / f"{0:020d}.log").write_bytes(data + data[:20])
    log = open_log(tmp_path, clean=False)
    assert values(log) == [(i, f"old {i}") for i in range(5)]
    assert append(log, "new") == 5
    assert values(log, 4) == [(4, "old 4"), (5, "new")]


@pytest.mark.parametrize("clean", [True, False])
def test_a_log_that_was_loaded_holds_no_descriptor_before_it_is_used(tmp_path: Path, clean: bool) -> None:
    """A broker of 10,000 partitions loads them all at its start."""
    log = open_log(tmp_path, config={"segment.bytes": "300", "index.interval.bytes": "1"})
    for number in range(20):
        append(log, f"value {number}", "another")
    assert len(log.segments) > 3
    if clean:
        log.close(now_ms=NOW)
    else:
        log.close_files()

    before = descriptors_below(tmp_path)
    loaded = open_log(tmp_path, clean=clean)
    assert descriptors_below(tmp_path) == before == []
    assert values(loaded)[-1] == (39, "another")


def descriptors_below(directory: Path) -> list[str]:
    found = []
    for each in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # the one that lists them
            found.append(os.readlink(each))
    return [path for path in found if path.startswith(str(directory))]


def test_a_leader_of_an_older_epoch_leaves_a_file_of_epochs_that_fits_the_log(tmp_path: Path) -> None:
    """The znodes were restored: followers cut what is committed where the next start believes an epoch that is over."""
    log = open_log(tmp_path)
    append(log, "x")
    append(log, "y", epoch=2)
    log.maybe_assign_epoch_start_offset(1, log.log_end_offset)
    append(log, "z", epoch=1)
    before = log.leader_epochs.entries
    log.close(now_ms=NOW)
    reopened = open_log(tmp_path)
    assert reopened.leader_epochs.entries == before
    assert reopened.end_offset_for_epoch(1) == (1, 3)
