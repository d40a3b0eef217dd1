"""``make rights``: asks Barnabas and Apache Kafka 3.9.1, both with an authorizer, the same in many roles, and writes
``docs/authorization.md``.

A role is an address on loopback: ACLs allow and deny ANONYMOUS by host. In each role requests are asked that make sense
and requests for what does not exist; who must not must learn nothing. Of each API every version is asked in the roles
that its rights matter to, and the newest one in all roles. Ends with 1 where an answer differs.
``--only FETCH,JOIN_GROUP`` asks a share and writes nothing.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from answers.asking import Asked
from answers.beside import CONFIG, apaches, ours
from answers.cases import ABSENT, VALID, Case, digest, every_version, newest_versions, tell
from answers.tables import REFUSED
from cluster import until

from barnabas.client.blocking import BlockingConnection
from barnabas.model.acl import CLUSTER_NAME, SUPPORTED_OPERATIONS, Operation, PatternType, Permission, ResourceType
from barnabas.wire.api import SUPPORTED, ApiKey
from barnabas.wire.messages.create_acls import CreateAclsRequest
from barnabas.wire.messages.describe_acls import DescribeAclsRequest

PAGE = Path(__file__).parents[2] / "docs" / "authorization.md"
RECORDED = Path(__file__).with_name("recorded_rights.json")
"""What Apache Kafka 3.9.1 answers to the newest versions in every role, see `shortened`."""

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


def roles_of(key: ApiKey, version: int) -> list[Role]:
    if version == SUPPORTED[key][1]:
        return list(ROLES)
    of_rights = {*(f"{each} alone" for each in RIGHTS_OF[key]), *(f"all but {each}" for each in RIGHTS_OF[key])}
    return [each for each in ROLES if each in (NOBODY, EVERYBODY) or each.name in of_rights]


def cases_of(key: ApiKey, version: int) -> Iterator[Case]:
    yield Case(key, version, VALID)
    if key in REFUSED:
        yield Case(key, version, ABSENT)


def secure(asked: Asked) -> dict[str, Asked]:
    """Makes the roles, and a connection for each by its name. Whoever comes from 127.0.0.1, brokers among them, may do
    everything."""
    world = asked.world
    bindings = [("127.0.0.1", permission, right) for permission, right in ALL]
    bindings += [(role.address, permission, right) for role in ROLES for permission, right in role.acls]
    creations = [
        CreateAclsRequest.AclCreation(
            right.resource_type,
            CLUSTER_NAME if right.resource_type is CLUSTER else "*",
            PatternType.LITERAL,
            "User:ANONYMOUS",
            host,
            right.operation,
            permission,
        )
        for host, permission, right in bindings
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
    return {role.name: Asked(world, role.address) for role in ROLES}


def masked(answer: Any) -> Any:
    """Of a refusal on the cluster Kafka tells the whole request, and ours which right is missing."""
    if isinstance(answer, dict):
        return {name: masked(each) for name, each in answer.items()}
    if isinstance(answer, str) and answer.startswith("Request "):
        return "Request refused"
    if isinstance(answer, list):
        return [masked(each) for each in answer]
    return answer


def asked_in_roles(
    mine: dict[str, Asked], theirs: dict[str, Asked], key: ApiKey, version: int
) -> Iterator[tuple[Case, Role, Any, Any]]:
    """What was asked in which role, and both answers."""
    for role in roles_of(key, version):
        for case in cases_of(key, version):
            yield case, role, masked(tell(mine[role.name], case)), masked(tell(theirs[role.name], case))


ON_PURPOSE = {
    (ApiKey.OFFSET_FETCH, 1): "Apache answers version 1 of OffsetFetch without any partition, from which a client "
    "learns nothing; ours says GROUP_AUTHORIZATION_FAILED with each.",
    (ApiKey.DESCRIBE_CONFIGS, 0): "Version 0 of DescribeConfigs says of each value whether it is the default one; "
    "Apache 3.9 has forgotten to.",
}


def shortened(told: dict[str, list[str]]) -> dict[str, list[str]]:
    """The roles by what they are told; whoever is named nowhere is told what has no names."""
    most = max(told, key=lambda each: len(told[each]))
    return {each: [] if each == most else roles for each, roles in told.items()}


def record() -> str:
    """What Apache's newest versions answer, by themselves, as JSON, one case a line."""
    lines = []
    with tempfile.TemporaryDirectory(prefix="rights-") as directory, apaches(Path(directory), SECURED) as asked:
        of_roles = secure(asked)
        for key, version in newest_versions():
            told: dict[str, dict[str, list[str]]] = {}
            for role in ROLES:
                for case in cases_of(key, version):
                    answer = digest(masked(tell(of_roles[role.name], case)))
                    told.setdefault(str(case), {}).setdefault(answer, []).append(role.name)
            lines += [f"{json.dumps(case)}: {json.dumps(shortened(each))}" for case, each in told.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


HEAD = """# Authorization

Made by `make rights`; not written by hand. Two brokers of Barnabas and two of Apache Kafka 3.9.1, all with
`AclAuthorizer`, are asked the same in {roles} roles: with no right, with every right, with each right alone, and with
all rights but one. A right is an operation on all resources of a type. In each role a request is asked that makes
sense, and one for what does not exist; all versions of an API in the roles that have or lack a right that the API goes
by, the newest version in all roles. Answers are equal when all their fields are, but for ids, times, ports and the
like, which [conformance.md](conformance.md) names, and for the words in which a request is refused on the cluster.

| API | key | versions | goes by | asked | equal | differ on purpose |
| --- | --- | --- | --- | --- | --- | --- |
"""


def write(asked: Counter[ApiKey], same: Counter[ApiKey], meant: Counter[ApiKey], wrong: list[str]) -> None:
    lines = [HEAD.format(roles=len(ROLES)).rstrip("\n")]
    for key in asked:
        name = "".join(word.capitalize() for word in key.name.split("_"))
        low, high = SUPPORTED[key]
        versions = f"{low} to {high}" if high > low else str(low)
        rights = ", ".join(map(str, RIGHTS_OF[key])) or "nothing"
        lines.append(
            f"| {name} | {int(key)} | {versions} | {rights} | {asked[key]} | {same[key]} | {meant[key] or ''} |"
        )
    lines.append(f"| all | {len(asked)} | | | {asked.total()} | {same.total()} | {meant.total()} |")
    lines += ["", "On purpose:", "", *(f"- {each}" for each in ON_PURPOSE.values())]
    if wrong:
        lines += ["", "## Differences", "", *(f"- {each}" for each in wrong)]
    PAGE.write_text("\n".join(lines) + "\n")


def main() -> int:
    from answers.__main__ import differences

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="names of APIs, separated by commas")
    only = {each for each in parser.parse_args().only.split(",") if each}
    asked: Counter[ApiKey] = Counter()
    same: Counter[ApiKey] = Counter()
    meant: Counter[ApiKey] = Counter()
    wrong: list[str] = []
    with (
        tempfile.TemporaryDirectory(prefix="rights-") as directory,
        ours(Path(directory) / "ours", SECURED) as mine,
        apaches(Path(directory) / "apache", SECURED) as theirs,
    ):
        here, there = secure(mine), secure(theirs)
        for key, version in every_version():
            if only and key.name not in only:
                continue
            found = []
            for case, role, ours_told, apaches_told in asked_in_roles(here, there, key, version):
                asked[key] += 1
                if ours_told == apaches_told:
                    same[key] += 1
                elif (key, version) in ON_PURPOSE:
                    meant[key] += 1
                else:
                    found.append(f"{case}, {role.name}: {'; '.join(differences(ours_told, apaches_told)[:3])}")
            wrong += found
            print("\n".join(found) or f"{key.name} {version}", flush=True)
    print(f"{asked.total()} requests, {len(wrong)} answers differ")
    if not only:
        write(asked, same, meant, wrong)
        RECORDED.write_text(record())
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
