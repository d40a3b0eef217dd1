"""What a coordinator has heard of its partitions' leaders: what is late changes nothing, and what is news does."""

from __future__ import annotations

from barnabas.coordinator.leader_epochs import LeaderEpochs


def test_who_leads_no_more_within_an_epoch_resigns_and_does_not_come_back_in_it() -> None:
    """As a broker does whose disk fails: no later epoch tells it of the next leader."""
    epochs = LeaderEpochs()
    assert epochs.elected(0, 5)
    assert epochs.resigned(0, 5)
    assert not epochs.elected(0, 5)
    assert epochs.elected(0, 6)


def test_what_is_late_changes_nothing() -> None:
    epochs = LeaderEpochs()
    assert epochs.elected(0, 5)
    assert not epochs.resigned(0, 4)
    assert not epochs.elected(0, 4)
    assert epochs.elected(1, 0), "of another partition nothing is known"


def test_a_partition_that_is_gone_may_be_made_anew() -> None:
    epochs = LeaderEpochs()
    assert epochs.elected(0, 5)
    assert epochs.resigned(0, None)
    assert epochs.elected(0, 0)
