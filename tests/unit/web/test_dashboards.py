"""The dashboard and the alert rules: each metric that they name is one that a broker tells."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from barnabas.web.exposition import LEFT_OUT, exposed_name
from barnabas.web.metrics import Kind
from barnabas.web.partition_metrics import PARTITION_METRICS, PARTITION_TOTALS, TOPIC_METRICS
from barnabas.web.table import Table

HOME = Path(__file__).parents[3] / "docs" / "monitoring"
DASHBOARD = json.loads((HOME / "grafana.json").read_text())
RULES = (HOME / "alerts.yml").read_text()
_NAME = re.compile(r"\b(?:kafka|barnabas|process|python)_[a-z0-9_]+")


def told() -> dict[str, set[str]]:
    """By every name that stands in a scrape the labels that it may have."""
    names: dict[str, set[str]] = {LEFT_OUT: {"name"}}
    for each in (*Table().metrics, *TOPIC_METRICS, *PARTITION_TOTALS):
        name, labels = exposed_name(each), set(each.labels)
        if each.kind in (Kind.HISTOGRAM, Kind.SUMMARY):
            names |= {f"{name}_sum": labels, f"{name}_count": labels}
            if each.kind is Kind.HISTOGRAM:
                names[f"{name}_bucket"] = labels | {"le"}
        else:
            names[name] = labels
    names |= {each.name: {"topic", "partition"} for each in PARTITION_METRICS}
    return names


def expressions() -> list[str]:
    asked = [target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", ())]
    asked += [each["query"]["query"] for each in DASHBOARD["templating"]["list"] if isinstance(each["query"], dict)]
    return asked + re.findall(r"^ +expr: (.+)$", RULES, re.M)


@pytest.mark.parametrize("expression", expressions())
def test_what_is_asked_for_is_told_with_these_labels(expression: str) -> None:
    known = told()
    names = _NAME.findall(re.sub(r'"[^"]*"', '""', expression))
    assert names
    assert set(names) <= known.keys()
    for name, matchers in re.findall(r"\b([a-z0-9_]+)\{([^}]*)\}", expression):
        asked = set(re.findall(r"([a-zA-Z_]+)(?:=~|!=|=)", matchers))
        assert asked <= known[name] | {"job", "instance"}, name


def test_the_dashboard_is_laid_out_without_overlaps() -> None:
    taken: set[tuple[int, int]] = set()
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, panel["title"]
        assert all(x < 24 for x, _ in cells)
        taken |= cells


def test_every_alert_says_how_bad_it_is_and_what_is_wrong() -> None:
    alerts = re.findall(r"^ +- alert: (\w+)$", RULES, re.M)
    assert len(alerts) == len(set(alerts)) >= 10
    for kind in ("expr: ", "labels: {severity: ", "annotations: {summary: "):
        assert RULES.count(kind) == len(alerts)
