"""ACLs, quotas and delegation tokens in ZooKeeper: what Apache Kafka writes we read, and what we write it reads."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path

import apache
import pytest
from kafka_tools import tool

from barnabas.runtime.real import real_runtime
from barnabas.zk.client.client import ZooKeeperClient
from barnabas.zk.kafka.delegation_tokens import TokenInformation
from barnabas.zk.kafka.security_znodes import AclEntry, ResourcePattern, ResourceZNode
from barnabas.zk.kafka.zk_client import KafkaZkClient
from barnabas.zk.kafka.znode_json import sanitize
from barnabas.zk.protocol.errors import NodeExists

BROKER_CONFIG = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "super.users": "User:ANONYMOUS",
    "delegation.token.secret.key": "secret",
}
TOPIC = ResourcePattern("TOPIC", "orders")
GROUPS = ResourcePattern("GROUP", "app-", "PREFIXED")
TRANSACTIONS = ResourcePattern("TRANSACTIONAL_ID", "tx")
READ = AclEntry("User:alice", "Allow", "*", "Read")


def _acls(kafka: apache.ApacheCluster, *arguments: str) -> str:
    said = tool("kafka-acls", "--bootstrap-server", kafka.bootstrap, *arguments)
    assert said.status == 0, said
    return said.out


@pytest.mark.apache
def test_kafka_and_barnabas_read_each_others_acls_quotas_and_tokens(tmp_path: Path) -> None:
    async def play(kafka: apache.ApacheCluster) -> None:
        loop = asyncio.get_running_loop()
        client = ZooKeeperClient(
            real_runtime(), kafka.zookeeper, session_timeout_ms=18_000, connection_timeout_ms=18_000, name="test"
        )
        await client.start()
        zk = KafkaZkClient(client.runtime, client)
        before = {path: await client.children(path) for path in ("/kafka-acl", "/kafka-acl-extended/prefixed")}
        await zk.create_acl_paths()  # Kafka's authorizer has made them all already
        for path, names in before.items():
            assert sorted(await client.children(path)) == sorted(names)
        await zk.create_delegation_token_paths()

        # Kafka writes, we read.
        def kafka_writes() -> None:
            _acls(kafka, "--add", "--allow-principal", "User:alice", "--operation", "Read", "--topic", "orders")
            _acls(
                kafka,
                *("--add", "--deny-principal", "User:bob", "--operation", "Describe", "--group", "app-"),
                *("--resource-pattern-type", "prefixed", "--deny-host", "10.0.0.1"),
            )
            said = tool(
                *("kafka-configs", "--bootstrap-server", kafka.bootstrap, "--alter"),
                *("--add-config", "producer_byte_rate=1048576,request_percentage=50"),
                *("--entity-type", "users", "--entity-name", "a b", "--entity-type", "clients", "--entity-name", "c*"),
            )
            assert said.status == 0, said

        await loop.run_in_executor(None, kafka_writes)
        found = await zk.get_versioned_acls_for_resource(TOPIC)
        assert (found.acls, found.zk_version) == ((READ,), 0)
        prefixed = await zk.get_versioned_acls_for_resource(GROUPS)
        assert prefixed.acls == (AclEntry("User:bob", "Deny", "10.0.0.1", "Describe"),)
        assert await zk.get_resource_names("PREFIXED", "GROUP") == ["app-"]
        assert await zk.get_resource_types("LITERAL") == [
            *("Cluster", "DelegationToken", "Group", "Topic", "TransactionalId", "User")
        ]
        assert await zk.get_all_entities_with_config("users") == [sanitize("a b")] == ["a%20b"]
        assert await zk.get_all_entities_with_config("users/a%20b/clients") == [sanitize("c*")] == ["c%2A"]
        assert await zk.get_entity_configs("users", "a%20b/clients/c%2A") == {
            "producer_byte_rate": "1048576",
            "request_percentage": "50.0",
        }
        notified = [
            await client.get(f"/kafka-acl-changes/{name}") for name in await zk.get_children("/kafka-acl-changes")
        ]
        assert [data for data, _ in notified] == [b"TOPIC:orders"]
        extended = [
            await client.get(f"/kafka-acl-extended-changes/{name}")
            for name in await zk.get_children("/kafka-acl-extended-changes")
        ]
        assert [json.loads(data or b"") for data, _ in extended] == [
            {"version": 1, "resourceType": "GROUP", "name": "app-", "patternType": "PREFIXED"}
        ]

        # We write, Kafka reads: each change is announced as its own authorizer does it.
        write = AclEntry("User:carol", "Allow", "*", "Write")
        assert await zk.conditional_set_acls_for_resource(TOPIC, [READ, write], 7) == (False, -2)
        assert await zk.conditional_set_acls_for_resource(TOPIC, [READ, write], 0) == (True, 1)
        await zk.create_acl_change_notification(TOPIC)
        assert await zk.create_acls_for_resource_if_not_exists(TRANSACTIONS, [write]) == (True, 0)
        assert await zk.create_acls_for_resource_if_not_exists(TRANSACTIONS, [write]) == (False, -2)
        await zk.create_acl_change_notification(TRANSACTIONS)
        assert not await zk.conditional_delete(GROUPS, 5)
        assert await zk.conditional_delete(GROUPS, 0)
        assert await zk.conditional_delete(GROUPS, 0)
        await zk.create_acl_change_notification(GROUPS)
        assert not await zk.path_exists(ResourceZNode.path("Group", GROUPS.name, GROUPS.pattern_type))

        def kafka_reads() -> None:
            deadline = time.monotonic() + 30
            while True:
                listed = _acls(kafka, "--list")
                if "tx" in listed and "app-" not in listed and "User:carol" in listed:
                    break
                assert time.monotonic() < deadline, listed
            assert "resourceType=TRANSACTIONAL_ID, name=tx, patternType=LITERAL" in listed
            assert listed.count("User:carol") == 2
            assert listed.count("User:alice") == 1

        await loop.run_in_executor(None, kafka_reads)
        assert await zk.conditional_delete(TRANSACTIONS, 0)

        # Tokens: the znode of Kafka's own trace, value by value.
        token = TokenInformation(
            *("V9Li1YizRDqLlqzN9rigYg", "User:bob", "User:bob", ("User:alice",)),
            *(1795228798842, 1795833598842, 1795315198842),
        )
        await zk.set_or_create_delegation_token(token)
        await zk.set_or_create_delegation_token(token)
        await zk.create_token_change_notification(token.token_id)
        data, stat = await client.get(f"/delegation_token/tokens/{token.token_id}")
        assert stat.version == 1
        assert json.loads(data or b"") == {
            "issueTimestamp": 1795228798842, "renewers": ["User%3Aalice"], "tokenRequester": "User%3Abob",
            "tokenId": "V9Li1YizRDqLlqzN9rigYg", "owner": "User%3Abob", "expiryTimestamp": 1795315198842,
            "maxTimestamp": 1795833598842, "version": 3,
        }  # fmt: skip
        assert await zk.get_delegation_token_info(token.token_id) == token
        assert await zk.get_delegation_tokens() == {token.token_id: token}
        (changed,) = await zk.get_children("/delegation_token/token_changes")
        assert changed == "token_change_0000000000"
        assert (await client.get(f"/delegation_token/token_changes/{changed}"))[0] == token.token_id.encode()
        assert await zk.delete_delegation_token(token.token_id)
        assert await zk.get_delegation_token_info(token.token_id) is None
        with pytest.raises(NodeExists):
            await zk.create_recursive("/delegation_token/tokens")
        await client.close()

    with apache.ApacheCluster(tmp_path, brokers=1, config=BROKER_CONFIG) as kafka:
        asyncio.run(play(kafka))
