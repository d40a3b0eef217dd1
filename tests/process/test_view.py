"""The view of a living cluster, asked as a browser asks: every page, the live stream while a broker is killed, and the
history as one file."""

from __future__ import annotations

import base64
import http.client
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from cluster import Cluster, barnabas, running, until

SESSION = "zookeeper.session.timeout.ms=10000"


class View:
    """What one broker shows."""

    def __init__(self, cluster: Cluster, broker_id: int) -> None:
        self.cluster = cluster
        self.broker_id = broker_id
        self.host, _, port = cluster.broker(broker_id)["admin"].partition(":")
        self.port = int(port)

    def get(
        self, path: str, /, headers: dict[str, str] | None = None, **query: Any
    ) -> tuple[int, bytes, dict[str, str]]:
        connection = http.client.HTTPConnection(self.host, self.port, timeout=30)
        connection.request("GET", f"{path}?{urlencode(query)}" if query else path, headers=headers or {})
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        return answer.status, body, {name.lower(): value for name, value in answer.getheaders()}

    def page(self, path: str, /, **query: Any) -> Any:
        status, body, _ = self.get(path, **query)
        assert status == 200, body
        return json.loads(body)

    def live(self, since: int) -> Iterator[list[Any]]:
        """Changes as they come."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=60)
        connection.request("GET", f"/live?since={since}")
        stream = connection.getresponse()
        assert stream.headers["content-type"] == "text/event-stream"
        try:
            while line := stream.readline():
                assert not line.startswith(b"event: gap"), "the stream lost something"
                if line.startswith(b"data: "):
                    yield from json.loads(line[6:])
        finally:
            connection.close()


@pytest.fixture(scope="module")
def view(tmp_path_factory: pytest.TempPathFactory) -> Iterator[View]:
    with running(tmp_path_factory.mktemp("view"), 3, SESSION, "barnabas.log.format=json") as cluster:
        at = ("-b", cluster.bootstrap)
        for words in (
            ("topic", "create", "seen", "-p", "6", "-r", "3", "--config", "min.insync.replicas=2"),
            ("produce", "-t", "seen", "-p", "0", "-K", ":"),
            ("group", "reset", "readers", "-t", "seen", "--to-earliest", "--execute"),
        ):
            done = barnabas(*words, *at, text="".join(f'key {n}:{{"n": {n}}}\n' for n in range(20)))
            assert done.returncode == 0, done.stderr
        controller = next(each["id"] for each in cluster.state["brokers"] if each["controller"])
        yield View(cluster, controller)


def test_up_says_where_a_browser_goes(view: View) -> None:
    assert view.cluster.state["view"] == f"http://{view.host}:{view.port}/view/"
    status, _, headers = view.get("/", headers={"accept": "text/html,*/*"})
    assert (status, headers["location"]) == (307, "/view/")
    for name in ("", "view.css", "view.js", "facts.js"):
        status, body, headers = view.get(f"/view/{name}")
        assert status == 200
        assert body
        assert "default-src 'none'" in headers["content-security-policy"]
    assert view.get("/view/../endpoint.py")[0] == 404
    assert view.get("/view/nothing.js")[0] == 404


def test_a_page_of_another_name_is_not_answered(view: View) -> None:
    assert view.get("/topics", headers={"host": f"elsewhere.example:{view.port}"})[0] == 421
    assert view.get("/topics", headers={"host": f"localhost:{view.port}"})[0] == 200


def test_topics_and_their_partitions_are_shown_in_parts(view: View) -> None:
    told = view.page("/topics", q="SEE", limit=1)
    assert told["total"] == 1
    (topic,) = told["topics"]
    assert (topic["topic"], topic["partitions"], topic["replication_factor"]) == ("seen", 6, 3)
    (first, *_) = view.page("/topics", topic="seen")["partitions"]
    assert sorted(first["isr"]) == sorted(first["replicas"]) == [0, 1, 2]
    assert view.get("/topics", topic="nothing")[0] == 404
    assert view.get("/topics", limit="many")[0] == 400


def test_messages_are_found_by_offset_key_and_time(view: View) -> None:
    def offsets(**query: Any) -> list[int]:
        return [each["offset"] for each in view.page("/messages", topic="seen", partition=0, **query)["messages"]]

    until(lambda: len(offsets()) == 20, "a replica here with all that was produced")
    assert offsets(limit=3) == [17, 18, 19]
    assert offsets(offset=5, limit=2) == [5, 6]
    (found,) = view.page("/messages", topic="seen", partition=0, key="key 7")["messages"]
    assert found["offset"] == 7
    assert json.loads(base64.b64decode(found["value"])) == {"n": 7}
    assert offsets(at=found["timestamp"])[0] <= 7
    assert offsets(at=int(time.time() * 1000) + 3_600_000) == []
    assert view.get("/messages", topic="seen", partition=99)[0] == 404


def test_groups_are_shown_by_their_coordinator_with_their_lag(view: View) -> None:
    def told() -> Any:
        for broker in view.cluster.state["brokers"]:
            status, body, _ = View(view.cluster, broker["id"]).get("/groups", group="readers")
            if status == 200:
                group = json.loads(body)
                return group if all(each["lag"] is not None for each in group["offsets"]) else None
        return None

    group = until(told, "the group's lag")
    assert group["state"] == "Empty"
    assert sum(each["lag"] for each in group["offsets"]) == 20
    assert all(each["behind_s"] > 0 for each in group["offsets"] if each["lag"])


def test_znodes_are_shown_without_secrets(view: View) -> None:
    made = barnabas("user", "set", "anna", "--password", "secret", "-b", view.cluster.bootstrap)
    assert made.returncode == 0, made.stderr
    assert "brokers" in view.page("/znodes")["children"]
    assert json.loads(view.page("/znodes", path="/controller")["data"])["brokerid"] == view.broker_id
    hidden = view.page("/znodes", path="/config/users/anna")
    assert hidden["data"] is None
    assert "secret" in hidden["hidden"]
    assert view.get("/znodes", path="/nothing")[0] == 404
    assert view.get("/znodes", path="nothing")[0] in (400, 404)


def test_configurations_say_what_was_changed(view: View) -> None:
    changed = view.page("/configurations", topic="seen", changed=1)["configurations"]
    assert {each["name"]: each["value"] for each in changed if each["source"] == "TOPIC_CONFIG"} == {
        "min.insync.replicas": "2"
    }
    mine = {each["name"]: each for each in view.page("/configurations")["configurations"]}
    assert mine["zookeeper.session.timeout.ms"]["value"] == "10000"
    assert mine["zookeeper.session.timeout.ms"]["changed"]
    assert mine["ssl.keystore.password"]["value"] is None


def test_transactions_and_producers_are_shown(view: View) -> None:
    told = view.page("/transactions")
    assert told["transactions"] == []
    assert isinstance(told["producers"], list)


def test_a_kill_is_seen_as_it_happens_and_is_in_the_history_afterwards(view: View) -> None:
    history = view.page("/history")
    facts = dict(history["before"])
    for _, name, value in history["changes"]:
        facts[name] = value
    led = {name: value["leader"] for name, value in facts.items() if name.startswith("partition/seen-")}
    assert len(led) == 6
    victim = next(each["id"] for each in view.cluster.state["brokers"] if each["id"] != view.broker_id)
    lost = {name for name, leader in led.items() if leader == victim}
    assert lost
    view.cluster.kill(victim)
    gone, elected, lines = False, set(), []
    for ms, name, value in view.live(history["written"]):
        gone = gone or (name == f"broker/{victim}" and not value["up"])
        if name in lost and value["leader"] not in (victim, -1):
            elected.add(name)
        if not name:
            lines.append((ms, value))
        if gone and elected == lost:
            break
    told = [(ms, line) for ms, line in lines if "OnlinePartition" in line]
    assert any("BrokerChange" in line for _, line in told)
    listening = "Broker change listener fired for path /brokers/ids with children"
    assert any(listening in line for _, line in lines)
    log = Path(view.cluster.broker(view.broker_id)["log_dir"]).with_name("broker.log").read_text()
    logged = [json.loads(line) for line in log.splitlines()]
    assert any(listening in each["message"] and each["level"] == "INFO" for each in logged)
    status, body, _ = view.get("/export")
    assert status == 200
    embedded = body.decode().partition('id="history">')[2].partition("</script>")[0]
    kept = json.loads(embedded)["changes"]
    assert any(name == f"broker/{victim}" and not value["up"] for _, name, value in kept if name)
    view.cluster.up()
