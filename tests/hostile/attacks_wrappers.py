"""Messages of old magics, compressed in compressed ones."""

from __future__ import annotations

from hostile_frame import Target, attack
from verdicts.batches import message, wrapper

from barnabas.model.errors import ErrorCode
from barnabas.wire.compression import Codec
from barnabas.wire.messages.produce import ProduceRequest

DEEP = 200
WIDE = 300
LARGE = 60 << 20


@attack("wrappers in wrappers in wrappers")
def nested(target: Target) -> None:
    topic = target.topic()
    caller = target.caller()
    for magic in (0, 1):
        for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4) if target.thorough else (Codec.GZIP,):
            deep = message(magic)
            for _ in range(DEEP):
                deep = wrapper(deep, codec, magic)
            wide = message(magic, bytes(10))
            for _ in range(3):
                wide = wrapper(wide * WIDE, codec, magic)
            large = wrapper(wrapper(message(magic, bytes(LARGE)), codec, magic), codec, magic)
            for records in (deep, wide, large):
                data = [ProduceRequest.PartitionProduceData(index=0, records=records)]
                topics = [ProduceRequest.TopicProduceData(topic, data)]
                answer = caller.ask(ProduceRequest(acks=1, timeout_ms=30_000, topic_data=topics), 1 + magic)
                (told,) = answer.responses[0].partition_responses
                refused = (ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD, ErrorCode.MESSAGE_TOO_LARGE)
                assert told.error_code in refused, answer
