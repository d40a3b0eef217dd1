"""``kafka-acls``: the access control lists of brokers with an authorizer (``kafka.admin.AclCommand``).

Brokers without an authorizer refuse it with SecurityDisabledException, as Kafka's do.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from barnabas.cli.kafka_tools.errors import JavaError, check_answer, illegal_argument, of_futures, print_stack_trace
from barnabas.cli.kafka_tools.options import OptionParser, ToolOption, ToolWords
from barnabas.cli.kafka_tools.requests import ToolAdmin
from barnabas.cli.kafka_tools.session import client_properties, with_admin
from barnabas.model.acl import CLUSTER_NAME, SUPPORTED_OPERATIONS, Operation, PatternType, Permission, ResourceType
from barnabas.wire.messages.create_acls import CreateAclsRequest
from barnabas.wire.messages.delete_acls import DeleteAclsRequest
from barnabas.wire.messages.describe_acls import DescribeAclsRequest

_AUTHORIZER: Final = (
    "Warning: support for ACL configuration directly through the authorizer is deprecated and will be removed in a "
    "future release. Please use --bootstrap-server instead to set ACLs through the admin client."
)


_O: Final = Operation


class _Filter(NamedTuple):
    resource: ResourceType
    name: str
    pattern: PatternType

    def shown(self, kind: str) -> str:
        return (
            f"{kind}(resourceType={self.resource.name}, name={self.name or '<any>'}, patternType={self.pattern.name})"
        )


class _Entry(NamedTuple):
    principal: str
    host: str
    operation: Operation
    permission: Permission

    def __str__(self) -> str:
        return (
            f"(principal={self.principal}, host={self.host}, operation={self.operation.name}, "
            f"permissionType={self.permission.name})"
        )


_CLUSTER: Final = _Filter(ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL)

Acls = dict[_Filter, list[_Entry]]


class _Words(ToolWords):
    def __init__(self, words: list[str]) -> None:
        parser = self.parser = OptionParser()
        self.server = parser.takes("bootstrap-server", "The brokers to ask first.", "server to connect to")
        self.config_file = parser.takes(
            "command-config", "A file of client properties.", "command-config", optional=True
        )
        self.authorizer = parser.takes("authorizer", "DEPRECATED, use --bootstrap-server.", "authorizer")
        self.authorizer_properties = parser.takes(
            "authorizer-properties", "DEPRECATED, use --bootstrap-server.", "authorizer-properties"
        )
        self.topic = parser.takes("topic", "A topic; * means all.", "topic")
        self.cluster = parser.flag("cluster", "The cluster.")
        self.group = parser.takes("group", "A group; * means all.", "group")
        self.transactional_id = parser.takes("transactional-id", "A transactional id; * means all.", "transactional-id")
        self.idempotent = parser.flag("idempotent", "With --producer: the producer is idempotent.")
        self.token = parser.takes("delegation-token", "A delegation token; * means all.", "delegation-token")
        self.pattern_type = parser.takes(
            "resource-pattern-type",
            "Whether names are literal or the beginnings of names; to list and to remove also any, and match for all "
            "that concern a name.",
            kind="ANY|MATCH|LITERAL|PREFIXED",
            default="LITERAL",
        )
        self.add = parser.flag("add", "Add ACLs.")
        self.remove = parser.flag("remove", "Remove ACLs.")
        self.list = parser.flag("list", "Show ACLs.")
        self.operation = parser.takes(
            "operation",
            "The operations that are allowed or denied: "
            + ", ".join(operation.words for operation in Operation if operation > _O.ANY),
            default="All",
        )
        self.allow_principal = parser.takes("allow-principal", "Who may, User:name.", "allow-principal")
        self.deny_principal = parser.takes("deny-principal", "Who may not.", "deny-principal")
        self.principal = parser.takes(
            "principal", "With --list: the principal whose ACLs are shown.", "principal", optional=True
        )
        self.allow_host = parser.takes("allow-host", "The client's address; * means any.", "allow-host")
        self.deny_host = parser.takes("deny-host", "From where not.", "deny-host")
        self.producer = parser.flag("producer", "The ACLs that a producer needs.")
        self.consumer = parser.flag("consumer", "The ACLs that a consumer needs.")
        self.force = parser.flag("force", "Ask nothing.")
        self.zk_tls = parser.takes(
            "zk-tls-config-file", "DEPRECATED, use --bootstrap-server.", "Authorizer ZooKeeper TLS configuration"
        )
        self.user = parser.takes(
            "user-principal", "A user whose delegation tokens the ACLs are about.", "user-principal"
        )
        self.options = parser.read(words, "This tool helps to manage acls on kafka.")
        self._check()

    def values(self, option: ToolOption) -> list[Any]:
        return [str(value).strip() for value in self.options.values(option)]

    def _check(self) -> None:
        has, usage = self.has, self.parser.usage_and_exit
        if has(self.server) and has(self.authorizer):
            usage("Only one of --bootstrap-server or --authorizer must be specified")
        if not has(self.server):
            self.parser.require(self.options, self.authorizer_properties)
            print(_AUTHORIZER, file=sys.stderr)
        if has(self.config_file) and not has(self.server):
            usage("The --command-config option can only be used with --bootstrap-server option")
        if has(self.authorizer_properties) and has(self.server):
            usage("The --authorizer-properties option can only be used with --authorizer option")
        if sum(map(has, (self.add, self.remove, self.list))) != 1:
            usage("Command must include exactly one action: --list, --add, --remove. ")
        denials = (self.deny_principal, self.deny_host)
        granting = (self.allow_host, self.allow_principal, self.deny_host, self.deny_principal)
        self.parser.forbid(self.options, self.list, (self.producer, self.consumer, *granting))
        self.parser.forbid(self.options, self.producer, (self.operation, *denials))
        self.parser.forbid(self.options, self.consumer, (self.operation, *denials))
        if has(self.principal) and not has(self.list):
            usage("The --principal option is only available if --list is set")
        if has(self.producer) and not has(self.topic):
            usage("With --producer you must specify a --topic")
        if has(self.idempotent) and not has(self.producer):
            usage("The --idempotent option is only available if --producer is set")
        others = not has(self.producer) and (has(self.cluster) or has(self.transactional_id))
        if has(self.consumer) and (not has(self.topic) or not has(self.group) or others):
            usage(
                "With --consumer you must specify a --topic and a --group and no --cluster or --transactional-id "
                "option should be specified."
            )

    # the resources and their entries

    @property
    def pattern(self) -> PatternType:
        return PatternType[self.options.value(self.pattern_type)]

    def filters(self, *, needed: bool = True) -> list[_Filter]:
        pattern = self.pattern
        found: list[_Filter] = [_Filter(ResourceType.TOPIC, name, pattern) for name in self._named(self.topic)]
        if pattern is PatternType.LITERAL and self.options.has_any((self.cluster, self.idempotent)):
            found.append(_CLUSTER)
        for resource, option in (
            (ResourceType.GROUP, self.group),
            (ResourceType.TRANSACTIONAL_ID, self.transactional_id),
            (ResourceType.DELEGATION_TOKEN, self.token),
            (ResourceType.USER, self.user),
        ):
            found += [_Filter(resource, name, pattern) for name in self._named(option)]
        if not found and needed:
            self.parser.usage_and_exit(
                "You must provide at least one resource: --topic <topic> or --cluster or --group <group> or "
                "--delegation-token <Delegation Token ID>"
            )
        return list(dict.fromkeys(found))

    def _named(self, option: ToolOption) -> list[str]:
        return self.values(option) if self.has(option) else []

    def principals(self, option: ToolOption) -> list[str]:
        return list(dict.fromkeys(map(_principal, self._named(option))))

    def _hosts(self, hosts: ToolOption, principals: ToolOption) -> list[str]:
        if self.has(hosts):
            return list(dict.fromkeys(self.values(hosts)))
        return ["*"] if self.has(principals) else []

    def entries(self, operations: Iterable[Operation]) -> list[_Entry]:
        wanted = list(dict.fromkeys(operations))
        found: list[_Entry] = []
        for permission, principals, hosts in (
            (Permission.ALLOW, self.allow_principal, self.allow_host),
            (Permission.DENY, self.deny_principal, self.deny_host),
        ):
            found += [
                _Entry(principal, host, operation, permission)
                for principal in self.principals(principals)
                for operation in wanted
                for host in self._hosts(hosts, principals)
            ]
        return found

    def acls(self) -> Acls:
        """The ACLs to add or remove, by resource; no entries mean all that the resource has."""
        acls: Acls = {}
        if not self.options.has_any((self.producer, self.consumer)):
            entries = self.entries(map(_operation, self.values(self.operation)))
            acls = dict.fromkeys(self.filters(), entries)
        if self.has(self.producer):
            acls |= self._producer()
        if self.has(self.consumer):
            for target, entries in self._consumer().items():
                acls[target] = list(dict.fromkeys([*entries, *acls.get(target, ())]))
        for target, entries in acls.items():
            supported = SUPPORTED_OPERATIONS[target.resource]
            if any(entry.operation not in (*supported, Operation.ALL) for entry in entries):
                names = ", ".join(operation.words for operation in (*supported, Operation.ALL))
                self.parser.usage_and_exit(f"ResourceType {target.resource.name} only supports operations {names}")
        return acls

    def _producer(self) -> Acls:
        filters = self.filters()
        acls: Acls = {}
        for target in filters:
            if target.resource is ResourceType.TOPIC:
                acls[target] = self.entries((_O.WRITE, _O.DESCRIBE, _O.CREATE))
        for target in filters:
            if target.resource is ResourceType.TRANSACTIONAL_ID:
                acls[target] = self.entries((_O.WRITE, _O.DESCRIBE))
        if self.has(self.idempotent):
            acls[_CLUSTER] = self.entries((_O.IDEMPOTENT_WRITE,))
        return acls

    def _consumer(self) -> Acls:
        filters = self.filters()
        topics = {
            target: self.entries((_O.READ, _O.DESCRIBE)) for target in filters if target.resource is ResourceType.TOPIC
        }
        return topics | {
            target: self.entries((_O.READ,)) for target in filters if target.resource is ResourceType.GROUP
        }


def _principal(text: str) -> str:
    kind, colon, name = text.partition(":")
    if not colon:
        raise illegal_argument(f"expected a string in format principalType:principalName but got {text}")
    return f"{kind}:{name}"


def _operation(text: str) -> Operation:
    for operation in Operation:
        if text.upper() in (operation.name, operation.words.upper()):
            return operation
    return Operation.UNKNOWN


def main(arguments: list[str]) -> int:
    words = _Words(arguments)
    try:
        if not words.has(words.server):
            raise JavaError(
                "java.lang.UnsupportedOperationException",
                "Barnabas's kafka-acls takes --bootstrap-server only: it does not write to ZooKeeper itself",
            )
        properties = client_properties(words.options.value(words.config_file), words.options.value(words.server))
        _act(words, properties)
    except JavaError as error:
        print(f"Error while executing ACL command: {error.message}")
        print_stack_trace(error, sys.stdout)
        print()
        return 1
    return 0


def _act(words: _Words, properties: Mapping[str, str]) -> None:
    if words.has(words.list):
        filters = words.filters(needed=False)
        principals = words.principals(words.principal)
        with_admin(properties, lambda admin: _list(admin, filters, principals), call="describeAcls")
    elif words.has(words.add):
        if words.pattern not in (PatternType.LITERAL, PatternType.PREFIXED):
            words.parser.usage_and_exit(
                f"A '--resource-pattern-type' value of '{words.pattern.name}' is not valid when adding acls."
            )
        acls = words.acls()
        if not all(acls.values()):
            words.parser.usage_and_exit(
                "You must specify one of: --allow-principal, --deny-principal when trying to add ACLs."
            )
        with_admin(properties, lambda admin: _add(admin, acls), call="createAcls")
    else:
        acls = words.acls()
        with_admin(properties, lambda admin: _remove(admin, words, acls), call="deleteAcls")


def _lines(entries: Iterable[object]) -> str:
    return "\n".join(f"\t{entry}" for entry in entries)


@of_futures
async def _list(admin: ToolAdmin, filters: Sequence[_Filter], principals: Sequence[str]) -> None:
    found: Acls = {}
    for target in filters or [_Filter(ResourceType.ANY, "", PatternType.ANY)]:
        request = DescribeAclsRequest(
            resource_type_filter=target.resource,
            resource_name_filter=target.name or None,
            pattern_type_filter=target.pattern,
            principal_filter=None,
            host_filter=None,
            operation=Operation.ANY,
            permission_type=Permission.ANY,
        )
        answer = await admin.to_any(request)
        check_answer(answer.error_code, answer.error_message)
        for resource in answer.resources:
            key = _Filter(
                ResourceType(resource.resource_type), resource.resource_name, PatternType(resource.pattern_type)
            )
            entries = found.setdefault(key, [])
            for acl in resource.acls:
                entry = _Entry(acl.principal, acl.host, Operation(acl.operation), Permission(acl.permission_type))
                if entry not in entries:
                    entries.append(entry)
    if not principals:
        _print(found)
    for principal in principals:
        print(f"ACLs for principal `{principal}`")
        _print(
            {target: [entry for entry in entries if entry.principal == principal] for target, entries in found.items()}
        )


def _print(acls: Acls) -> None:
    for target, entries in acls.items():
        if entries:
            print(f"Current ACLs for resource `{target.shown('ResourcePattern')}`: \n {_lines(entries)} \n")


@of_futures
async def _add(admin: ToolAdmin, acls: Acls) -> None:
    for target, entries in acls.items():
        print(f"Adding ACLs for resource `{target.shown('ResourcePattern')}`: \n {_lines(entries)} \n")
        request = CreateAclsRequest(
            creations=[
                CreateAclsRequest.AclCreation(
                    resource_type=target.resource,
                    resource_name=target.name,
                    resource_pattern_type=target.pattern,
                    principal=entry.principal,
                    host=entry.host,
                    operation=entry.operation,
                    permission_type=entry.permission,
                )
                for entry in entries
            ]
        )
        answer = await admin.to_any(request)
        for result in answer.results:
            check_answer(result.error_code, result.error_message)


@of_futures
async def _remove(admin: ToolAdmin, words: _Words, acls: Acls) -> None:
    for target, entries in acls.items():
        shown = target.shown("ResourcePattern")
        question = f"Are you sure you want to delete all ACLs for resource filter `{shown}`? (y/n)"
        if entries:
            question = (
                f"Are you sure you want to remove ACLs: \n {_lines(entries)} \n from resource filter `{shown}`? (y/n)"
            )
        if not words.has(words.force):
            print(question, flush=True)
            if sys.stdin.readline().rstrip("\r\n").lower() != "y":
                continue
        everything = [(None, None, Operation.ANY, Permission.ANY)]
        request = DeleteAclsRequest(
            filters=[
                DeleteAclsRequest.DeleteAclsFilter(
                    resource_type_filter=target.resource,
                    resource_name_filter=target.name,
                    pattern_type_filter=target.pattern,
                    principal_filter=principal,
                    host_filter=host,
                    operation=operation,
                    permission_type=permission,
                )
                for principal, host, operation, permission in (entries or everything)
            ]
        )
        answer = await admin.to_any(request)
        for result in answer.filter_results:
            check_answer(result.error_code, result.error_message)
            for match in result.matching_acls:
                check_answer(match.error_code, match.error_message)
