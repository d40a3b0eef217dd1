"""DescribeUserScramCredentials: which mechanisms users have credentials for, never the credentials."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from barnabas.broker import scram_credentials
from barnabas.broker.authorize import authorized_cluster
from barnabas.broker.context import RequestContext
from barnabas.broker.parts import BrokerParts
from barnabas.model.acl import Operation
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.runtime.turns import SLICE
from barnabas.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)

if TYPE_CHECKING:
    from barnabas.security.sasl.scram_credential import ScramMechanism

Result = DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult


async def handle(
    broker: BrokerParts, request: DescribeUserScramCredentialsRequest, context: RequestContext
) -> DescribeUserScramCredentialsResponse:
    if not authorized_cluster(context, Operation.DESCRIBE):
        refused = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return DescribeUserScramCredentialsResponse(
            error_code=refused, error_message=None, results=[Result("", refused, None) for _ in request.users or ()]
        )
    response = DescribeUserScramCredentialsResponse(error_message="")
    if not request.users:
        everybody = await scram_credentials.describe_all(broker.zk)
        response.results = [_described(user, found) for user, found in everybody.items()]
        return response
    named = Counter(asked.name for asked in request.users)
    # For a few users ZooKeeper is asked about each, for many users once about all.
    of_all = await scram_credentials.describe_all(broker.zk) if len(named) > SLICE else None
    for user, times in named.items():
        if context.due():
            await context.turn()
        try:
            if times > 1 and user:
                raise KafkaError(
                    ErrorCode.DUPLICATE_RESOURCE,
                    f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}",
                )
            found = None if of_all is None else of_all.get(user, [])
            if found is None:
                found = await scram_credentials.describe(broker.zk, user)
            response.results.append(_described(user, scram_credentials.existing(user, found)))
        except KafkaError as error:
            response.results.append(Result(user, error.code, error.message))
    return response


def _described(user: str, found: list[tuple[ScramMechanism, int]]) -> Result:
    infos = [DescribeUserScramCredentialsResponse.CredentialInfo(int(mechanism), rounds) for mechanism, rounds in found]
    return Result(user, 0, "", infos)
