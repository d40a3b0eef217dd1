"""``barnabas acl``: access control lists."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Annotated, Final

from barnabas.cli.command import Argument, CommandGroup, Option
from barnabas.cli.connect import with_admin
from barnabas.cli.options import HERE, OutputFormat, Reach
from barnabas.cli.outcomes import fail
from barnabas.cli.output import Format, UsageError, print_json, print_table
from barnabas.client.admin_acls import Binding
from barnabas.model.acl import Operation, PatternType, Permission
from barnabas.model.cluster import host_address
from barnabas.security.acl_words import OPERATIONS, operation_word, operations_of, resource_of, resource_word
from barnabas.security.acls import Acl, AclFilter, Resource

app = CommandGroup("Who may do what: ACLs.")

_HEADS: Final = ("resource", "permission", "principal", "host", "operation")

What = Annotated[
    str,
    Argument(
        metavar="RESOURCE",
        help="cluster, or topic:NAME, group:.., transactional-id:.., delegation-token:.., user:..; NAME* means all "
        "names that begin with NAME, and * all names.",
    ),
]
Principals = Annotated[
    list[str] | None, Option("--principal", metavar="User:NAME", help="By default User:*, all; may be repeated.")
]
Operations = Annotated[
    list[str] | None,
    Option("--operation", metavar="OP", choices=tuple(OPERATIONS), help="By default all; may be repeated."),
]
Hosts = Annotated[list[str] | None, Option("--host", metavar="ADDRESS", help="By default any; may be repeated.")]


def _resource(text: str) -> Resource:
    """Raises `UsageError`."""
    try:
        return resource_of(text)
    except ValueError as error:
        raise UsageError(str(error)) from None


def _fields(binding: Binding) -> dict[str, str]:
    resource, acl = binding
    values = (resource_word(resource), acl.permission.name.lower(), acl.principal, acl.host)
    return dict(zip(_HEADS, (*values, operation_word(acl.operation)), strict=True))


def _show(bindings: list[Binding], output: Format) -> None:
    if output is Format.json:
        print_json([_fields(binding) for binding in bindings])
    elif bindings:
        print_table(list(_HEADS), [list(_fields(binding).values()) for binding in bindings])


@app.command("list")
def list_(
    what: Annotated[
        str | None, Argument(metavar="RESOURCE", help="Only what concerns it: topic:NAME and so on; all by default.")
    ] = None,
    principal: Annotated[str | None, Option("--principal", metavar="User:NAME", help="Only of this one.")] = None,
    at: Reach = HERE,
    output: OutputFormat = Format.text,
) -> None:
    """List ACLs: all, or those that concern a resource, by its name, its beginning or *."""
    wanted = AclFilter(principal=principal)
    if what is not None:
        resource = _resource(what)
        by_prefix = resource.pattern_type is PatternType.PREFIXED
        pattern_type = PatternType.PREFIXED if by_prefix else PatternType.MATCH
        wanted = AclFilter(resource.resource_type, resource.name, pattern_type, principal)
    _show(with_admin(at, lambda admin: admin.describe_acls(wanted)), output)


def _make(
    permission: Permission,
    what: str,
    principals: list[str] | None,
    operations: list[str] | None,
    hosts: list[str] | None,
    at: Reach,
    output: Format,
) -> None:
    resource = _resource(what)
    try:
        asked = operations_of(resource, operations or ())
    except ValueError as error:
        raise UsageError(f"--operation: {error}") from None
    for principal in principals or ():
        if ":" not in principal:
            raise UsageError(f"--principal {principal}: a principal has a type and a name, such as User:{principal}.")
    bindings = [
        (resource, Acl(principal, host, operation, permission))
        for principal in principals or ("User:*",)
        for host in map(_address, hosts or ("*",))
        for operation in asked
    ]

    outcomes = with_admin(at, lambda admin: admin.create_acls(bindings))
    _show([binding for binding, error in zip(bindings, outcomes, strict=True) if error is None], output)
    fail({resource_word(resource): error for error in outcomes if error is not None})


def _address(text: str) -> str:
    """The form in which brokers compare addresses; a host name or a network would match no client."""
    try:
        return text if text == "*" else host_address(str(ip_address(text)))
    except ValueError:
        raise UsageError(f"--host {text}: it takes one IP address, or * for any.") from None


@app.command("allow")
def allow(
    what: What,
    principals: Principals = None,
    operations: Operations = None,
    hosts: Hosts = None,
    at: Reach = HERE,
    output: OutputFormat = Format.text,
) -> None:
    """Allow principals operations on a resource."""
    _make(Permission.ALLOW, what, principals, operations, hosts, at, output)


@app.command("deny")
def deny(
    what: What,
    principals: Principals = None,
    operations: Operations = None,
    hosts: Hosts = None,
    at: Reach = HERE,
    output: OutputFormat = Format.text,
) -> None:
    """Deny principals operations on a resource, whoever allows them."""
    _make(Permission.DENY, what, principals, operations, hosts, at, output)


@app.command("remove")
def remove(
    what: What,
    principal: Annotated[str | None, Option("--principal", metavar="User:NAME", help="Only of this one.")] = None,
    operation: Annotated[
        str | None, Option("--operation", metavar="OP", choices=tuple(OPERATIONS), help="Only of this one.")
    ] = None,
    host: Annotated[str | None, Option("--host", metavar="ADDRESS", help="Only of this one.")] = None,
    permission: Annotated[
        str | None, Option("--permission", metavar="P", choices=("allow", "deny"), help="Only of these.")
    ] = None,
    at: Reach = HERE,
    output: OutputFormat = Format.text,
) -> None:
    """Remove a resource's ACLs, and show which they were."""
    resource = _resource(what)
    wanted = AclFilter(
        *resource,
        principal,
        None if host is None else host_address(host),
        Operation.ANY if operation is None else OPERATIONS[operation],
        Permission.ANY if permission is None else Permission[permission.upper()],
    )
    _show(with_admin(at, lambda admin: admin.delete_acls(wanted)), output)
