"""Tests that notice a mutant of `table_new`, or of strangers, that no seed has caught: `named_tests` tries them.

`STOOD` were there when the mutant was written, or came for a reason of their own; `ordinary_tests` has found them.
`WRITTEN` came because nothing noticed the mutant. They assert what its sentence denies, and know nothing of its edit.
"""

from __future__ import annotations

from typing import Final

_ASSIGNORS: Final = "tests/property/test_assignors.py"
_COORDINATED: Final = "tests/unit/coordinator/test_group_coordinator.py"
_GROUP: Final = "tests/unit/client/test_client_group.py"
_GROUPS: Final = "tests/unit/coordinator/test_group_machine.py"
_CONTROLLER: Final = "tests/unit/controller/test_controller_stories.py"
_REPLICAS: Final = "tests/unit/replica/test_replicas.py"
_SENDERS: Final = "tests/unit/client/test_client_senders.py"
_SIM_ADMIN: Final = "tests/simulation/test_sim_admin.py"
_SIM_CONSUMER: Final = "tests/simulation/test_sim_consumer.py"
_SINK: Final = "tests/process/test_exactly_once_sink.py"
_STREAM: Final = "tests/process/test_spark_stream_reader.py"
_TRANSACTIONS: Final = "tests/unit/coordinator/test_transaction_coordinator.py"

STOOD: Final = {
    "N35": f"{_CONTROLLER}::test_b06_a_leader_meets_the_truth_after_a_write_that_was_not_told",
    "N40": f"{_GROUPS}::test_only_members_of_this_generation_may_commit",
    "N41": f"{_GROUPS}::test_an_assignment_that_is_late_by_a_generation_is_handed_out_to_nobody",
    "N49": f"{_TRANSACTIONS}::test_a_marker_is_sent_until_it_is_written",
    "N54": "tests/unit/broker/test_broker_connection.py"
    "::test_the_next_request_waits_while_the_client_does_not_read_its_answers",
    "N57": "tests/unit/replica/test_transaction_verification.py::test_without_an_answer_nothing_is_confirmed",
    "N61": "tests/process/zk/test_zk_client_lost_replies.py"
    "::test_creates_and_deletes_are_recognized_and_others_are_not",
    "N72": f"{_ASSIGNORS}::test_the_first_members_of_a_range_get_one_partition_more_and_those_beyond_nothing",
    "N80": "tests/unit/wire/test_wire_records.py::test_a_bomb_is_refused_before_it_is_unpacked",
    "N83": "tests/unit/spark/test_spark_plan.py::test_cutting_keeps_every_offset_once",
    "N87": f"{_SINK}::test_a_driver_that_dies_at_any_step_is_followed_by_one_that_completes_the_batch",
    "N107": f"{_TRANSACTIONS}::test_a_marker_follows_its_partition_to_another_leader",
    "N113": f"{_CONTROLLER}::test_somebody_is_elected_when_a_controller_comes_and_goes_before_anybody_looks",
    "N131": "tests/unit/broker/test_stop_replica.py::test_who_coordinates_is_told_of_what_is_deleted",
    "N138": f"{_TRANSACTIONS}::test_a_completion_that_cannot_be_written_is_written_later",
    "N159": f"{_REPLICAS}::test_a_log_start_that_moves_between_a_read_and_its_answer_is_told_with_the_next_fetch",
    "N175": f"{_CONTROLLER}::test_a_reassignment_that_would_drop_the_last_replica_in_sync_is_refused",
    "N185": f"{_TRANSACTIONS}::test_an_old_transaction_does_not_time_out_before_the_log_has_told_how_it_ended",
    "N188": "tests/unit/client/test_client_consumer.py"
    "::test_records_that_were_in_hand_when_their_partition_was_paused_come_once_it_is_resumed",
    "N189": f"{_SENDERS}::test_records_go_to_the_leader_of_which_somebody_else_was_told_while_their_sender_lingered",
    "N190": "tests/unit/zk/test_zk_silent_server.py"
    "::test_a_server_that_takes_pings_and_answers_none_is_left_within_the_sessions_time",
    "X14": f"{_CONTROLLER}::test_partitions_are_added_to_a_topic",
    "X20": "tests/unit/controller/test_controller_context.py::test_nothing_of_a_removed_topic_is_kept",
    "X21": f"{_COORDINATED}::test_an_offset_that_is_forgotten_on_its_way_to_the_log_stays_forgotten",
    "X23": f"{_COORDINATED}::test_offsets_of_a_transaction_count_with_its_marker_or_never",
    "X24": "tests/unit/coordinator/test_group_membership.py::test_who_may_commit_while_shares_are_worked_out",
    "Y15": f"{_CONTROLLER}::test_a_reassignment_that_would_drop_the_last_replica_in_sync_is_refused",
    "Y19": f"{_CONTROLLER}::test_b06_a_leader_meets_the_truth_after_a_write_that_was_not_told",
    "Z16": f"{_CONTROLLER}::test_a_reassignment_that_drops_the_leader_which_another_one_added_elects",
}
WRITTEN: Final = {
    "N25": f"{_REPLICAS}::test_who_has_cut_its_log_begins_a_new_session_in_which_all_is_told",
    "N32": f"{_CONTROLLER}::test_a_dead_broker_leaves_the_isr_also_where_the_leader_wrote_the_state_just_then",
    "N53": "tests/unit/broker/test_delegation_tokens.py::test_a_change_is_taken_up_that_zookeeper_was_lost_over",
    "N56": f"{_SIM_ADMIN}::test_a_leaving_broker_asks_again_where_its_controller_refused",
    "N68": f"{_SENDERS}::test_a_request_whose_answer_was_lost_cannot_end_the_next_transaction",
    "N71": f"{_SIM_CONSUMER}::test_a_seek_counts_that_comes_while_the_committed_offset_is_looked_up",
    "N73": f"{_ASSIGNORS}::test_what_two_members_have_claimed_in_one_generation_neither_of_them_goes_on_reading",
    "N74": f"{_GROUP}::test_a_member_that_was_removed_while_it_joins_goes_on_where_the_group_is",
    "N76": f"{_SIM_ADMIN}::test_groups_are_not_listed_in_part_where_a_broker_does_not_answer",
    "N77": f"{_GROUP}::test_the_error_of_a_whole_group_is_not_taken_for_no_offsets",
    "N81": "tests/property/test_scan.py::test_offsets_are_in_order_where_all_of_them_are",
    "N84": f"{_STREAM}::test_committed_reads_end_where_an_open_transaction_begins",
    "N85": f"{_SINK}::test_what_an_attempt_wrote_behind_the_counted_one_is_not_committed",
    "N86": f"{_SINK}::test_what_is_decided_is_not_undone_by_who_was_not_told_of_it",
    "N88": f"{_SINK}::test_rows_without_partition_go_on_from_one_arrow_batch_to_the_next_where_the_compiled_attempt"
    "_put_them",
    "N89": "tests/unit/spark/test_spark_filters.py"
    "::test_each_comparison_with_an_offset_is_exact_and_leaves_nothing_to_spark",
    "N90": f"{_STREAM}::test_what_is_available_now_has_no_partition_that_was_added_since",
    "N91": "tests/unit/runtime/test_runtime_real.py::test_what_the_kernel_takes_in_many_parts_stands_in_order",
    "N116": "tests/unit/replica/test_role_changes.py"
    "::test_a_leader_that_is_elected_again_while_it_is_asked_for_offsets_is_followed_on",
    "N117": "tests/unit/replica/test_metadata_cache.py"
    "::test_nothing_is_known_of_a_topic_any_more_whose_deletion_was_missed_when_it_is_made_anew",
    "N127": f"{_CONTROLLER}::test_everybody_is_told_that_a_broker_is_dead_which_had_no_replica",
    "N130": "tests/unit/broker/test_broker_epochs.py"
    "::test_a_request_that_waited_for_zookeeper_is_not_obeyed_by_who_has_registered_anew_meanwhile",
    "N133": "tests/simulation/test_sim_client.py"
    "::test_who_takes_a_partition_over_waits_for_the_offset_of_an_open_transaction",
    "N141": f"{_CONTROLLER}::test_a_broker_that_registers_again_forgets_topics_that_were_deleted_meanwhile",
    "N145": f"{_SIM_CONSUMER}::test_a_member_whose_heartbeat_was_answered_late_does_not_outlive_its_session",
    "N147": f"{_GROUP}::test_a_member_that_was_removed_while_it_joins_goes_on_where_the_group_is",
    "N170": "tests/process/zk/test_zk_client.py::test_changes_of_one_topic_at_the_same_time_are_all_made",
    "N172": f"{_SIM_CONSUMER}::test_who_closes_a_consumer_does_not_wait_for_brokers_that_are_gone",
    "Z9": f"{_REPLICAS}::test_an_isr_that_a_controller_refuses_which_knows_no_better_is_asked_for_until_it_is_granted",
    "Z11": f"{_REPLICAS}::test_a_follower_that_begins_before_its_leader_cuts_no_more_than_what_differs",
    "Z17": f"{_CONTROLLER}::test_a_reassignment_by_znode_that_a_request_replaces_is_asked_for_no_more",
}
EQUIVALENT: Final = {
    "N92": "that a partition has no leader is its own error in the metadata, and never its topic's; the only error of a"
    " topic that the harness' own client, which may do all, is given by name is that there is none of that name",
}
"""Mutants whose behaviour is the code's, and why: no test can notice them."""
