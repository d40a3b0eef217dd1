"""AlterUserScramCredentials: sets and deletes users' SCRAM credentials. Only the controller answers it."""

from __future__ import annotations

from barnabas.broker import scram_credentials
from barnabas.broker.authorize import authorized_cluster
from barnabas.broker.context import RequestContext
from barnabas.broker.parts import BrokerParts
from barnabas.broker.scram_credentials import CredentialChange
from barnabas.model.acl import Operation
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)

Result = AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult


async def handle(
    broker: BrokerParts, request: AlterUserScramCredentialsRequest, context: RequestContext
) -> AlterUserScramCredentialsResponse:
    if not broker.controller.is_active:
        raise KafkaError(ErrorCode.NOT_CONTROLLER)
    if not authorized_cluster(context, Operation.ALTER):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    changes = []
    for deletion in request.deletions:
        changes.append(CredentialChange(deletion.name, deletion.mechanism, delete=True))
        if context.due():
            await context.turn()
    for upsertion in request.upsertions:
        salt, salted_password = bytes(upsertion.salt), bytes(upsertion.salted_password)
        changes.append(
            CredentialChange(upsertion.name, upsertion.mechanism, upsertion.iterations, salt, salted_password)
        )
        if context.due():
            await context.turn()
    outcomes = await scram_credentials.alter(broker.zk, changes)
    results = []
    for user, error in outcomes.items():
        results.append(_result(user, error))
        if context.due():
            await context.turn()
    return AlterUserScramCredentialsResponse(results=results)


def _result(user: str, error: KafkaError | None) -> Result:
    return Result(user) if error is None else Result(user, error.code, error.message)


def failed(
    request: AlterUserScramCredentialsRequest, error: KafkaError, context: RequestContext
) -> AlterUserScramCredentialsResponse:
    users = dict.fromkeys(
        [*(deletion.name for deletion in request.deletions), *(upsertion.name for upsertion in request.upsertions)]
    )
    return AlterUserScramCredentialsResponse(results=[_result(user, error) for user in users])
