"""`barnabas rehearse` against what then really happened: on our brokers, and on Apache Kafka's.

``REHEARSALS=20`` for so many drawn clusters (`make rehearsals`).
"""

import os

import pytest
from rehearsed import Kafkas, Ours, are_foreseen

from barnabas.cli.app import run

pytestmark = pytest.mark.long(1)

DRAWN = [9, 0] if "REHEARSALS" not in os.environ else range(int(os.environ["REHEARSALS"]))
"""Seeds. Of the two one has a broker killed, another one stopped, and the preferred leaders elected."""


def test_what_is_rehearsed_is_what_happens_to_our_brokers(tmp_path):
    with Ours(tmp_path) as live:
        are_foreseen(live, DRAWN, tmp_path)


@pytest.mark.apache
def test_what_is_rehearsed_is_what_happens_to_apache_kafkas_brokers(tmp_path):
    with Kafkas(tmp_path) as live:
        assert run(["rehearse", "migration", "-z", live.zookeeper]) == 0, "a healthy cluster may be migrated"
        are_foreseen(live, DRAWN if "REHEARSALS" in os.environ else DRAWN[:1], tmp_path)
