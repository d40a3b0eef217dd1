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

app = CommandGroup("Access control lists (ACLs): which user may do what.")

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
    list[str] | None,
    Option("--principal", metavar="User:NAME", help="The user; may be repeated. By default User:*, all users."),
]
Operations = Annotated[
    list[str] | None,
    Option(
        "--operation", metavar="OP", choices=tuple(OPERATIONS), help="The operation; may be repeated. By default all."
    ),
]
Hosts = Annotated[
    list[str] | None, Option("--host", metavar="ADDRESS", help="The client's address; may be repeated. By default any.")
]


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
        str | None,
        Argument(metavar="RESOURCE", help="Only the ACLs that apply to it: topic:NAME and so on; all by default."),
    ] = None,
    principal: Annotated[
        str | None, Option("--principal", metavar="User:NAME", help="Only the ACLs of this user.")
    ] = None,
    at: Reach = HERE,
    output: OutputFormat = Format.text,
) -> None:
    """List ACLs: all, or those that apply to a resource by its name, a prefix of it or *."""
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
            raise UsageError(f"--principal {principal}: a principal is a type and a name, such as User:{principal}.")
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
    """The form in which brokers compare addresses. A host name or a network is refused: it would match no client."""
    try:
        return text if text == "*" else host_address(str(ip_address(text)))
    except ValueError:
        raise UsageError(f"--host {text}: expected one IP address, or * for any.") from None


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
    """Deny principals operations on a resource, even where another ACL allows them."""
    _make(Permission.DENY, what, principals, operations, hosts, at, output)


@app.command("remove")
def remove(
    what: What,
    principal: Annotated[
        str | None, Option("--principal", metavar="User:NAME", help="Only the ACLs of this user.")
    ] = None,
    operation: Annotated[
        str | None,
        Option("--operation", metavar="OP", choices=tuple(OPERATIONS), help="Only the ACLs of this operation."),
    ] = None,
    host: Annotated[str | None, Option("--host", metavar="ADDRESS", help="Only the ACLs of this address.")] = None,
    permission: Annotated[
        str | None,
        Option(
            "--permission",
            metavar="P",
            choices=("allow", "deny"),
            help="Only the ACLs that allow, or only those that deny.",
        ),
    ] = None,
    at: Reach = HERE,
    output: OutputFormat = Format.text,
) -> None:
    """Remove a resource's ACLs, and show the removed ones."""
    resource = _resource(what)
    wanted = AclFilter(
        *resource,
        principal,
        None if host is None else host_address(host),
        Operation.ANY if operation is None else OPERATIONS[operation],
        Permission.ANY if permission is None else Permission[permission.upper()],
    )
    _show(with_admin(at, lambda admin: admin.delete_acls(wanted)), output)
