"""The page's scripts, run by Node: what they make of a history, and of bytes."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
from importlib.resources import files
from pathlib import Path

import pytest

from barnabas.web.assets import exported
from barnabas.web.history import SeenHistory

STATIC = Path(str(files("barnabas.web"))) / "static"
NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None and not os.environ.get("CI"), reason="there is no Node")


def run(script: str, *arguments: str) -> str:
    assert NODE is not None, "there is no Node"
    command = [NODE, "--input-type=module", "-", *arguments]
    done = subprocess.run(command, input=script, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def loaded(name: str) -> str:
    """A module's text as something that Node imports whatever it takes the file for."""
    text = base64.b64encode((STATIC / name).read_bytes()).decode()
    return f"data:text/javascript;base64,{text}"


@needs_node
@pytest.mark.clients
def test_a_moment_is_the_facts_with_all_changes_before_it() -> None:
    history = SeenHistory("broker 1", 0)
    history.note(10, "broker/1", {"up": True, "address": "a:1"})
    history.note(20, "partition/a-b-0", {"leader": 1, "leader_epoch": 3, "isr": [1, 2], "replicas": [1, 2]})
    history.line(30, "a line")
    history.note(40, "lag/readers", 7)
    history.note(50, "broker/1", {"up": False, "address": "a:1"})
    history.note(60, "partition/a-b-0", None)
    script = f"""
    import {{ History, topicPartition }} from {json.dumps(loaded("facts.js"))};
    const history = new History({b"".join(history.pieces()).decode()});
    history.take([[70, "lag/readers", 9]]);
    console.log(JSON.stringify({{
      then: [...history.at(history.countAt(45)).keys()],
      now: Object.fromEntries(history.facts),
      lag: history.series("lag/readers", history.changes.length),
      story: history.story(history.changes.length, 10).map((each) => each[1]),
      back: history.step(7, -1),
      name: topicPartition("a-b-0"),
    }}));
    """
    told = json.loads(run(script))
    assert told["then"] == ["broker/1", "partition/a-b-0", "lag/readers"]
    assert told["now"] == {"broker/1": {"up": False, "address": "a:1"}, "lag/readers": 9}
    assert told["lag"] == [[40, 7], [70, 9]]
    assert told["story"] == [
        "a-b-0 is deleted",
        "broker 1 is gone",
        "a line",
        "a-b-0 is led by 1 in epoch 3, isr [1, 2]",
        "broker 1 is there",
    ]
    assert told["back"] == 6
    assert told["name"] == ["a-b", 0]


def avro_file(schema: object, *objects: bytes) -> bytes:
    def long(number: int) -> bytes:
        zigzag = (number << 1) ^ (number >> 63)
        written = bytearray()
        while zigzag > 127:
            written.append(zigzag & 127 | 128)
            zigzag >>= 7
        return bytes([*written, zigzag])

    def text(data: bytes) -> bytes:
        return long(len(data)) + data

    metadata = long(1) + text(b"avro.schema") + text(json.dumps(schema).encode()) + long(0)
    body = b"".join(objects)
    return b"Obj\x01" + metadata + bytes(16) + long(len(objects)) + long(len(body)) + body + bytes(16)


@needs_node
@pytest.mark.clients
def test_bytes_are_shown_as_what_they_are() -> None:
    schema = {
        "type": "record",
        "name": "Flight",
        "fields": [{"name": "carrier", "type": "string"}, {"name": "delay", "type": ["null", "int"]}],
    }
    flight = avro_file(schema, b"\x04UA\x02\x0d")
    values = [b'{"a": 1}', "größer".encode(), bytes([0, 255]), flight, flight[:40]]
    given = json.dumps([base64.b64encode(each).decode() for each in values])
    script = f"""
    import {{ decoded }} from {json.dumps(loaded("decode.js"))};
    console.log(JSON.stringify([...{given}.map((each) => decoded(each, "auto")), decoded(null, "auto")]));
    """
    told = json.loads(run(script))
    assert [each["kind"] for each in told] == ["json", "plain", "hex", "avro", "avro", "null"]
    assert told[1]["text"] == "größer"
    assert json.loads(told[3]["text"]) == {"carrier": "UA", "delay": -7}
    assert "cut off" in told[4]["text"]


@needs_node
@pytest.mark.clients
def test_the_scripts_of_an_exported_page_are_one_script(tmp_path: Path) -> None:
    page = b"".join(exported(SeenHistory("a test", 0))).decode()
    script = page.rpartition('<script type="module">')[2].partition("</script>")[0]
    file = tmp_path / "whole.mjs"
    file.write_text(script)
    assert NODE is not None
    done = subprocess.run([NODE, "--check", str(file)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
