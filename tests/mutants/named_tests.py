"""Tests that hold a bug by its name: each has to fail on the mutant's copy, and to pass on the code as it is.

``python tests/mutants/named_tests.py [--only B20,B21]`` (`make mutants-by-test`) tries it; it ends with 1 where a test
does not notice its mutant. They are for bugs that a drawn plan meets too seldom to be waited for, and for protections
(``--only P``), which nobody misses until somebody attacks.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[1]))

from mutants.copies import make_copy
from mutants.held_tests import STOOD, WRITTEN
from mutants.mutant import Mutant
from mutants.table import MUTANTS
from mutants.table_fourth_strangers import FOURTH_STRANGERS
from mutants.table_more_strangers import MORE_STRANGERS
from mutants.table_new import NEW_MUTANTS
from mutants.table_security import NOTICED_BY, PROTECTIONS
from mutants.table_strangers import STRANGERS
from mutants.table_third_strangers import THIRD_STRANGERS

ROOT: Final = Path(__file__).parents[2]
_STORIES: Final = "tests/unit/controller/test_controller_stories.py"
_REPLICAS: Final = "tests/unit/replica/test_replicas.py"
_ROLES: Final = "tests/unit/replica/test_role_changes.py"
_EPOCHS: Final = "tests/unit/broker/test_broker_epochs.py"
_LOG: Final = "tests/unit/log/test_log.py"
_CLEANER: Final = "tests/unit/log/test_log_cleaner.py"
_VERIFICATION: Final = "tests/unit/log/test_verification.py"
_COORDINATOR: Final = "tests/unit/coordinator/test_transaction_coordinator.py"
_TRANSACTION: Final = "tests/unit/coordinator/test_transaction_machine.py"

NAMED_TESTS: Final = {
    "B02": f"{_STORIES}::test_b01_a_deposed_controller_writes_nothing_more",
    "B03": f"{_REPLICAS}::test_the_controllers_requests_are_fenced",
    "B04": f"{_STORIES}::test_b04_a_controller_that_is_elected_again_begins_with_nothing",
    "B08": f"{_EPOCHS}::test_b08_a_request_for_an_earlier_registration_is_stale",
    "B09": f"{_EPOCHS}::test_b09_a_request_for_a_registration_that_is_not_known_yet_is_not_stale",
    "B10": f"{_REPLICAS}::test_stop_replica_is_fenced_by_leader_epoch_and_deletes_the_log",
    "B12": "tests/simulation/test_sim_sessions.py::test_b12_all_servers_go_just_when_a_new_session_is_wanted",
    "B15": f"{_STORIES}::test_b15_a_broker_that_is_leaving_does_not_join_the_isr_again",
    "B18": "tests/unit/replica/test_isr_changes.py::test_a_follower_that_stops_fetching_is_dropped_after_the_lag_time",
    "B19": f"{_ROLES}::test_b19_a_leader_that_is_not_known_yet_is_followed_when_the_request_comes_again",
    "B20": f"{_ROLES}::test_b20_a_replica_that_is_assigned_no_more_counts_no_more",
    "B21": f"{_ROLES}::test_b21_a_late_answer_cuts_nothing_of_what_this_broker_leads_by_now",
    "B22": "tests/unit/controller/test_controller_election.py"
    "::test_controlled_shutdown_leaves_nobody_in_the_isr_who_is_leaving",
    "B25": f"{_REPLICAS}::test_the_controllers_requests_are_fenced",
    "B26": "tests/unit/log/test_log_dirs.py::test_a_failing_directory_goes_offline_alone",
    "B28": f"{_LOG}::test_the_end_of_an_epoch_is_where_the_next_began",
    "B48": "tests/unit/replica/test_replica_selector.py::test_a_consumer_is_sent_to_the_follower_in_its_rack",
    "B51": "tests/unit/log/test_failing_index.py"
    "::test_kafka_7866_an_abort_whose_index_entry_fails_ends_the_directory_and_keeps_its_offset",
    "B55": f"{_LOG}::test_offsets_too_far_apart_for_one_index_begin_a_new_segment",
    "B63": f"{_CLEANER}::test_a_tombstone_stays_until_its_readers_have_had_their_time",
    "B65": f"{_CLEANER}::test_what_is_young_or_not_committed_waits",
    "B78": f"{_VERIFICATION}::test_kafka_14920_no_later_batch_goes_before_one_that_waits_for_its_answer",
    "B79": f"{_VERIFICATION}::test_kafka_9144_an_open_transaction_keeps_its_producer_however_old_it_is",
    "B80": f"{_COORDINATOR}::test_kafka_9777_the_next_coordinator_completes_what_is_prepared_and_the_old_one_nothing",
    "B81": f"{_TRANSACTION}::test_kafka_9666_a_fence_that_cannot_be_written_uses_no_epochs_up",
    "B82": f"{_TRANSACTION}::test_kafka_9600_only_the_very_epoch_of_the_producer_may_change_its_transaction",
    "B83": f"{_LOG}::test_the_sequence_wraps",
    "B86": f"{_COORDINATOR}::test_kafka_5610_a_deleted_topic_does_not_keep_a_transaction_open",
}

NEW_TESTS: Final = STOOD | WRITTEN
"""Of `table_new`'s mutants, those that seeds do not catch."""


@cache
def passes(test: str, package: Path) -> bool:
    """Whether `test` passes with ``barnabas`` taken from `package`. Raises ``RuntimeError`` when it does not run."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", test],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(package)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode not in (0, 1):
        raise RuntimeError(f"{test}: pytest ended with {done.returncode}: {done.stdout[-500:]}{done.stderr[-500:]}")
    return done.returncode == 0


def is_noticed(mutant: Mutant, test: str) -> bool:
    """Whether `test` passes on the code as it is and fails on the mutant's copy."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as directory:
        make_copy(mutant, Path(directory))
        return passes(test, ROOT / "src") and not passes(test, Path(directory))


def main() -> None:
    parser = argparse.ArgumentParser(prog="named_tests", description=__doc__)
    parser.add_argument("--only", default="", help="bugs, or how they begin, separated by commas; all by default")
    only = tuple(bug for bug in parser.parse_args().only.split(",") if bug) or ""
    unnoticed = []
    tests = {**NAMED_TESTS, **NEW_TESTS, **NOTICED_BY}
    for mutant in (
        *MUTANTS,
        *NEW_MUTANTS,
        *STRANGERS,
        *MORE_STRANGERS,
        *THIRD_STRANGERS,
        *FOURTH_STRANGERS,
        *PROTECTIONS,
    ):
        test = tests.get(mutant.bug)
        if test is None or not mutant.bug.startswith(only):
            continue
        noticed = is_noticed(mutant, test)
        print(f"{mutant.bug} {mutant.what}: {'noticed' if noticed else 'NOT NOTICED'} by {test}", flush=True)
        if not noticed:
            unnoticed.append(mutant.bug)
    sys.exit(f"not noticed: {', '.join(unnoticed)}" if unnoticed else 0)


if __name__ == "__main__":
    main()
