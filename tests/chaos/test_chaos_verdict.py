"""What the chaos is judged by, on values made by hand."""

from chaos_verdict import acknowledged_survive, order_is_kept, reads_stay

from barnabas.model.ids import TopicPartition

T = TopicPartition("t", 0)


def test_lost_moved_doubled_and_invented_values_are_told_apart():
    acknowledged = {b"a": (T, 0), b"b": (T, 1), b"c": (T, 2)}
    found = {(T, 0): b"a", (T, 2): b"b", (T, 3): b"a", (T, 4): b"z"}
    wrong = acknowledged_survive(acknowledged, [b"a", b"b", b"c"], found)
    assert [sentence.partition(":")[0] for sentence in wrong] == ["R7", "R7", "T1", "R10"]
    assert "b'b'" in wrong[0]
    assert "lost" in wrong[1]


def test_the_order_of_a_producer_is_kept_by_partition():
    def origin(value: bytes) -> tuple[str, int]:
        return "p", int(value)

    assert order_is_kept({(T, 0): b"0", (T, 1): b"2", (TopicPartition("t", 1), 0): b"1"}, origin) == []
    assert len(order_is_kept({(T, 0): b"2", (T, 1): b"1"}, origin)) == 1


def test_a_read_that_changed_or_went_is_told():
    assert reads_stay({(T, 0): b"a"}, {(T, 0): b"a"}) == []
    assert len(reads_stay({(T, 0): b"a", (T, 1): b"b"}, {(T, 0): b"x"})) == 2
