"""Administrators who set quotas and rights."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.client.admin import Admin
from barnabas.model.acl import Operation, PatternType, Permission, ResourceType
from barnabas.security.acls import WILDCARD, Acl, AclFilter, Resource
from barnabas.sim.plans.plan import Action

if TYPE_CHECKING:
    from barnabas.sim.clients.workload import Workload


async def set_quota(workload: Workload, admin: Admin, action: Action) -> str:
    said = action.arguments
    named = {kind: str(said[kind]) for kind in ("user", "client-id", "ip") if kind in said}
    entity = {kind: name or None for kind, name in named.items()}
    value = said.get("value")
    await admin.alter_quotas(entity, {str(said["key"]): None if value is None else float(str(value))})
    return "done"


async def permit(workload: Workload, admin: Admin, action: Action) -> str:
    """C18: an acknowledged right stays until somebody takes it back, whatever is granted beside it."""
    topic, user = str(action.arguments["topic"]), f"User:{action.arguments['user']}"
    history = workload.history
    acl = Acl(user, WILDCARD, Operation.READ, Permission.ALLOW)
    (refusal,) = await admin.create_acls([(Resource(ResourceType.TOPIC, topic), acl)])
    if refusal is not None:
        return refusal.code.name
    if (topic, user) not in history.taken_back:
        history.granted[topic, user] = None
    return "done"


async def forbid(workload: Workload, admin: Admin, action: Action) -> str:
    topic, user = str(action.arguments["topic"]), f"User:{action.arguments['user']}"
    history = workload.history
    history.taken_back[topic, user] = None
    history.granted.pop((topic, user), None)
    wanted = AclFilter(ResourceType.TOPIC, topic, PatternType.LITERAL, user)
    return f"{len(await admin.delete_acls(wanted))} taken back"
