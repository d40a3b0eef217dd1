"""What would happen to a cluster, on a copy of its znodes."""

import asyncio
import json

import pytest

from barnabas.cli.app import run
from barnabas.model.cluster import BrokerInfo, Endpoint
from barnabas.model.ids import TopicPartition, Uuid
from barnabas.model.leadership import LeaderAndIsr, LeaderRecoveryState
from barnabas.runtime.real import real_runtime
from barnabas.sim.rehearsal.cluster import rehearse
from barnabas.sim.rehearsal.steps import parse_steps
from barnabas.sim.rehearsal.tree import (
    RehearsalError,
    cluster_tree,
    copied_of,
    export_lines,
    read_cluster_tree,
)
from barnabas.zk.client.client import ZooKeeperClient
from barnabas.zk.inspection.image import read_tree
from barnabas.zk.inspection.transfer import ExportedZNode, parse_export
from barnabas.zk.kafka.config_znodes import ConfigEntityZNode
from barnabas.zk.kafka.znodes import (
    BrokerIdZNode,
    ControllerEpochZNode,
    ControllerZNode,
    LeaderIsrAndControllerEpoch,
    ReplicaAssignment,
    TopicPartitionStateZNode,
    TopicZNode,
)
from barnabas.zk.server.server import CoordinatorServer


def cluster(topics, *, alive=(0, 1, 2), controller=0, racks=(), configs=None, isrs=None, moving=None):
    """Znodes of a cluster. `topics`: each one's replica lists; `isrs` and `moving` (adding replicas) by partition."""
    znodes = [
        ExportedZNode(ControllerEpochZNode.path, ControllerEpochZNode.encode(7), version=7),
        ExportedZNode(ControllerZNode.path, ControllerZNode.encode(controller, 1), ephemeral=True),
    ]
    for number in alive:
        rack = dict(racks).get(number)
        info = BrokerInfo(number, (Endpoint("PLAINTEXT", "host", 9092 + number),), rack)
        znodes.append(
            ExportedZNode(BrokerIdZNode.path(number), BrokerIdZNode.encode(info, timestamp_ms=1), ephemeral=True)
        )
    for index, (topic, assignment) in enumerate(topics.items()):
        partitions = {
            TopicPartition(topic, number): ReplicaAssignment(replicas, (moving or {}).get(f"{topic}-{number}", ()))
            for number, replicas in enumerate(assignment)
        }
        topic_id = Uuid(bytes([1] * 15 + [index]))
        znodes.append(ExportedZNode(TopicZNode.path(topic), TopicZNode.encode(topic_id, partitions)))
        for partition, assigned in partitions.items():
            isr = (isrs or {}).get(str(partition), tuple(each for each in assigned.replicas if each in alive))
            leader = isr[0] if isr and isr[0] in alive else -1
            state = LeaderAndIsr(leader, 3, isr, LeaderRecoveryState.RECOVERED, 5)
            znodes.append(
                ExportedZNode(
                    TopicPartitionStateZNode.path(partition),
                    TopicPartitionStateZNode.encode(LeaderIsrAndControllerEpoch(state, 7)),
                    version=5,
                )
            )
    for path, config in (configs or {}).items():
        znodes.append(ExportedZNode(ConfigEntityZNode.path(*path.split("/")), ConfigEntityZNode.encode(config)))
    return znodes


def forecasts(znodes, *words, files=None, properties=None):
    tree = cluster_tree("here", znodes)
    return rehearse(tree, parse_steps(words, tree, (files or {}).__getitem__), properties)


def states(forecast):
    return {str(each): (state.leader, sorted(state.isr)) for each, state in forecast.after.partitions.items()}


THREE = {"t": ((0, 1, 2), (1, 2, 0), (2, 0, 1))}


def test_a_healthy_cluster_stays_as_it_is():
    (now,) = forecasts(cluster(THREE))
    assert list(now.changes()) == []
    assert now.after.controller == 0
    assert now.offline() == now.under_min_isr() == []


def test_a_killed_broker_loses_its_leaders_and_leaves_every_isr():
    _, killed = forecasts(cluster(THREE), "kill", "1")
    assert states(killed) == {"t-0": (0, [0, 2]), "t-1": (2, [0, 2]), "t-2": (2, [0, 2])}
    assert [str(change.partition) for change in killed.new_leaders()] == ["t-1"]
    assert len(killed.new_isrs()) == 3
    assert killed.after.brokers == (0, 2)
    assert killed.costs["LeaderAndIsr"].requests > 0
    assert killed.costs["UpdateMetadata"].requests > 0
    assert killed.znodes_written >= 3
    assert killed.newly_offline() == []


def test_the_last_member_of_an_isr_takes_its_partition_with_it_and_brings_it_back():
    znodes = cluster({"t": ((1, 0), (0, 1))}, isrs={"t-0": (1,)}, alive=(0, 1))
    _, killed, started = forecasts(znodes, "kill", "1", "start", "1")
    assert states(killed) == {"t-0": (-1, [1]), "t-1": (0, [0])}
    assert [str(each) for each in killed.newly_offline()] == ["t-0"]
    assert states(started) == {"t-0": (1, [1]), "t-1": (0, [0, 1])}


def test_an_unclean_election_is_told_where_the_topic_or_the_brokers_allow_it():
    topics = {"t": ((1, 0),)}
    for place in ("topics/t", "brokers/<default>", None):
        configs = {place: {"unclean.leader.election.enable": "true"}} if place else None
        properties = None if place else {"unclean.leader.election.enable": "true"}
        znodes = cluster(topics, isrs={"t-0": (1,)}, alive=(0, 1), configs=configs)
        _, killed = forecasts(znodes, "kill", "1", properties=properties)
        assert states(killed) == {"t-0": (0, [0])}
        assert [str(each) for each in killed.unclean()] == ["t-0"]


def test_a_drained_broker_hands_over_and_says_what_it_could_not():
    _, drained = forecasts(cluster({**THREE, "alone": ((1,),)}), "drain", "1")
    assert states(drained) == {
        "alone-0": (-1, [1]),
        "t-0": (0, [0, 2]),
        "t-1": (2, [0, 2]),
        "t-2": (2, [0, 2]),
    }
    assert drained.costs["ControlledShutdown"].requests == 1
    assert drained.costs["StopReplica"].requests >= 1
    assert [str(each) for each in drained.newly_offline()] == ["alone-0"]


def test_a_controlled_shutdown_that_cannot_move_a_leader_fails_and_is_noted():
    znodes = cluster({"t": ((1, 0),)}, isrs={"t-0": (1,)}, alive=(0, 1))
    _, drained = forecasts(znodes, "drain", "1")
    assert states(drained) == {"t-0": (-1, [1])}
    assert drained.costs["ControlledShutdown"].requests == 3
    assert "still leads t-0" in drained.notes[0]


def test_the_death_of_the_controller_makes_another_one_and_its_office_alone_can_go():
    _, killed = forecasts(cluster(THREE, controller=2), "kill", "controller")
    assert killed.before.controller == 2
    assert killed.after.controller in (0, 1)
    assert states(killed)["t-2"] == (0, [0, 1])
    _, moved = forecasts(cluster(THREE), "failover")
    assert list(moved.changes()) == []
    # The new one tells everybody everything.
    assert moved.costs["LeaderAndIsr"].partitions == 9


def test_a_rack_is_lost_at_once_and_what_lies_in_it_alone_goes_offline():
    topics = {"inside": ((1, 2),), "across": ((1, 0),)}
    _, lost = forecasts(cluster(topics, racks={0: "a", 1: "b", 2: "b"}), "rack", "b")
    assert lost.after.brokers == (0,)
    assert [str(each) for each in lost.newly_offline()] == ["inside-0"]
    assert states(lost)["across-0"] == (0, [0])
    *_, lost = forecasts(cluster(topics, racks={0: "a", 1: "b", 2: "b"}), "drain", "1", "rack", "b")
    assert lost.after.brokers == (0,)
    with pytest.raises(RehearsalError, match="is not alive then"):
        forecasts(cluster(topics, racks={1: "b"}), "drain", "1", "rack", "b")


def test_min_isr_counts_as_the_topic_the_cluster_or_the_file_says():
    for configs, properties in (
        ({"topics/t": {"min.insync.replicas": "3"}}, {"min.insync.replicas": "1"}),
        ({"brokers/<default>": {"min.insync.replicas": "3"}}, None),
        (None, {"min.insync.replicas": "3"}),
    ):
        now, killed = forecasts(cluster(THREE, configs=configs), "kill", "1", properties=properties)
        assert now.under_min_isr() == []
        assert len(killed.newly_under_min_isr()) == 3
    # More than there are replicas is as many as there are.
    now, _ = forecasts(cluster({"t": ((0, 1),)}, configs={"topics/t": {"min.insync.replicas": "3"}}), "kill", "2")
    assert now.under_min_isr() == []


def test_after_a_restart_a_preferred_election_gives_the_leaders_back():
    *_, started, elected = forecasts(cluster(THREE), "kill", "1", "start", "1", "elect")
    assert states(started)["t-1"] == (2, [0, 1, 2])
    assert started.costs["AlterPartition"].partitions == 3
    assert states(elected) == {"t-0": (0, [0, 1, 2]), "t-1": (1, [0, 1, 2]), "t-2": (2, [0, 1, 2])}


def test_brokers_that_come_back_together_are_all_taken_into_the_isrs():
    *_, started = forecasts(cluster(THREE), "kill", "1,2", "start", "2,1")
    assert states(started) == {f"t-{each}": (0, [0, 1, 2]) for each in range(3)}


def test_a_reassignment_runs_to_its_end_and_one_that_cannot_is_noted():
    plan = json.dumps({"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [3, 1]}]})
    znodes = cluster(THREE, alive=(0, 1, 2, 3))
    _, moved = forecasts(znodes, "reassign", "plan.json", files={"plan.json": plan})
    after = moved.after.partitions[TopicPartition("t", 0)]
    assert (after.leader, sorted(after.isr), after.replicas) == (3, [1, 3], (3, 1))
    assert moved.notes == ()
    *_, stuck = forecasts(znodes, "kill", "3", "reassign", "plan.json", files={"plan.json": plan})
    assert list(stuck.changes()) == []
    assert stuck.notes[0].startswith("Refused: t-0")


def test_a_follower_that_lags_stays_outside_and_a_reassignment_that_waits_for_it_waits_on():
    znodes = cluster({"t": ((0, 1, 2),)}, isrs={"t-0": (0, 1)}, moving={"t-0": (2,)})
    now, failed_over, killed = forecasts(znodes, "failover", "kill", "0")
    assert list(now.changes()) == list(failed_over.changes()) == []
    assert states(killed) == {"t-0": (1, [1])}
    assert "not in sync: t-0" in killed.notes[0]


def test_what_a_tree_makes_a_controller_do_at_once_is_told_first():
    znodes = cluster({"t": ((1, 0), (0, 2))}, alive=(0, 2), isrs={"t-0": (1, 0)})
    (now,) = forecasts(znodes)
    assert states(now) == {"t-0": (0, [0]), "t-1": (0, [0, 2])}


def test_steps_and_trees_that_are_none_are_refused_in_a_sentence():
    tree = cluster_tree("here", cluster(THREE, racks={0: "a"}))
    for words, told in (
        (("explode",), "is no step"),
        (("kill",), "takes N"),
        (("kill", "x"), "broker ids"),
        (("drain", "7"), "There is no broker 7"),
        (("rack", "z"), "a has 0"),
        (("reassign", "plan"), "is not a reassignment"),
    ):
        with pytest.raises(RehearsalError, match=told):
            parse_steps(words, tree, lambda name: "[]")
    with pytest.raises(RehearsalError, match="is not alive then"):
        forecasts(cluster(THREE), "kill", "1", "kill", "1")
    with pytest.raises(RehearsalError, match="is alive already"):
        forecasts(cluster(THREE), "start", "1")
    with pytest.raises(RehearsalError, match="No broker is registered"):
        cluster_tree("here", [])
    kraft = ExportedZNode(ControllerZNode.path, ControllerZNode.encode(3000, 1, 5), ephemeral=True)
    with pytest.raises(RehearsalError, match="KRaft controller"):
        cluster_tree("here", [*(each for each in cluster(THREE) if each.path != ControllerZNode.path), kraft])


SECRETS = {
    "/config/users/alice": b'{"version":1,"config":{"SCRAM-SHA-256":"salt=hush1,stored_key=hush2"}}',
    "/delegation_token/tokens/abc": b"hush3",
    "/config/brokers/0": b'{"version":1,"config":{"listener.name.ssl.keystore.password":"hush4"}}',
    "/kafka-acl/Topic/t": b"hush5",
    "/somebody/else": b"hush6",
}


@pytest.mark.parametrize("chroot", ["", "/kafka"])
def test_a_living_tree_is_read_without_its_secrets_and_nothing_is_written_to_it(tmp_path, chroot, capsys):
    async def story():
        server = CoordinatorServer(real_runtime(), host="127.0.0.1", port=0, data_dir=str(tmp_path), fsync=False)
        await server.start()

        async def connected(place):
            client = ZooKeeperClient(real_runtime(), place, session_timeout_ms=30_000, connection_timeout_ms=10_000)
            await client.start()
            return client

        address = f"127.0.0.1:{server.port}"
        owner = await connected(address + chroot)
        await owner.make_chroot()
        for znode in [*cluster(THREE), *(ExportedZNode(path, data) for path, data in SECRETS.items())]:
            names = znode.path.split("/")[1:]
            for depth in range(1, len(names)):
                if await owner.exists("/" + "/".join(names[:depth])) is None:
                    await owner.create("/" + "/".join(names[:depth]))
            await owner.create(znode.path, znode.data, ephemeral=znode.ephemeral)

        async def whole():
            found = {}
            await read_tree(owner, "/", lambda batch: found.update((each.path, each) for each in batch), with_acls=True)
            return found

        before = await whole()
        saved = str(tmp_path / "saved")
        words = ["rehearse", "kill", "1", "-z", address + chroot, "--save", saved, "--format", "json"]
        code = await asyncio.to_thread(run, words)
        assert await whole() == before
        reader = await connected(address + chroot)
        znodes = await read_cluster_tree(reader)
        await reader.close()
        await owner.close()
        await server.close()
        return code, saved, znodes

    code, saved, znodes = asyncio.run(story())
    assert code == 0
    with open(saved, encoding="utf-8") as lines:
        text = lines.read()
    assert "hush" not in text
    assert "listener.name" not in text
    assert copied_of(parse_export(text.splitlines())) == znodes
    live = json.loads(capsys.readouterr().out)
    assert run(["rehearse", "kill", "1", "--file", saved, "--format", "json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert live["steps"] == again["steps"]


def test_the_command_tells_in_text_and_as_a_page_and_its_exit_code_says_offline(tmp_path, capsys):
    tree, page = tmp_path / "tree", tmp_path / "page.html"
    znodes = cluster({**THREE, "alone": ((1,),)})
    tree.write_text("".join(f"{line}\n" for line in export_lines("there", znodes)))
    assert run(["rehearse", "--file", str(tree), "drain", "0", "kill", "1", "--html", str(page)]) == 3
    told = capsys.readouterr().out
    assert "3 brokers (0,1,2), controller 0, 2 topics, 4 partitions read from" in told
    assert "drain 0:" in told
    assert "offline        1: alone-0" in told
    assert 'class="offline"' in page.read_text()
    assert run(["rehearse", "--file", str(tree)]) == 0
    assert "as it is:" in capsys.readouterr().out
    assert run(["rehearse", "--file", str(tree), "kill", "9"]) == 2
    assert "There is no broker 9" in capsys.readouterr().err
    assert run(["rehearse", "--file", str(tmp_path / "none"), "kill", "1"]) == 1
    tree.write_text("something else\n")
    assert run(["rehearse", "--file", str(tree), "kill", "1"]) == 1
    assert "none of an export" in capsys.readouterr().err


def test_a_migration_is_looked_at_and_its_rolling_restart_rehearsed(tmp_path, capsys):
    tree = tmp_path / "tree"
    extra = [
        ExportedZNode("/cluster/id", b'{"version":"1","id":"_fofLz9DRFCDERJ6Q4_cPA"}'),
        ExportedZNode("/feature", b'{"features":{},"version":2,"status":1}'),
    ]

    def told(znodes):
        tree.write_text("".join(f"{line}\n" for line in export_lines("there", [*znodes, *extra])))
        code = run(["rehearse", "migration", "--file", str(tree), "--format", "json"])
        return code, [each["rule"] for each in json.loads(capsys.readouterr().out)["findings"]]

    assert told(cluster(THREE)) == (0, [])
    assert told(cluster({**THREE, "alone": ((1,),)})) == (1, ["roll-offline"])
    strict = cluster(THREE, configs={"topics/t": {"min.insync.replicas": "3"}})
    assert told(strict) == (1, ["roll-under-min-isr"])
    assert told([*cluster(THREE), ExportedZNode("/migration", b"")]) == (1, ["migration-malformed"])
    assert run(["rehearse", "migration", "--file", str(tree)]) == 1
    out = capsys.readouterr().out
    assert "KAFKA-19480" in out
    assert "kafka-storage format -t _fofLz9DRFCDERJ6Q4_cPA" in out
