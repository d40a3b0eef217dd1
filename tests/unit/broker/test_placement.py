from collections import Counter

import pytest

from barnabas.broker.placement import assign_added_partitions, assign_replicas, rack_alternated
from barnabas.broker.topic_names import colliding_topics, validate_topic_name
from barnabas.broker.topics import given_assignment, validate_assignment
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.runtime.real import RealEntropy
from barnabas.wire.messages.create_partitions import CreatePartitionsRequest

ENTROPY = RealEntropy()
FIVE = dict.fromkeys(range(5))


def test_leaders_go_round_and_the_followers_shift_with_each_round():
    # The example in the comment of Kafka's AdminUtils: 10 partitions, 3 replicas, 5 brokers, start 0.
    assert list(assign_replicas(FIVE, 10, 3, ENTROPY, start_index=0).values()) == [
        (0, 1, 2),
        (1, 2, 3),
        (2, 3, 4),
        (3, 4, 0),
        (4, 0, 1),
        (0, 2, 3),
        (1, 3, 4),
        (2, 4, 0),
        (3, 0, 1),
        (4, 1, 2),
    ]


@pytest.mark.parametrize("replication_factor", [1, 2, 3, 5])
def test_every_broker_gets_the_same_share(replication_factor):
    assignment = assign_replicas(FIVE, 10, replication_factor, ENTROPY)
    assert Counter(replicas[0] for replicas in assignment.values()) == Counter(dict.fromkeys(range(5), 2))
    assert all(len(set(replicas)) == replication_factor for replicas in assignment.values())


def test_brokers_are_taken_from_the_racks_in_turn():
    racks = {0: "rack1", 1: "rack3", 2: "rack3", 3: "rack2", 4: "rack2", 5: "rack1"}
    assert rack_alternated(racks) == [0, 3, 1, 5, 4, 2]


def test_no_rack_holds_two_replicas_while_another_holds_none():
    racks = {0: "a", 1: "b", 2: "c", 3: "a", 4: "b", 5: "c"}
    for replicas in assign_replicas(racks, 24, 3, ENTROPY).values():
        assert {racks[broker] for broker in replicas} == {"a", "b", "c"}


@pytest.mark.parametrize("cores", [2, 8, 16])
@pytest.mark.parametrize("machines", [3, 4])
def test_each_core_of_each_machine_leads_as_much_and_holds_as_much_where_each_has_a_broker(cores, machines):
    racks = {machine * cores + core: f"machine-{machine}" for machine in range(machines) for core in range(cores)}
    placed = assign_replicas(racks, 4 * len(racks), 3, ENTROPY).values()
    assert Counter(replicas[0] for replicas in placed) == dict.fromkeys(racks, 4)
    assert Counter(broker for replicas in placed for broker in replicas) == dict.fromkeys(racks, 4 * 3)
    assert all(len({racks[broker] for broker in replicas}) == 3 for replicas in placed)


def test_racks_do_not_count_while_one_broker_has_none():
    assignment = assign_replicas({0: "a", 1: None, 2: "a"}, 6, 3, ENTROPY)
    assert all(sorted(replicas) == [0, 1, 2] for replicas in assignment.values())


def test_added_partitions_go_on_where_the_topic_began():
    first = assign_replicas(FIVE, 3, 2, ENTROPY, start_index=2)
    added = assign_added_partitions(FIVE, first[0], 3, 2, ENTROPY)
    assert sorted(added) == [3, 4]
    assert {**first, **added} == assign_replicas(FIVE, 5, 2, ENTROPY, start_index=2)


@pytest.mark.parametrize(
    ("partitions", "factor", "code"),
    [
        (0, 1, ErrorCode.INVALID_PARTITIONS),
        (1, 0, ErrorCode.INVALID_REPLICATION_FACTOR),
        (1, 6, ErrorCode.INVALID_REPLICATION_FACTOR),
    ],
)
def test_what_cannot_be_placed_is_refused(partitions, factor, code):
    with pytest.raises(KafkaError) as refused:
        assign_replicas(FIVE, partitions, factor, ENTROPY)
    assert refused.value.code is code


@pytest.mark.parametrize("assignment", [{0: (1,), 2: (1,)}, {0: (1,), 1: (1, 2)}, {0: (1, 1)}, {0: ()}])
def test_an_assignment_that_makes_no_sense_is_refused(assignment):
    with pytest.raises(KafkaError) as refused:
        validate_assignment(assignment)
    assert refused.value.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT


@pytest.mark.parametrize(
    ("replicas", "said"),
    [
        ([[0], []], "Cannot have replication factor of 0 for partition id 3."),
        ([[0, 1], [1, 1]], "Duplicate brokers not allowed in replica assignment: 1, 1 for partition id 3."),
        (
            [[0], [1, 2]],
            "Inconsistent replication factor between partitions, partition 0 has 1 while partitions [3] have "
            "replication factors [2], respectively.",
        ),
    ],
)
def test_where_added_partitions_cannot_be_is_said_in_kafkas_words(replicas, said):
    assignments = [CreatePartitionsRequest.CreatePartitionsAssignment(broker_ids=ids) for ids in replicas]
    with pytest.raises(KafkaError) as refused:
        given_assignment(assignments, existing=2, added=2, replication_factor=1, racks={0: None, 1: None, 2: None})
    assert refused.value.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert refused.value.message == said


@pytest.mark.parametrize("name", ["", ".", "..", "a" * 250, "a/b", "süd", "a b", "a\n"])
def test_names_that_kafka_refuses_are_refused(name):
    with pytest.raises(KafkaError) as refused:
        validate_topic_name(name)
    assert refused.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "a" * 249, "..."])
def test_names_that_kafka_takes_are_taken(name):
    validate_topic_name(name)


def test_topics_whose_metrics_would_collide_are_found():
    assert colliding_topics("a.b", ["a_b", "a-b", "c"]) == ["a_b"]
    assert colliding_topics("ab", ["a_b"]) == []
