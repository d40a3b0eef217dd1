"""Requests about many users or topics at once are answered as those about few."""

from __future__ import annotations

from typing import Any

from barnabas.model.errors import ErrorCode
from barnabas.runtime.turns import SLICE
from barnabas.testing import KafkaCluster
from barnabas.wire.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from barnabas.wire.messages.create_partitions import CreatePartitionsRequest
from barnabas.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest


def sent(cluster: KafkaCluster, request: Any) -> Any:
    async def send() -> Any:
        return await (await cluster.client.any()).send(request)

    return cluster.run(send())


def test_of_many_users_the_same_is_told_as_of_few() -> None:
    upsertion = AlterUserScramCredentialsRequest.ScramCredentialUpsertion("kate", 1, 4096, b"salt", b"salted")
    strangers = [f"nobody-{number}" for number in range(2 * SLICE)]
    twice = ["twice", "twice"]
    with KafkaCluster(1) as cluster:

        def told(names: list[str]) -> Any:
            user = DescribeUserScramCredentialsRequest.UserName
            return sent(cluster, DescribeUserScramCredentialsRequest([user(name) for name in names])).results

        altered = sent(cluster, AlterUserScramCredentialsRequest(upsertions=[upsertion])).results
        assert [(each.user, each.error_code) for each in altered] == [("kate", 0)]
        many = told(["kate", "", *strangers, *twice])
        assert len(many) == len(strangers) + 3
        assert many[0].credential_infos[0].iterations == 4096
        assert many[:2] + many[2:3] + many[-1:] == told(["kate", "", strangers[0], *twice])


def test_many_topics_are_given_partitions_as_few_are() -> None:
    wanted = CreatePartitionsRequest.CreatePartitionsTopic
    strangers = [wanted(f"nowhere-{number}", 3, None) for number in range(2 * SLICE)]
    with KafkaCluster(1) as cluster:
        for name in ("few", "many"):
            cluster.create_topic(name, partitions=1)

        def told(topics: list[Any]) -> list[tuple[int, str | None]]:
            answer = sent(cluster, CreatePartitionsRequest(topics=topics, timeout_ms=20_000))
            assert [each.name for each in answer.results] == [each.name for each in topics]
            return [(each.error_code, each.error_message) for each in answer.results]

        few = told([wanted("few", 2, None), strangers[0]])
        many = told([wanted("many", 2, None), *strangers])
        assert many[:2] == few
        assert [code for code, _ in few] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert {code for code, _ in many[1:]} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
