"""``make rights``: asks Barnabas and Apache Kafka 3.9.2, both with an authorizer, the same in many roles through every
door, and writes ``docs/authorization.md``.

A role is an address on loopback: ACLs allow and deny a principal by host. In each role requests are asked that make
sense and requests for what does not exist; who must not must learn nothing. Of each API every version is asked in the
roles that its rights matter to, and the newest one in all roles; the same over each listener, as ANONYMOUS or a user,
and as another user who has no rights there. Ends with 1 where an answer differs.
``--only FETCH,JOIN_GROUP`` asks a share and writes nothing; ``--doors 0,2`` likewise.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from answers.asking import SILENCE, Asked
from answers.beside import CONFIG
from answers.cases import ABSENT, VALID, Case, digest, every_version, newest_versions, tell
from answers.doors import ANONYMOUS, DOORS, PLAINTEXT, WITH_RIGHTS, WITHOUT, Door, Pair, apaches, make_keys, ours
from answers.tables import REFUSED
from cluster import until

from barnabas.client.blocking import BlockingConnection
from barnabas.model.acl import CLUSTER_NAME, SUPPORTED_OPERATIONS, Operation, PatternType, Permission, ResourceType
from barnabas.wire.api import SUPPORTED, ApiKey
from barnabas.wire.messages.create_acls import CreateAclsRequest
from barnabas.wire.messages.describe_acls import DescribeAclsRequest

PAGE = Path(__file__).parents[2] / "docs" / "authorization.md"
RECORDED = Path(__file__).with_name("recorded_rights.json")
"""What Apache Kafka 3.9.2 answers to the newest versions in every role, see `shortened`; through the other doors in the
roles that matter, where it answers something else there."""

SECURED = {
    **CONFIG,
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    # Until there are ACLs; then there are some for every resource.
    "allow.everyone.if.no.acl.found": "true",
}
ALLOW, DENY = Permission.ALLOW, Permission.DENY
TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
TRANSACTIONAL_ID = ResourceType.TRANSACTIONAL_ID
USER, TOKEN = ResourceType.USER, ResourceType.DELEGATION_TOKEN
TYPES = (TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID, USER, TOKEN)


class Right(NamedTuple):
    resource_type: ResourceType
    operation: Operation

    def __str__(self) -> str:
        return f"{self.operation.words} {self.resource_type.words}"


class Role(NamedTuple):
    name: str
    address: str
    acls: tuple[tuple[Permission, Right], ...]


ALL = tuple((ALLOW, Right(each, Operation.ALL)) for each in TYPES)
RIGHTS = tuple(Right(each, operation) for each in TYPES for operation in SUPPORTED_OPERATIONS[each])
NOBODY = Role("nothing", "127.0.1.1", ())
EVERYBODY = Role("everything", "127.0.1.2", ALL)
ROLES = (
    NOBODY,
    EVERYBODY,
    *(Role(f"{each} alone", f"127.0.2.{n}", ((ALLOW, each),)) for n, each in enumerate(RIGHTS, 1)),
    *(Role(f"all but {each}", f"127.0.3.{n}", (*ALL, (DENY, each))) for n, each in enumerate(RIGHTS, 1)),
)
OTHER = Role("another user", EVERYBODY.address, ())
"""Comes from where another may do everything."""


def _rights(words: str) -> tuple[Right, ...]:
    letters = {"T": TOPIC, "G": GROUP, "C": CLUSTER, "X": TRANSACTIONAL_ID, "U": USER, "K": TOKEN}
    names = {"R": "READ", "W": "WRITE", "CR": "CREATE", "DEL": "DELETE", "AL": "ALTER", "D": "DESCRIBE"}
    names |= {"DC": "DESCRIBE_CONFIGS", "AC": "ALTER_CONFIGS", "CA": "CLUSTER_ACTION", "IW": "IDEMPOTENT_WRITE"}
    names |= {"CT": "CREATE_TOKENS", "DT": "DESCRIBE_TOKENS"}
    pairs = (each.split(".") for each in words.split())
    return tuple(Right(letters[letter], Operation[names[name]]) for name, letter in pairs)


MATTER = {
    "PRODUCE": "W.T W.X", "FETCH": "R.T CA.C", "LIST_OFFSETS": "D.T", "METADATA": "D.T CR.C CR.T D.C",
    "LEADER_AND_ISR STOP_REPLICA UPDATE_METADATA CONTROLLED_SHUTDOWN ALTER_PARTITION ALLOCATE_PRODUCER_IDS": "CA.C",
    "OFFSET_COMMIT": "R.G R.T", "OFFSET_FETCH": "D.G D.T", "FIND_COORDINATOR": "D.G D.X",
    "JOIN_GROUP HEARTBEAT LEAVE_GROUP SYNC_GROUP": "R.G", "DESCRIBE_GROUPS": "D.G R.G", "LIST_GROUPS": "D.C D.G",
    "CREATE_TOPICS": "CR.C CR.T DC.T", "DELETE_TOPICS": "DEL.T D.T", "DELETE_RECORDS": "DEL.T",
    "INIT_PRODUCER_ID": "W.X IW.C W.T", "OFFSET_FOR_LEADER_EPOCH": "CA.C D.T", "ADD_PARTITIONS_TO_TXN": "W.X W.T CA.C",
    "ADD_OFFSETS_TO_TXN": "W.X R.G", "END_TXN": "W.X", "WRITE_TXN_MARKERS": "AL.C CA.C",
    "TXN_OFFSET_COMMIT": "W.X R.G R.T", "DESCRIBE_ACLS DESCRIBE_LOG_DIRS LIST_PARTITION_REASSIGNMENTS": "D.C",
    "DESCRIBE_USER_SCRAM_CREDENTIALS DESCRIBE_CLUSTER": "D.C",
    "CREATE_ACLS DELETE_ACLS ALTER_REPLICA_LOG_DIRS ELECT_LEADERS ALTER_PARTITION_REASSIGNMENTS": "AL.C",
    "ALTER_USER_SCRAM_CREDENTIALS UPDATE_FEATURES": "AL.C", "DESCRIBE_CONFIGS": "DC.T DC.C",
    "ALTER_CONFIGS INCREMENTAL_ALTER_CONFIGS": "AC.T AC.C", "CREATE_PARTITIONS": "AL.T", "DELETE_GROUPS": "DEL.G",
    "OFFSET_DELETE": "DEL.G R.T", "DESCRIBE_CLIENT_QUOTAS": "DC.C", "ALTER_CLIENT_QUOTAS": "AC.C",
    "DESCRIBE_PRODUCERS": "R.T", "DESCRIBE_TRANSACTIONS": "D.X D.T", "LIST_TRANSACTIONS": "D.X",
    "API_VERSIONS SASL_HANDSHAKE SASL_AUTHENTICATE": "",
    "CREATE_DELEGATION_TOKEN": "CT.U", "DESCRIBE_DELEGATION_TOKEN": "DT.U D.K",
    "RENEW_DELEGATION_TOKEN EXPIRE_DELEGATION_TOKEN": "",
}  # fmt: skip
"""By API the rights that decide on its answers (``KafkaApis``)."""
RIGHTS_OF = {ApiKey[name]: _rights(words) for names, words in MATTER.items() for name in names.split()}


WITHOUT_RIGHTS = frozenset(key for key, rights in RIGHTS_OF.items() if not rights)
LOGINS = frozenset({ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})
"""Who has logged in begins to log in again by these (KIP-368)."""


def roles_that_matter(key: ApiKey, door: Door = PLAINTEXT) -> list[Role]:
    """Nothing, everything, and each right of the API alone and missing; where users are known, another one, too."""
    of_rights = {*(f"{each} alone" for each in RIGHTS_OF[key]), *(f"all but {each}" for each in RIGHTS_OF[key])}
    others = [] if door.principal == ANONYMOUS else [OTHER]
    return [*(each for each in ROLES if each in (NOBODY, EVERYBODY) or each.name in of_rights), *others]


def roles_of(key: ApiKey, version: int, door: Door = PLAINTEXT) -> list[Role]:
    matter = roles_that_matter(key, door)
    if version < SUPPORTED[key][1]:
        return matter
    return [*ROLES, *(each for each in matter if each is OTHER)]


def asked_through(door: Door, key: ApiKey) -> bool:
    return not (door.mechanism and key in LOGINS)


def cases_of(key: ApiKey, version: int) -> Iterator[Case]:
    yield Case(key, version, VALID)
    if key in REFUSED:
        yield Case(key, version, ABSENT)


def secure(pair: Pair) -> None:
    """Makes the roles, for ANONYMOUS and for who logs in. Whoever comes from 127.0.0.1, brokers among them, may do
    everything."""
    world = pair.asked.world
    bindings = [("127.0.0.1", ANONYMOUS, permission, right) for permission, right in ALL]
    for principal in (ANONYMOUS, WITH_RIGHTS):
        bindings += [(role.address, principal, permission, right) for role in ROLES for permission, right in role.acls]
    creations = [
        CreateAclsRequest.AclCreation(
            right.resource_type,
            CLUSTER_NAME if right.resource_type is CLUSTER else "*",
            PatternType.LITERAL,
            f"User:{principal}",
            host,
            right.operation,
            permission,
        )
        for host, principal, permission, right in bindings
    ]
    for first in range(0, len(creations), len(ALL)):  # those of 127.0.0.1 before all others
        answer = world.ask(CreateAclsRequest(creations[first : first + len(ALL)]), 2)
        assert not any(each.error_code for each in answer.results)
    everything = DescribeAclsRequest(1, None, 1, None, None, 1, 1)
    for port in (world.port, world.other_port):
        connection = BlockingConnection("127.0.0.1", port, "rights")
        until(
            lambda told=connection: (
                sum(len(each.acls) for each in told.send(everything, 2).resources) >= len(creations)
            ),
            "the ACLs are known",
        )
        connection.close()


def entered(pair: Pair, door: Door) -> dict[str, Asked]:
    """A connection for each role by its name."""
    asked = {role.name: pair.through(door, role.address) for role in ROLES}
    return asked if door.principal == ANONYMOUS else {**asked, OTHER.name: pair.through(door, OTHER.address, WITHOUT)}


STORES = frozenset({"ssl.keystore.location", "ssl.truststore.location"})
ENDS = frozenset({"high_watermark", "last_stable_offset", "offset", "end_offset", "old_style_offsets"})
"""Transactions that are left open end by themselves, at any time; their markers are records."""


def masked(answer: Any) -> Any:
    """Of a refusal on the cluster Kafka tells the whole request, and ours which right is missing."""
    if isinstance(answer, dict):
        if answer.get("name") in STORES:
            answer = {**answer, "value": "a path"}
        return {
            name: "an offset" if name in ENDS and each not in (0, -1, []) else masked(each)
            for name, each in answer.items()
        }
    if isinstance(answer, str) and answer.startswith("Request "):
        return "Request refused"
    if isinstance(answer, list):
        return [masked(each) for each in answer]
    return answer


def told_in_roles(
    asked: dict[str, Asked], key: ApiKey, version: int, roles: list[Role]
) -> list[tuple[Case, Role, Any]]:
    """What was asked in which role, and the answers."""
    return [(case, role, masked(tell(asked[role.name], case))) for role in roles for case in cases_of(key, version)]


ON_PURPOSE = {
    (ApiKey.OFFSET_FETCH, 1): "Apache's answer to version 1 of OffsetFetch has no partition, so a client does not see "
    "the error; Barnabas answers GROUP_AUTHORIZATION_FAILED for each partition.",
    (ApiKey.DESCRIBE_CONFIGS, 0): "Version 0 of DescribeConfigs has a field for each value that tells whether it is "
    "the default. Apache 3.9 never sets it.",
}


def shortened(told: dict[str, list[str]]) -> dict[str, list[str]]:
    """The roles by what they are told; whoever is named nowhere is told what has no names."""
    most = max(told, key=lambda each: len(told[each]))
    return {each: [] if each == most else roles for each, roles in told.items()}


def digests(pair: Pair, door: Door) -> Iterator[tuple[str, dict[str, list[str]]]]:
    """By case, who is told what: through the plaintext door everybody, through the others those that matter."""
    asked = entered(pair, door)
    for key, version in newest_versions():
        if not asked_through(door, key):
            continue
        told: dict[str, dict[str, list[str]]] = {}
        roles = list(ROLES) if door is PLAINTEXT else roles_that_matter(key, door)
        for case, role, answer in told_in_roles(asked, key, version, roles):
            told.setdefault(str(case), {}).setdefault(digest(answer), []).append(role.name)
        yield from told.items()
    for each in asked.values():
        each.close()


def record() -> str:
    """What Apache's newest versions answer, by themselves, as JSON, one case a line."""
    recorded: dict[str, dict[str, list[str]]] = {}
    with tempfile.TemporaryDirectory(prefix="rights-") as directory:
        keys = make_keys(Path(directory) / "keys")
        with apaches(Path(directory) / "apache", keys, SECURED) as pair:
            secure(pair)
            for door in DOORS:
                for case, told in digests(pair, door):
                    if door is PLAINTEXT:
                        recorded[case] = shortened(told)
                    elif any(
                        expected(recorded, door, case, role) != said for said, roles in told.items() for role in roles
                    ):
                        recorded[f"{door.name}: {case}"] = shortened(told)
    return "{\n" + ",\n".join(f"{json.dumps(case)}: {json.dumps(each)}" for case, each in recorded.items()) + "\n}\n"


def expected(recorded: dict[str, dict[str, list[str]]], door: Door, case: str, role: str) -> str:
    """What Apache Kafka said; through the plaintext door there is no other user, but who has no rights."""
    own = recorded.get(f"{door.name}: {case}")
    if own is None and role == OTHER.name:
        role = NOBODY.name
    of_case = own or recorded[case]
    named = next((each for each, roles in of_case.items() if role in roles), None)
    return named or next(each for each, roles in of_case.items() if not roles)


HEAD = """# Authorization

Made by `make rights`; not written by hand. Two brokers of Barnabas and two of Apache Kafka 3.9.2, all with
`AclAuthorizer`, get the same requests in {roles} roles: with no right, with every right, with each right alone, and
with all rights except one. A right is an operation on all resources of a type. Each role sends a valid request, and
one for a topic, group or transaction that does not exist. All versions of an API are sent in the roles that have or
lack a right that the API checks; the newest version is sent in all roles. The requests go over a listener of each
protocol. If a listener does not identify users, the rights are those of ANONYMOUS, else of a user who logs in or has a
certificate; there another user without rights sends the requests as well, from an address from which the first user
has all rights. Two answers are equal if all their fields are, except ids, times, ports and the like, which
[conformance.md](conformance.md) names, and except the text of a refusal on the cluster.

"""
API_TABLE = """| API | key | versions | goes by | asked | equal | differ on purpose |
| --- | --- | --- | --- | --- | --- | --- |"""
DOOR_TABLE = """| listener | rights are of | asked | equal | differ on purpose |
| --- | --- | --- | --- | --- |"""


class Counts:
    """By door and API, how many answers were compared, were equal, and differ on purpose."""

    def __init__(self) -> None:
        self.asked: Counter[tuple[str, ApiKey]] = Counter()
        self.same: Counter[tuple[str, ApiKey]] = Counter()
        self.meant: Counter[tuple[str, ApiKey]] = Counter()

    def row(self, door: str | None = None, key: ApiKey | None = None) -> str:
        def total(counter: Counter[tuple[str, ApiKey]]) -> int:
            return sum(
                count for (at, of), count in counter.items() if door in (None, at) and (key is None or of is key)
            )

        return f"{total(self.asked)} | {total(self.same)} | {total(self.meant) or ''} |"


def page(counts: Counts, wrong: list[str]) -> str:
    lines = [HEAD.format(roles=len(ROLES)).rstrip("\n"), "", DOOR_TABLE]
    lines += [f"| {door.name} | `User:{door.principal}` | {counts.row(door.name)}" for door in DOORS]
    lines += [f"| all | | {counts.row()}", "", API_TABLE]
    keys = list(dict.fromkeys(key for _, key in counts.asked))
    for key in keys:
        name = "".join(word.capitalize() for word in key.name.split("_"))
        low, high = SUPPORTED[key]
        versions = f"{low} to {high}" if high > low else str(low)
        rights = ", ".join(map(str, RIGHTS_OF[key])) or "nothing"
        lines.append(f"| {name} | {int(key)} | {versions} | {rights} | {counts.row(key=key)}")
    lines.append(f"| all | {len(keys)} | | | {counts.row()}")
    lines += ["", "On purpose:", "", *(f"- {each}" for each in ON_PURPOSE.values())]
    if wrong:
        lines += ["", "## Differences", "", *(f"- {each}" for each in wrong)]
    return "\n".join(lines) + "\n"


def compare(mine: Pair, theirs: Pair, door: Door, only: set[str], counts: Counts) -> list[str]:
    """What differs for no reason."""
    from answers.__main__ import differences

    here, there = entered(mine, door), entered(theirs, door)
    wrong = []
    with ThreadPoolExecutor(2) as both:
        for key, version in every_version():
            if (only and key.name not in only) or not asked_through(door, key):
                continue
            found = []
            roles = roles_of(key, version, door)
            answers = [both.submit(told_in_roles, asked, key, version, roles) for asked in (here, there)]
            for (case, role, ours_told), (_, _, apaches_told) in zip(*(each.result() for each in answers), strict=True):
                if SILENCE in (ours_told, apaches_told):  # a busy machine may have been late
                    ours_told, apaches_told = (masked(tell(asked[role.name], case)) for asked in (here, there))
                counts.asked[door.name, key] += 1
                if ours_told == apaches_told:
                    counts.same[door.name, key] += 1
                elif (key, version) in ON_PURPOSE:
                    counts.meant[door.name, key] += 1
                else:
                    told = "; ".join(differences(ours_told, apaches_told)[:3])
                    found.append(f"{door.name}: {case}, {role.name}: {told}")
            wrong += found
            print("\n".join(found) or f"{door.name}: {key.name} {version}", flush=True)
    for each in (*here.values(), *there.values()):
        each.close()
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="names of APIs, separated by commas")
    parser.add_argument("--doors", default="", help="numbers of doors, separated by commas")
    given = parser.parse_args()
    only = {each for each in given.only.split(",") if each}
    doors = [DOORS[int(each)] for each in given.doors.split(",") if each] or DOORS
    counts = Counts()
    wrong: list[str] = []
    with tempfile.TemporaryDirectory(prefix="rights-") as directory:
        keys = make_keys(Path(directory) / "keys")
        with (
            ours(Path(directory) / "ours", keys, SECURED) as mine,
            apaches(Path(directory) / "apache", keys, SECURED) as theirs,
        ):
            secure(mine)
            secure(theirs)
            for door in doors:
                wrong += compare(mine, theirs, door, only, counts)
    print(f"{counts.asked.total()} requests, {len(wrong)} answers differ")
    if not only and len(doors) == len(DOORS):
        PAGE.write_text(page(counts, wrong))
        RECORDED.write_text(record())
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
