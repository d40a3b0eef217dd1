"""A transaction begins in a log only when its coordinator has confirmed it (KIP-890)."""

from __future__ import annotations

from pathlib import Path

import pytest
from log_worlds import NOW, idempotent, marker, open_log

from barnabas.log.log import AppendOrigin, Log
from barnabas.log.producer_state import Verification
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.records import ControlType


def verifying_log(directory: Path) -> Log:
    log = open_log(directory, producer_id_expiration_ms=1000)
    log.producers.requires_verification = True
    return log


def write(log: Log, sequence: int, *, epoch: int = 0, origin: AppendOrigin = AppendOrigin.CLIENT) -> int:
    records = idempotent(["value"], sequence, epoch=epoch, is_transactional=True)
    return log.append_as_leader(records, 0, now_ms=NOW, origin=origin).first_offset


def refused(log: Log, sequence: int, *, origin: AppendOrigin = AppendOrigin.CLIENT) -> ErrorCode:
    before = log.log_end_offset
    with pytest.raises(KafkaError) as error:
        write(log, sequence, origin=origin)
    assert log.log_end_offset == before
    return error.value.code


def ask(log: Log, sequence: int = 0, epoch: int = 0) -> Verification:
    asked = log.producers.begin_verification(7, epoch, sequence, NOW)
    assert asked is not None
    return asked


def end(log: Log, *, epoch: int = 0) -> None:
    log.append_as_leader(marker(ControlType.ABORT, epoch=epoch), 0, now_ms=NOW, origin=AppendOrigin.COORDINATOR)


@pytest.mark.parametrize("origin", [AppendOrigin.CLIENT, AppendOrigin.COORDINATOR])
def test_kip_890_a_transaction_that_nobody_confirmed_does_not_begin(tmp_path: Path, origin: AppendOrigin) -> None:
    log = verifying_log(tmp_path)
    assert refused(log, 0, origin=origin) is ErrorCode.INVALID_TXN_STATE
    asked = ask(log)
    assert refused(log, 0, origin=origin) is ErrorCode.INVALID_TXN_STATE
    log.producers.confirm(7, asked)
    write(log, 0, origin=origin)


def test_an_open_transaction_goes_on_without_a_question(tmp_path: Path) -> None:
    log = verifying_log(tmp_path)
    log.producers.confirm(7, ask(log))
    write(log, 0)
    assert log.producers.begin_verification(7, 0, 1, NOW) is None
    write(log, 1)


def test_kip_890_a_batch_that_comes_after_the_abort_leaves_no_transaction_open(tmp_path: Path) -> None:
    log = verifying_log(tmp_path)
    log.producers.confirm(7, ask(log))
    write(log, 0)
    end(log)
    assert refused(log, 1) is ErrorCode.INVALID_TXN_STATE
    log.update_high_watermark(log.log_end_offset)
    assert log.last_stable_offset == log.log_end_offset


def test_kip_890_an_answer_about_an_earlier_transaction_confirms_nothing(tmp_path: Path) -> None:
    log = verifying_log(tmp_path)
    asked_before = ask(log)
    end(log)
    ask(log)
    log.producers.confirm(7, asked_before)
    assert refused(log, 0) is ErrorCode.INVALID_TXN_STATE


def test_kafka_14920_no_later_batch_goes_before_one_that_waits_for_its_answer(tmp_path: Path) -> None:
    log = verifying_log(tmp_path)
    ask(log, sequence=3)
    asked = ask(log, sequence=0)
    log.producers.confirm(7, asked)
    assert refused(log, 3) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    write(log, 0)
    write(log, 1)


def test_kafka_14920_a_new_epoch_counts_from_its_own_first_batch(tmp_path: Path) -> None:
    log = verifying_log(tmp_path)
    ask(log, sequence=0)
    log.producers.confirm(7, ask(log, sequence=0, epoch=1))
    write(log, 0, epoch=1)


def test_a_repeated_batch_is_answered_without_a_question(tmp_path: Path) -> None:
    log = verifying_log(tmp_path)
    log.producers.confirm(7, ask(log))
    offset = write(log, 0)
    end(log)
    assert write(log, 0) == offset


def test_kafka_9144_an_open_transaction_keeps_its_producer_however_old_it_is(tmp_path: Path) -> None:
    log = verifying_log(tmp_path)
    log.producers.confirm(7, ask(log))
    write(log, 0, epoch=3)
    log.producers.remove_expired(NOW + 10**9)
    with pytest.raises(KafkaError, match="Epoch of producer"):
        end(log, epoch=2)
    end(log, epoch=3)
    log.producers.remove_expired(NOW + 10**9)
    assert not log.producers.entries


def test_a_question_that_nobody_answers_is_forgotten(tmp_path: Path) -> None:
    log = verifying_log(tmp_path)
    asked = ask(log)
    log.producers.remove_expired(NOW + 1000)
    log.producers.confirm(7, asked)
    assert refused(log, 0) is ErrorCode.INVALID_TXN_STATE


def test_records_without_a_transaction_are_nobodys_question(tmp_path: Path) -> None:
    log = verifying_log(tmp_path)
    log.append_as_leader(idempotent(["a"], 0), 0, now_ms=NOW)
    log.append_as_leader(idempotent(["b"], 1), 0, now_ms=NOW)
