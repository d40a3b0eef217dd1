"""AlterUserScramCredentials: sets and deletes what users' passwords are checked against. The controller's alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker import scram_credentials
from barnabas.broker.authorize import authorized_cluster
from barnabas.broker.context import RequestContext
from barnabas.broker.scram_credentials import CredentialChange
from barnabas.model.acl import Operation
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

Result = AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult


async def handle(
    broker: Broker, request: AlterUserScramCredentialsRequest, context: RequestContext
) -> AlterUserScramCredentialsResponse:
    if not broker.controller.is_active:
        raise KafkaError(ErrorCode.NOT_CONTROLLER)
    if not authorized_cluster(context, Operation.ALTER):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    changes = [CredentialChange(deletion.name, deletion.mechanism, delete=True) for deletion in request.deletions]
    changes += [
        CredentialChange(
            upsertion.name,
            upsertion.mechanism,
            upsertion.iterations,
            bytes(upsertion.salt),
            bytes(upsertion.salted_password),
        )
        for upsertion in request.upsertions
    ]
    outcomes = await scram_credentials.alter(broker.zk, changes)
    return AlterUserScramCredentialsResponse(results=[_result(user, error) for user, error in outcomes.items()])


def _result(user: str, error: KafkaError | None) -> Result:
    return Result(user) if error is None else Result(user, error.code, error.message)


def failed(
    request: AlterUserScramCredentialsRequest, error: KafkaError, context: RequestContext
) -> AlterUserScramCredentialsResponse:
    users = dict.fromkeys(
        [*(deletion.name for deletion in request.deletions), *(upsertion.name for upsertion in request.upsertions)]
    )
    return AlterUserScramCredentialsResponse(results=[_result(user, error) for user in users])
