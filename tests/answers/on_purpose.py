"""Where an answer differs from Apache Kafka's, and why it may."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from answers.asking import CLOSED, SILENCE
from answers.cases import TOO_NEW, Case


class Difference(NamedTuple):
    apis: str
    cases: str
    """A pattern of `Case.name`."""
    reason: str
    newest: int = 32_767
    """The last version that differs."""

    def covers(self, case: Case) -> bool:
        named = case.key.name in self.apis.split() and fnmatchcase(case.name, self.cases)
        return named and case.version <= self.newest


EXCEPTION = (
    "Apache's handler fails with an exception that it does not expect: it says UNKNOWN_SERVER_ERROR, closes the "
    "connection or never answers. Ours says what is wrong, or answers what can be answered."
)
EXCEPTIONS = {
    "ALTER_CONFIGS": ("resources=twice",),
    "ALTER_USER_SCRAM_CREDENTIALS": ("upsertions.salted_password=no bytes",),
    "API_VERSIONS": (TOO_NEW,),
    "CONTROLLED_SHUTDOWN": ("broker_id=*",),
    "CREATE_PARTITIONS": ("topics.name=''",),
    "DESCRIBE_CLIENT_QUOTAS": ("components.match_type=*",),
    "ELECT_LEADERS": ("election_type=*",),
    "FETCH": ("isolation_level=*", "max_bytes=-*", "topics.partitions.partition_max_bytes=-*"),
    "INCREMENTAL_ALTER_CONFIGS": ("resources.configs.config_operation=*",),
    "JOIN_GROUP": ("protocols.metadata=9 bytes", "protocols=twice"),
    "LEADER_AND_ISR": ("topic_states=twice",),
    "LIST_OFFSETS": ("isolation_level=*",),
    "METADATA": ("topics.name=null",),
    "OFFSET_FETCH": ("group_id=''", "groups=[[]]"),
    "PRODUCE": ("topic_data.partition_data.records=null",),
    "UPDATE_METADATA": ("live_brokers.endpoints.security_protocol=*",),
    "WRITE_TXN_MARKERS": ("markers.topics.partition_indexes=twice", "markers.topics=twice"),
}
"""The cases in which it does, by API. Anywhere else what Apache does not answer is a difference like any other."""

DIFFERENCES = [
    Difference(
        "PRODUCE FETCH LIST_OFFSETS OFFSET_COMMIT CREATE_TOPICS ALTER_CLIENT_QUOTAS ADD_PARTITIONS_TO_TXN",
        "*=twice",
        "What is named twice in one request, which no client does: Apache collects some requests in a map, where the "
        "last one wins, and ours answers each as it stands there.",
    ),
    Difference(
        "PRODUCE WRITE_TXN_MARKERS ADD_PARTITIONS_TO_TXN",
        "*=[[]]",
        "A topic without partitions is named again in one answer and left out in the other; nothing is said of it.",
    ),
    Difference(
        "PRODUCE",
        "topic_data.partition_data.records=*",
        "Bytes that hold no whole batch are refused in every version. Apache takes them, in versions 0 to 2, for a "
        "message set without messages and acknowledges that; its error code for a few bytes of garbage is another.",
        newest=2,
    ),
    Difference(
        "LIST_OFFSETS",
        "*",
        "Version 0, of clients before 0.10.1, may ask for several offsets: Apache answers where segments begin, by the "
        "times of their files. Ours answers one offset, and finds it by the records' own times.",
        newest=0,
    ),
    Difference(
        "FETCH",
        "topics.partitions.current_leader_epoch=-2",
        "A leader epoch below -1 is taken for an old one, as in the other requests that have it; Apache's Fetch takes "
        "it for none.",
    ),
    Difference(
        "FETCH",
        "topics.partitions.partition_max_bytes=7",
        "Versions 0 to 2 get as much of a batch as was asked for, so that a client can see how large it is; of fewer "
        "bytes than a message's head Apache returns none.",
        newest=2,
    ),
    Difference(
        "FETCH",
        "topics.topic_id=no id",
        "Without a topic id no topic is asked for: UNKNOWN_TOPIC_OR_PARTITION in place of UNKNOWN_TOPIC_ID.",
    ),
    Difference(
        "OFFSET_FETCH",
        "to the other broker",
        "Apache answers version 1 without any partition, from which a client learns nothing; ours says NOT_COORDINATOR "
        "with each.",
    ),
    Difference(
        "DELETE_TOPICS",
        "topics.topic_id=no id",
        "Neither a name nor an id: UNKNOWN_TOPIC_ID, where Apache says TOPIC_AUTHORIZATION_FAILED of a topic without "
        "a name.",
    ),
    Difference(
        "ALTER_CLIENT_QUOTAS",
        "entries.ops.value=nan",
        "NaN is no rate, and is refused. Apache stores it.",
    ),
    Difference(
        "WRITE_TXN_MARKERS",
        "markers.producer_*=-2",
        "No producer has such an id or epoch, and no marker is written for it; Apache takes -1 alone for none.",
    ),
    Difference(
        "DESCRIBE_CONFIGS",
        "*",
        "Version 0 says of each value whether it is the default one; Apache 3.9 has forgotten to, and says of none "
        "that it is.",
        newest=0,
    ),
    Difference(
        "DESCRIBE_CONFIGS",
        "resources.resource_type=*",
        "A resource of an unknown type is refused alone; Apache refuses the others of the request with it.",
    ),
]


def reason(case: Case, ours: Any, apaches: Any) -> str | None:
    """Why the answers to `case` may differ; None where they may not."""
    failed = apaches in (SILENCE, CLOSED) or "'error_code': -1" in repr(apaches)
    answered = ours not in (SILENCE, CLOSED) and "'error_code': -1" not in repr(ours)
    if failed and answered and any(fnmatchcase(case.name, each) for each in EXCEPTIONS.get(case.key.name, ())):
        return EXCEPTION
    for each in DIFFERENCES:
        if each.covers(case):
            return each.reason
    return None
