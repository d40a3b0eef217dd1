"""`barnabas rehearse` against what then really happened: on our brokers, and on Apache Kafka's.

``REHEARSALS=20`` for so many drawn clusters (`make rehearsals`).
"""

import os

import pytest
from rehearsed import Kafkas, Ours, is_foreseen

SEEDS = range(int(os.environ.get("REHEARSALS", "2")))


def test_what_is_rehearsed_is_what_happens_to_our_brokers(tmp_path):
    with Ours(tmp_path) as live:
        for seed in SEEDS:
            print(f"seed {seed}: {is_foreseen(live, seed, tmp_path)}", flush=True)


@pytest.mark.apache
def test_what_is_rehearsed_is_what_happens_to_apache_kafkas_brokers(tmp_path):
    with Kafkas(tmp_path) as live:
        for seed in SEEDS:
            print(f"seed {seed}: {is_foreseen(live, seed, tmp_path)}", flush=True)
