"""The sink's outcomes, without Spark: whoever dies, and wherever, a committed read gives every row once."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from cluster import until
from committed_records import committed
from sink_worlds import CONFIG, STAMPED, Died, Query

from barnabas.client.asking import finished
from barnabas.client.blocking import BlockingCluster
from barnabas.client.blocking_transaction import BlockingTransaction, open_transactions
from barnabas.model.ids import TopicPartition
from barnabas.spark.delivery import Step
from barnabas.spark.one_transaction import KEYLESS_RUN
from barnabas.spark.sink_marker import SinkError
from barnabas.testing import KafkaCluster

BOTH = pytest.mark.parametrize("delivery", ["exactly-once", "exactly-once-by-task"])
STEPS = {
    "exactly-once": [Step.PLANNED, Step.WRITING, Step.WRITTEN, Step.MARKED, Step.DECIDED, Step.ENDED],
    "exactly-once-by-task": list(Step),
}


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaCluster]:
    with KafkaCluster(1, config=CONFIG | {"barnabas.transaction.two.phase.commit.enable": "true"}) as started:
        yield started


def rows(batch: int, partition: int, count: int = 20) -> list[tuple[bytes, int]]:
    return [(b"%d-%d-%03d" % (batch, partition, number), partition) for number in range(count)]


def tasks(batch: int) -> list[list[tuple[bytes, int]]]:
    """Two tasks: one with two target partitions, one with one."""
    return [rows(batch, 0) + rows(batch, 1), rows(batch, 2)]


def expected(*batches: int) -> list[bytes]:
    return sorted(value for batch in batches for task in tasks(batch) for value, _ in task)


@pytest.mark.parametrize(
    ("delivery", "step"), [(delivery, step) for delivery, steps in STEPS.items() for step in steps]
)
def test_a_driver_that_dies_at_any_step_is_followed_by_one_that_completes_the_batch(
    kafka: KafkaCluster, delivery: str, step: Step
) -> None:
    topic = f"driver-{delivery}-{step.value}"
    kafka.create_topic(topic, partitions=3)
    query = Query(kafka, topic, delivery=delivery)
    query.batch(0, tasks(0))
    query.dies = step
    with pytest.raises(Died):
        query.batch(1, tasks(1))
    query.batch(1, tasks(1))
    query.batch(2, tasks(2))
    assert committed(kafka, topic) == expected(0, 1, 2)


@BOTH
@pytest.mark.parametrize("encoder", ["python", "compiled"])
def test_a_task_that_died_is_tried_again(kafka: KafkaCluster, delivery: str, encoder: str) -> None:
    topic = f"task-{delivery}-{encoder}"
    kafka.create_topic(topic, partitions=3)
    query = Query(kafka, topic, delivery=delivery, options={"kafka.batch.size": "200", "encoder": encoder})
    query.dies = Step.WRITING
    query.batch(0, tasks(0), tries=2)
    assert committed(kafka, topic) == expected(0)


def test_a_task_that_died_finds_its_rows_without_partition_where_the_compiled_attempt_put_them(
    kafka: KafkaCluster,
) -> None:
    kafka.create_topic("placed", partitions=3)
    query = Query(kafka, "placed", options={"kafka.batch.size": "4000", "encoder": "compiled"})
    given = [(b"%05d" % number, None) for number in range(3 * KEYLESS_RUN + 500)]
    with BlockingCluster(kafka.bootstrap) as cluster:
        plan = query.deliverer().plan(cluster)
        query.dies = Step.WRITING
        with pytest.raises(Died):
            query.write(cluster, plan, 0, 0, given)
        wrote = query.write(cluster, plan, 0, 0, given, number=1)
        query.deliverer().commit(cluster, [wrote], query.attempt(0))
        assert sorted(wrote.counts.values()) == [KEYLESS_RUN, KEYLESS_RUN, KEYLESS_RUN + 500]
    assert committed(kafka, "placed") == [value for value, _ in given]


def test_rows_without_partition_go_on_from_one_arrow_batch_to_the_next_where_the_compiled_attempt_put_them(
    kafka: KafkaCluster,
) -> None:
    kafka.create_topic("placed-on", partitions=3)
    query = Query(kafka, "placed-on", options={"encoder": "compiled"})
    given = [(b"%05d" % number, None) for number in range(2 * KEYLESS_RUN + 500)]
    with BlockingCluster(kafka.bootstrap) as cluster:
        plan = query.deliverer().plan(cluster)
        lost = query.write(cluster, plan, 0, 0, given)  # Spark did not hear that it was through
        wrote = query.write(cluster, plan, 0, 0, given, number=1)
        query.deliverer().commit(cluster, [wrote], query.attempt(0))
        assert wrote.counts == lost.counts
    assert committed(kafka, "placed-on") == [value for value, _ in given]


def test_an_attempt_in_another_order_leaves_each_row_once(kafka: KafkaCluster) -> None:
    kafka.create_topic("reordered", partitions=3)
    query = Query(kafka, "reordered", options={"kafka.batch.size": "200"})
    given = rows(0, 0) + rows(0, 0)[:5]  # some rows are there twice
    with BlockingCluster(kafka.bootstrap) as cluster:
        plan = query.deliverer().plan(cluster)
        query.dies = Step.WRITING
        with pytest.raises(Died):
            query.write(cluster, plan, 0, 0, given)
        wrote = query.write(cluster, plan, 0, 0, list(reversed(given)), number=1)
        query.deliverer().commit(cluster, [wrote], query.attempt(0))
    assert committed(kafka, "reordered") == sorted(value for value, _ in given)


def test_an_attempt_finds_its_rows_where_the_broker_has_stamped_them(kafka: KafkaCluster) -> None:
    kafka.create_topic("stamped", partitions=1, config={"message.timestamp.type": "LogAppendTime"})
    query = Query(kafka, "stamped", schema=STAMPED, options={"kafka.batch.size": "200"}, dies=Step.WRITING)
    given = [(b"%03d" % number, 0, datetime.fromtimestamp(number, UTC)) for number in range(20)]
    query.batch(0, [[*given, given[0]]], tries=2)
    assert committed(kafka, "stamped") == sorted([value for value, _, _ in given] + [b"000"])


def test_an_attempt_with_other_rows_is_refused_and_the_batch_is_written_by_the_next_run(kafka: KafkaCluster) -> None:
    kafka.create_topic("random", partitions=3)
    query = Query(kafka, "random", options={"kafka.batch.size": "200"})
    with BlockingCluster(kafka.bootstrap) as cluster:
        plan = query.deliverer().plan(cluster)
        query.dies = Step.WRITING
        with pytest.raises(Died):
            query.write(cluster, plan, 0, 0, rows(7, 0))
        with pytest.raises(SinkError, match="random-0 has rows of this micro-batch that are not this task's"):
            query.write(cluster, plan, 0, 0, rows(0, 0), number=1)
        # Where it has no rows for that partition at all, the driver sees it.
        wrote = query.write(cluster, plan, 0, 0, rows(0, 1), number=1)
        with pytest.raises(SinkError, match="has no rows for random-0, and some were written there"):
            query.deliverer().commit(cluster, [wrote], query.attempt(0))
    query.batch(0, tasks(0))
    assert committed(kafka, "random") == expected(0)


def test_what_an_attempt_wrote_behind_the_counted_one_is_not_committed(kafka: KafkaCluster) -> None:
    kafka.create_topic("beyond", partitions=3)
    query = Query(kafka, "beyond")
    with BlockingCluster(kafka.bootstrap) as cluster:
        plan = query.deliverer().plan(cluster)
        wrote = query.write(cluster, plan, 0, 0, rows(0, 0))
        query.write(cluster, plan, 0, 0, [*rows(0, 0), (b"more", 0)], number=1)  # Spark has given it up
        with pytest.raises(SinkError, match="has 20 rows for beyond-0, and 21 were written there"):
            query.deliverer().commit(cluster, [wrote], query.attempt(0))
    query.batch(0, tasks(0))
    assert committed(kafka, "beyond") == expected(0)


def test_tasks_that_share_a_partition_are_refused_with_the_way_out(kafka: KafkaCluster) -> None:
    kafka.create_topic("shared-partition", partitions=3)
    query = Query(kafka, "shared-partition")
    with pytest.raises(SinkError, match=r"two tasks write to it.*by_target_partition"):
        query.batch(0, [rows(0, 0), rows(1, 0)])
    with BlockingCluster(kafka.bootstrap) as cluster:
        # At the same time, so that neither saw the other, with batches that the broker takes for the same one.
        plan = query.deliverer().plan(cluster)
        first = query.write(cluster, plan, 0, 0, rows(0, 0))
        second = query.write(cluster, plan, 0, 1, rows(0, 1))
        second.counts = dict(first.counts)
        with pytest.raises(SinkError, match=r"Two tasks of batch 0 have rows for shared-partition-0.*by_target_part"):
            query.deliverer().commit(cluster, [first, second], query.attempt(0))
    by_task = Query(kafka, "shared-partition", delivery="exactly-once-by-task")
    by_task.batch(0, [rows(0, 0), rows(1, 0)])
    assert committed(kafka, "shared-partition") == sorted(value for value, _ in rows(0, 0) + rows(1, 0))


@BOTH
def test_a_fresh_checkpoint_does_not_get_the_sink_before_it_is_told_to(kafka: KafkaCluster, delivery: str) -> None:
    topic = f"fresh-{delivery}"
    kafka.create_topic(topic, partitions=3)
    Query(kafka, topic, delivery=delivery).batch(0, tasks(0))
    fresh = Query(kafka, topic, name="another", delivery=delivery)
    with pytest.raises(SinkError, match=r"belongs to query query, whose batch 0 was its last.*takeOver"):
        fresh.batch(0, tasks(1))
    taken = Query(kafka, topic, name="another", delivery=delivery, options={"takeOver": "true"})
    taken.batch(0, tasks(1))
    taken.batch(0, tasks(1))  # its own batch is in
    assert committed(kafka, topic) == expected(0, 1)


def test_a_checkpoint_that_went_back_and_a_marker_that_is_gone_are_errors(kafka: KafkaCluster) -> None:
    kafka.create_topic("back", partitions=3)
    query = Query(kafka, "back")
    with pytest.raises(SinkError, match="has no marker, and the query is at batch 3"):
        query.batch(3, tasks(3))
    Query(kafka, "back", options={"takeOver": "true"}).batch(3, tasks(3))
    query.batch(4, tasks(4))
    with pytest.raises(SinkError, match="has batch 4 of this query, and the checkpoint is at batch 3"):
        query.batch(3, tasks(3))
    assert committed(kafka, "back") == expected(3, 4)


@BOTH
def test_a_query_whose_first_batches_have_no_rows_goes_on(kafka: KafkaCluster, delivery: str) -> None:
    topic = f"filtered-{delivery}"
    kafka.create_topic(topic, partitions=3)
    query = Query(kafka, topic, delivery=delivery)
    query.batch(0, [[], []])
    query.batch(1, [[], []])
    query.batch(2, tasks(2))
    # The one that takes the sink over has it from its first batch on, though that has no rows.
    Query(kafka, topic, name="another", delivery=delivery, options={"takeOver": "true"}).batch(0, [[]])
    Query(kafka, topic, name="another", delivery=delivery).batch(1, tasks(1))
    assert committed(kafka, topic) == expected(1, 2)


@BOTH
def test_a_second_query_with_the_same_sink_id_fences_the_first(kafka: KafkaCluster, delivery: str) -> None:
    topic = f"twice-{delivery}"
    kafka.create_topic(topic, partitions=3)
    first = Query(kafka, topic, delivery=delivery)
    second = Query(kafka, topic, delivery=delivery)
    with BlockingCluster(kafka.bootstrap) as cluster:
        plan = first.deliverer().plan(cluster)
        wrote = [first.write(cluster, plan, 0, task, given) for task, given in enumerate(tasks(0))]
        second.batch(0, tasks(0))
        with pytest.raises(SinkError):
            first.deliverer().commit(cluster, wrote, first.attempt(0))
        with pytest.raises(SinkError, match=r"lost its transaction \(.*\): another query uses sinkId"):
            first.deliverer().abort(cluster, wrote)
        if delivery == "exactly-once":
            with pytest.raises(SinkError, match="another query uses sinkId"):
                first.write(cluster, plan, 0, 0, rows(0, 0))
    assert committed(kafka, topic) == expected(0)


def test_a_coordinator_that_moves_in_mid_batch_changes_nothing() -> None:
    with KafkaCluster(3, config=CONFIG) as kafka:
        for delivery in ("exactly-once", "exactly-once-by-task"):
            kafka.create_topic(delivery, partitions=3)
            query = Query(kafka, delivery, delivery=delivery)
            with BlockingCluster(kafka.bootstrap) as cluster:
                plan = query.deliverer().plan(cluster)
                wrote = [query.write(cluster, plan, 0, task, given) for task, given in enumerate(tasks(0))]
                kafka.partition("__transaction_state", 0).leader.kill()
                query.deliverer().commit(cluster, wrote, query.attempt(0))
                kafka.recover()
            query.batch(0, tasks(0))
            query.batch(1, tasks(1))
            assert committed(kafka, delivery) == expected(0, 1)


def test_a_transaction_that_expires_fails_its_batch_and_loses_nothing(kafka: KafkaCluster) -> None:
    kafka.create_topic("expired", partitions=3)
    query = Query(kafka, "expired", options={"kafka.transaction.timeout.ms": "1000"})
    with BlockingCluster(kafka.bootstrap) as cluster:
        plan = query.deliverer().plan(cluster)
        wrote = query.write(cluster, plan, 0, 0, rows(0, 0))
        until(lambda: not open_transactions(cluster), "the transaction has expired")
        with pytest.raises(SinkError, match=r"Nothing of (it|the batch) counts"):
            query.deliverer().commit(cluster, [wrote], query.attempt(0))
    Query(kafka, "expired").batch(0, tasks(0))
    assert committed(kafka, "expired") == expected(0)


def test_a_task_transaction_that_ended_before_the_decision_fails_its_batch_and_loses_nothing(
    kafka: KafkaCluster,
) -> None:
    kafka.create_topic("undecided", partitions=3)
    query = Query(kafka, "undecided", delivery="exactly-once-by-task")
    with BlockingCluster(kafka.bootstrap) as cluster:
        plan = query.deliverer().plan(cluster)
        wrote = [query.write(cluster, plan, 0, task, given) for task, given in enumerate(tasks(0))]
        BlockingTransaction.initialized(cluster, "sink-undecided-1")  # aborts and raises the epoch, as an expiry does
        with pytest.raises(SinkError, match="the transaction of task 1 ended before the batch was decided"):
            query.deliverer().commit(cluster, wrote, query.attempt(0))
        query.deliverer().abort(cluster, wrote)
    query.batch(0, tasks(0))
    assert committed(kafka, "undecided") == expected(0)


def test_a_decided_transaction_that_was_aborted_is_a_loss_that_the_query_does_not_get_past_unseen(
    kafka: KafkaCluster,
) -> None:
    kafka.create_topic("lost", partitions=3)
    query = Query(kafka, "lost", delivery="exactly-once-by-task", dies=Step.DECIDED)
    with pytest.raises(Died):
        query.batch(0, tasks(0))
    with BlockingCluster(kafka.bootstrap) as cluster:
        BlockingTransaction.initialized(cluster, "sink-lost-0")  # aborts and raises the epoch, as an expiry does
    restarted = Query(kafka, "lost", delivery="exactly-once-by-task")
    for _ in range(2):
        with pytest.raises(SinkError, match=r"Batch 0 was decided, and the rows of its task 0 are lost.*takeOver=true"):
            restarted.batch(0, tasks(0))
    Query(kafka, "lost", delivery="exactly-once-by-task", options={"takeOver": "true"}).batch(1, tasks(1))
    second_task = [value for value, _ in tasks(0)[1]]
    assert committed(kafka, "lost") == sorted(second_task + expected(1))


def test_what_is_decided_is_not_undone_by_who_was_not_told_of_it(kafka: KafkaCluster) -> None:
    kafka.create_topic("told", partitions=3)
    query = Query(kafka, "told", delivery="exactly-once-by-task", dies=Step.DECIDED)
    with BlockingCluster(kafka.bootstrap) as cluster:
        plan = query.deliverer().plan(cluster)
        wrote = [query.write(cluster, plan, 0, task, given) for task, given in enumerate(tasks(0))]
        with pytest.raises(Died):
            query.deliverer().commit(cluster, wrote, query.attempt(0))
        query.deliverer().abort(cluster, wrote)
    query.batch(0, tasks(0))
    assert committed(kafka, "told") == expected(0)


def test_a_decided_transaction_does_not_expire_where_the_brokers_let_it_wait(kafka: KafkaCluster) -> None:
    kafka.create_topic("waits", partitions=3)
    short = {"kafka.transaction.timeout.ms": "1"}
    query = Query(kafka, "waits", delivery="exactly-once-by-task", options=short, dies=Step.WRITTEN)
    with pytest.raises(Died):
        query.batch(0, tasks(0))
    with BlockingCluster(kafka.bootstrap) as cluster:
        assert open_transactions(cluster) == ["sink-waits-0", "sink-waits-1"]
        # What is to expire has: the tasks' transactions are still there.
        expired = BlockingTransaction.initialized(cluster, "expires", transaction_timeout_ms=1)
        finished(expired.steps.add([TopicPartition("waits", 0)]))
        until(lambda: "expires" not in open_transactions(cluster), "what is to expire has")
        assert open_transactions(cluster) == ["sink-waits-0", "sink-waits-1"]
    Query(kafka, "waits", delivery="exactly-once-by-task").batch(0, tasks(0))
    assert committed(kafka, "waits") == expected(0)


def test_what_a_larger_batch_that_died_left_open_is_aborted_by_the_next_run(kafka: KafkaCluster) -> None:
    kafka.create_topic("leftover", partitions=3)
    query = Query(kafka, "leftover", delivery="exactly-once-by-task", dies=Step.WRITTEN)
    with pytest.raises(Died):
        query.batch(0, [rows(0, each) for each in range(3)])
    query.batch(0, [rows(0, 0)])
    assert committed(kafka, "leftover") == [value for value, _ in rows(0, 0)]


def test_what_tasks_were_decided_to_commit_is_committed_where_the_next_run_has_one_transaction(
    kafka: KafkaCluster,
) -> None:
    kafka.create_topic("changed", partitions=3)
    query = Query(kafka, "changed", delivery="exactly-once-by-task", dies=Step.DECIDED)
    with pytest.raises(Died):
        query.batch(0, tasks(0))
    query.delivery = "exactly-once"
    query.batch(0, tasks(0))
    query.batch(1, tasks(1))
    with BlockingCluster(kafka.bootstrap) as cluster:
        assert not [name for name in open_transactions(cluster) if name.startswith("sink-changed")]
    assert committed(kafka, "changed") == expected(0, 1)
