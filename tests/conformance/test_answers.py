"""The newest version of every API answers a thousand requests, most of them bad, as Apache Kafka 3.9.2 did.

`make conformance` asks every version, beside Apache Kafka, and writes what is expected here.
"""

from __future__ import annotations

import json
from pathlib import Path

from answers.beside import ours
from answers.cases import RECORDED, cases, digest, newest_versions, tell


def test_the_newest_versions_answer_as_apache_kafka_did(tmp_path: Path) -> None:
    recorded = json.loads(RECORDED.read_text())
    wrong = []
    compared = 0
    with ours(tmp_path) as asked:
        for key, version in newest_versions():
            for case in cases(key, version):
                answer = tell(asked, case)
                expected = recorded.get(str(case))
                if expected is None:
                    if answer is not None:
                        wrong.append(f"{case} was never asked of Apache Kafka")
                    continue
                compared += 1
                if isinstance(expected, dict):  # where ours may differ, it differs as it did
                    expected = expected["ours"]
                if (told := digest(answer)) != expected:
                    wrong.append(f"{case}: {told} is not {expected}")
    assert not wrong, "\n".join(wrong)
    assert compared == len(recorded), "a case that was recorded was not asked"
    assert compared > 1200
