"""A broker whose id is still registered: it waits, says so, can be told to stop, and names who has the id."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

BARNABAS = [sys.executable, "-m", "barnabas"]


def barnabas(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*BARNABAS, *arguments], capture_output=True, text=True, timeout=120)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    directory = tmp_path / "cluster"
    up = barnabas("up", "-n", "2", "--dir", str(directory), "--config", "zookeeper.session.timeout.ms=25000")
    assert up.returncode == 0, up.stderr
    yield directory
    barnabas("down", "--kill", "--dir", str(directory))


def status(place: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(barnabas("status", "--dir", str(place), "--format", "json").stdout)
    return value


def test_a_killed_broker_waits_out_its_own_registration_and_says_so(place: Path) -> None:
    before = status(place)["brokers"][1]
    assert (before["state"], before["registration_wait"], before["zookeeper"]["state"]) == (
        "RUNNING",
        None,
        "CONNECTED",
    )
    os.kill(before["pid"], signal.SIGKILL)
    starting = subprocess.Popen([*BARNABAS, "up", "--dir", str(place)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    waits: list[int] = []
    shown = ""
    while starting.poll() is None:
        # The file is what `status` reads; each call of the command takes a good part of the few seconds there are.
        now = json.loads((place / "broker-1" / "status.json").read_text())
        if now["registration_wait"] is not None:
            assert now["state"] == "WAITING_FOR_REGISTRATION"
            waits.append(now["registration_wait"]["remaining_ms"])
            if not shown:
                shown = barnabas("status", "--dir", str(place)).stdout
        time.sleep(0.02)
    assert starting.returncode == 0, (starting.stderr or sys.stderr).read()
    assert len(set(waits)) >= 2
    assert waits == sorted(waits, reverse=True)
    assert re.search(
        r"has waited \d+ s for session 0x[0-9a-f]+ of a broker at 127\.0\.0\.1:\d+ to end, at most \d+ s", shown
    )
    log = (place / "broker-1" / "broker.log").read_text()
    assert "still registered by session 0x" in log
    assert "at most 5" in log
    after = status(place)["brokers"][1]
    assert (after["state"], after["registered"], after["registration_wait"]) == ("RUNNING", True, None)


def test_a_second_broker_of_a_live_id_is_refused_by_name_and_can_be_stopped_before(place: Path, tmp_path: Path) -> None:
    owner = status(place)["brokers"][1]
    properties = tmp_path / "second.properties"
    text = (place / "broker-1" / "server.properties").read_text()
    text = re.sub(r"(?m)^listeners=.*$", "listeners=PLAINTEXT://127.0.0.1:0", text)
    properties.write_text(re.sub(r"(?m)^log.dirs=.*$", f"log.dirs={tmp_path / 'second'}", text))

    refused = barnabas("broker", str(properties), "--override", "barnabas.registration.timeout.ms=2000")
    assert refused.returncode == 1
    sentence = refused.stderr.splitlines()[-1]
    assert re.fullmatch(
        r"barnabas: Broker id 1 is registered at /brokers/ids/1 by session 0x[0-9a-f]+ of a broker at 127\.0\.0\.1:"
        rf"{owner['port']}, which is still alive after \d\d\d\d+ ms\. Stop the broker that has this broker\.id, or "
        r"choose another\.",
        sentence,
    ), sentence

    waiting = subprocess.Popen([*BARNABAS, "broker", str(properties)], stderr=subprocess.PIPE, text=True)
    assert waiting.stderr is not None
    for line in waiting.stderr:
        if "still registered" in line:
            break
    waiting.send_signal(signal.SIGTERM)
    assert waiting.wait(30) == 0, "it does not wait for the registration any more"
    waiting.stderr.close()
    assert status(place)["brokers"][1]["state"] == "RUNNING"
