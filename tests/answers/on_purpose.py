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
    "Apache's handler fails with an unexpected exception: it answers UNKNOWN_SERVER_ERROR, closes the connection or "
    "never answers. Barnabas answers with the actual error, or handles the request."
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
        "A topic or partition is named twice in one request, which no client does: Apache collects the entries of some"
        " requests in a map, in which the last one wins. Barnabas answers each entry separately.",
    ),
    Difference(
        "PRODUCE WRITE_TXN_MARKERS ADD_PARTITIONS_TO_TXN",
        "*=[[]]",
        "A topic without partitions is in one broker's answer and not in the other's; neither says anything about it.",
    ),
    Difference(
        "PRODUCE",
        "topic_data.partition_data.records=*",
        "Barnabas refuses bytes without a complete batch in every version. Apache, in versions 0 to 2, takes them as a"
        " message set without messages and acknowledges it; for a few bytes of garbage it has another error code.",
        newest=2,
    ),
    Difference(
        "LIST_OFFSETS",
        "*",
        "Version 0, of clients before 0.10.1, may ask for several offsets. Apache answers with the first offsets of "
        "segments, by the times of their files. Barnabas answers with one offset, found by the records' own times.",
        newest=0,
    ),
    Difference(
        "FETCH",
        "topics.partitions.current_leader_epoch=-2",
        "Barnabas treats a leader epoch below -1 as an old epoch, as the other requests with a leader epoch do; "
        "Apache's Fetch treats it as no epoch.",
    ),
    Difference(
        "FETCH",
        "topics.partitions.partition_max_bytes=7",
        "In versions 0 to 2 Barnabas returns the requested number of bytes of a batch, so that a client can see the "
        "batch's size. Apache returns none if they are fewer than a message's header.",
        newest=2,
    ),
    Difference(
        "FETCH",
        "topics.topic_id=no id",
        "Without a topic id Barnabas answers UNKNOWN_TOPIC_OR_PARTITION, Apache UNKNOWN_TOPIC_ID.",
    ),
    Difference(
        "OFFSET_FETCH",
        "to the other broker",
        "Apache's answer to version 1 has no partition, so a client does not see the error; Barnabas answers "
        "NOT_COORDINATOR for each partition.",
    ),
    Difference(
        "DELETE_TOPICS",
        "topics.topic_id=no id",
        "A topic with neither a name nor an id: Barnabas answers UNKNOWN_TOPIC_ID, Apache TOPIC_AUTHORIZATION_FAILED.",
    ),
    Difference(
        "ALTER_CLIENT_QUOTAS",
        "entries.ops.value=nan",
        "Barnabas refuses NaN as a quota. Apache stores it.",
    ),
    Difference(
        "WRITE_TXN_MARKERS",
        "markers.producer_*=-2",
        "No producer can have this id or epoch: Barnabas writes no marker for it. Apache treats only -1 as missing.",
    ),
    Difference(
        "DESCRIBE_CONFIGS",
        "*",
        "Version 0 has a field for each value that tells whether it is the default. Apache 3.9 never sets it.",
        newest=0,
    ),
    Difference(
        "DESCRIBE_CONFIGS",
        "resources.resource_type=*",
        "Barnabas refuses only the resource of an unknown type; Apache refuses the request's other resources as well.",
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
