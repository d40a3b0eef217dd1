"""The newest version of every API answers in every role, with and without each right, as Apache Kafka 3.9.2 did: over
plaintext in every role, over the other listeners in the roles that the API's rights matter to.

`make rights` asks every version, beside Apache Kafka, and writes what is expected here.
"""

from __future__ import annotations

import json
from pathlib import Path

from answers.doors import DOORS, PLAINTEXT, make_keys, ours
from answers.rights import ON_PURPOSE, RECORDED, SECURED, WITHOUT_RIGHTS, digests, expected, secure

from barnabas.wire.api import SUPPORTED

CHANGING = {f"{key.name} {SUPPORTED[key][1]} " for key in WITHOUT_RIGHTS if key.name.endswith("VERSIONS")}
"""What they tell changes with what is offered."""
ALLOWED = {f"{key.name} {version} " for key, version in ON_PURPOSE}


def test_every_right_opens_what_it_opens_in_apache_kafka_and_nothing_else(tmp_path: Path) -> None:
    recorded = json.loads(RECORDED.read_text())
    wrong = []
    compared = dict.fromkeys((door.name for door in DOORS), 0)
    keys = make_keys(tmp_path / "keys")
    with ours(tmp_path / "ours", keys, SECURED) as pair:
        secure(pair)
        for door in DOORS:
            for case, told in digests(pair, door):
                if case.startswith(tuple(CHANGING)):
                    continue
                for said, role in ((said, role) for said, roles in told.items() for role in roles):
                    compared[door.name] += 1
                    asked_for = expected(recorded, door, case, role)
                    if said != asked_for and not case.startswith(tuple(ALLOWED)):
                        wrong.append(f"{door.name}: {case}, {role}: {said} is not {asked_for}")
    assert not wrong, "\n".join(wrong)
    assert compared.pop(PLAINTEXT.name) > 3700
    assert min(compared.values()) > 400
