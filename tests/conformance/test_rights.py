"""The newest version of every API answers in every role, with and without each right, as Apache Kafka 3.9.1 did.

`make rights` asks every version, beside Apache Kafka, and writes what is expected here.
"""

from __future__ import annotations

import json
from pathlib import Path

from answers.beside import ours
from answers.cases import digest, newest_versions, tell
from answers.rights import ON_PURPOSE, RECORDED, ROLES, SECURED, WITHOUT_RIGHTS, cases_of, masked, secure


def test_every_right_opens_what_it_opens_in_apache_kafka_and_nothing_else(tmp_path: Path) -> None:
    recorded = json.loads(RECORDED.read_text())
    wrong = []
    compared = 0
    with ours(tmp_path, SECURED) as asked:
        of_roles = secure(asked)
        for key, version in newest_versions():
            if key in WITHOUT_RIGHTS:  # what they tell changes with what is offered
                continue
            for role in ROLES:
                for case in cases_of(key, version):
                    told = digest(masked(tell(of_roles[role.name], case)))
                    of_case = recorded[str(case)]
                    named = next((each for each, roles in of_case.items() if role.name in roles), None)
                    expected = named or next(each for each, roles in of_case.items() if not roles)
                    compared += 1
                    if told != expected and (key, version) not in ON_PURPOSE:
                        wrong.append(f"{case}, {role.name}: {told} is not {expected}")
    assert not wrong, "\n".join(wrong)
    assert compared > 3700
