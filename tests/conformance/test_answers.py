"""The newest version of every API answers a thousand requests, most of them bad, as Apache Kafka 3.9.1 did.

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
    with ours(tmp_path) as asked:
        for key, version in newest_versions():
            for case in cases(key, version):
                answer = tell(asked, case)
                expected = recorded.get(str(case))
                if expected is not None and (told := digest(answer)) != expected:
                    wrong.append(f"{case}: {told} is not {expected}")
    assert len(recorded) > 800
    assert not wrong, "\n".join(wrong)
