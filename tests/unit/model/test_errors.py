"""What a client is told of an error fits into the answer."""

from __future__ import annotations

from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.frames import decode_response, encode_response
from barnabas.wire.messages.create_topics import CreateTopicsResponse


def test_a_message_that_names_twenty_thousand_brokers_is_told_as_far_as_there_is_room() -> None:
    error = KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"not alive: {list(range(20_000))}")
    assert str(error) == error.message
    told = CreateTopicsResponse.CreatableTopicResult("t", error_code=error.code, error_message=error.message)
    frame = b"".join(bytes(part) for part in encode_response(CreateTopicsResponse(topics=[told]), 2, 1))
    _, answer = decode_response(CreateTopicsResponse, 2, frame[4:])
    assert answer.topics[0].error_message.startswith("not alive: [0, 1, 2, 3")
    wide = KafkaError(ErrorCode.INVALID_REQUEST, "\N{GRINNING FACE}" * 20_000).message or ""
    assert len(wide.encode()) < 2**15
