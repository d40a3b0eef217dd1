"""Users, clients and addresses that no znode can be named like: each is refused alone."""

from __future__ import annotations

import contextlib
from typing import Any

from barnabas.client.blocking import BlockingConnection
from barnabas.model.errors import ErrorCode
from barnabas.testing import KafkaCluster
from barnabas.wire.messages.alter_client_quotas import AlterClientQuotasRequest
from barnabas.wire.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from barnabas.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest

NAMES = {"before": True, "..": False, ".": False, "...": True, "\x00": True, "a/b": True, "after": True}
"""Whether a znode can be named like this, once it is sanitized."""


def test_the_others_of_the_request_are_kept() -> None:
    with KafkaCluster(1) as cluster:
        host, _, port = cluster.bootstrap.partition(":")
        with contextlib.closing(BlockingConnection(host, int(port), "names")) as connection:
            entities = [{"user": name} for name in NAMES]
            entities += [{"client-id": name} for name in NAMES]
            entities += [{"user": name, "client-id": "app"} for name in NAMES]
            entities += [{"user": "kate", "client-id": name} for name in NAMES]
            data = AlterClientQuotasRequest
            entries = [
                data.EntryData(
                    [data.EntityData(*part) for part in entity.items()], [data.OpData("request_percentage", 1.0)]
                )
                for entity in [*entities, {"ip": ".."}]
            ]
            altered: Any = connection.send(AlterClientQuotasRequest(entries=entries), 1)
            expected = [ErrorCode.NONE if kept else ErrorCode.INVALID_REQUEST for kept in NAMES.values()] * 4
            assert [entry.error_code for entry in altered.entries] == [*expected, ErrorCode.INVALID_REQUEST]

            upsertions = [
                AlterUserScramCredentialsRequest.ScramCredentialUpsertion(name, 1, 4096, b"salt", b"x" * 32)
                for name in NAMES
            ]
            made: Any = connection.send(AlterUserScramCredentialsRequest(upsertions=upsertions), 0)
            codes = {result.user: result.error_code for result in made.results}
            refused = ErrorCode.UNACCEPTABLE_CREDENTIAL
            assert codes == {name: ErrorCode.NONE if kept else refused for name, kept in NAMES.items()}

            asked = [DescribeUserScramCredentialsRequest.UserName(name) for name in NAMES]
            described: Any = connection.send(DescribeUserScramCredentialsRequest(users=asked), 0)
            found = {result.user: result.error_code for result in described.results}
            absent = ErrorCode.RESOURCE_NOT_FOUND
            assert found == {name: ErrorCode.NONE if kept else absent for name, kept in NAMES.items()}
