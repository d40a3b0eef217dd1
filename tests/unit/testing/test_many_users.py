"""Requests about many users at once are answered as those about few."""

from __future__ import annotations

from typing import Any

from barnabas.runtime.turns import SLICE
from barnabas.testing import KafkaCluster
from barnabas.wire.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from barnabas.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest


def test_of_many_users_the_same_is_told_as_of_few() -> None:
    upsertion = AlterUserScramCredentialsRequest.ScramCredentialUpsertion("kate", 1, 4096, b"salt", b"salted")
    strangers = [f"nobody-{number}" for number in range(2 * SLICE)]
    twice = ["twice", "twice"]
    with KafkaCluster(1) as cluster:

        def sent(request: Any) -> Any:
            async def send() -> Any:
                return await (await cluster.client.any()).send(request)

            return cluster.run(send())

        def told(names: list[str]) -> Any:
            user = DescribeUserScramCredentialsRequest.UserName
            return sent(DescribeUserScramCredentialsRequest([user(name) for name in names])).results

        altered = sent(AlterUserScramCredentialsRequest(upsertions=[upsertion])).results
        assert [(each.user, each.error_code) for each in altered] == [("kate", 0)]
        many = told(["kate", "", *strangers, *twice])
        assert len(many) == len(strangers) + 3
        assert many[0].credential_infos[0].iterations == 4096
        assert many[:2] + many[2:3] + many[-1:] == told(["kate", "", strangers[0], *twice])
