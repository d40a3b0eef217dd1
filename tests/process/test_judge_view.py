"""A verdict in the view of a cluster, in a real browser: the anomaly among what happened, and the slider."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cluster import until
from test_view_browser import browser, count, quiet, said

from barnabas.judge.check import check
from barnabas.judge.history import Client, Op, Status
from barnabas.judge.journal import Notes
from barnabas.judge.recording import Led, recorded
from barnabas.model.ids import TopicPartition
from barnabas.web.assets import exported

__all__ = ["browser"]

SECOND = 1_000_000_000
AT = TopicPartition("r", 0)


def a_lost_write() -> Notes:
    """Broker 1 leads, is killed, and its successor does not have what was acknowledged."""
    notes = Notes({})
    observer, writer = notes.journal(Client("observer")), notes.journal(Client("writer"))
    nemesis, scan = notes.journal(Client("nemesis")), notes.journal(Client("scan", scan=True))
    observer.add(Op.LEADER, SECOND, AT, completed=SECOND, offset=0, name=Led(1, (1, 2), (1, 2)).words())
    writer.add(Op.SEND, 2 * SECOND, AT, completed=3 * SECOND, offset=0, value=7)
    nemesis.add(Op.NEMESIS, 4 * SECOND, completed=4 * SECOND, name="kill broker 1")
    observer.add(Op.LEADER, 5 * SECOND, AT, completed=5 * SECOND, offset=1, name=Led(2, (1, 2), (2,)).words())
    scan.add(Op.SCANNED, 9 * SECOND, AT, completed=9 * SECOND, status=Status.OK, offset=0)
    return notes


def test_the_anomaly_is_among_what_happened_and_the_slider_goes_back_before_it(browser: Any, tmp_path: Path) -> None:
    verdict = check(a_lost_write().history())
    assert [each.anomaly for each in verdict.anomalies] == ["lost-write"]
    page = tmp_path / "view.html"
    page.write_bytes(b"".join(exported(recorded(verdict))))
    browser.get(page.as_uri())
    until(lambda: count(browser, "[data-partition]") == 1, "the picture", 60)
    assert "ANOMALY lost-write: value 7 of writer" in said(browser)
    assert "broker 1 down" in " ".join(said(browser, "[data-broker='1']").split())
    assert count(browser, ".leader") == 1
    browser.execute_script(
        "const slider = document.querySelector('input[type=range]'); slider.value = slider.min;"
        "slider.dispatchEvent(new Event('input', {bubbles: true}))"
    )
    until(lambda: "ANOMALY" not in said(browser), "the moment before it", 30)
    quiet(browser)
