"""ACLs of resources that no znode can be named like: each is refused alone."""

from __future__ import annotations

import contextlib
from typing import Any

from barnabas.client.blocking import BlockingConnection
from barnabas.model.acl import Operation, PatternType, Permission, ResourceType
from barnabas.model.errors import ErrorCode
from barnabas.testing import KafkaCluster
from barnabas.wire.messages.create_acls import CreateAclsRequest
from barnabas.wire.messages.delete_acls import DeleteAclsRequest

CONFIG = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS",
}
NAMES = {"before": 0, "..": 42, ".": 42, "\x00": 42, "a/b": 42, "after": 0}


def test_the_others_of_the_request_are_made_and_deleted() -> None:
    with KafkaCluster(1, config=CONFIG) as cluster:
        host, _, port = cluster.bootstrap.partition(":")
        with contextlib.closing(BlockingConnection(host, int(port), "acls")) as connection:
            creations = [
                CreateAclsRequest.AclCreation(
                    resource_type=ResourceType.GROUP,
                    resource_name=name,
                    resource_pattern_type=PatternType.LITERAL,
                    principal="User:alice",
                    host="*",
                    operation=Operation.READ,
                    permission_type=Permission.ALLOW,
                )
                for name in NAMES
            ]
            created: Any = connection.send(CreateAclsRequest(creations=creations), 3)
            assert [result.error_code for result in created.results] == list(NAMES.values())
            filters = [
                DeleteAclsRequest.DeleteAclsFilter(
                    resource_type_filter=ResourceType.GROUP,
                    resource_name_filter=name,
                    pattern_type_filter=PatternType.LITERAL,
                    principal_filter=None,
                    host_filter=None,
                    operation=Operation.ANY,
                    permission_type=Permission.ANY,
                )
                for name in NAMES
            ]
            deleted: Any = connection.send(DeleteAclsRequest(filters=filters), 3)
            found = [(result.error_code, len(result.matching_acls)) for result in deleted.filter_results]
            assert found == [(ErrorCode.NONE, 1 - bool(code)) for code in NAMES.values()]
