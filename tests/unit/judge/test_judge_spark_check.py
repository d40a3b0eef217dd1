"""The verdict by Spark is the verdict in memory: on all made histories, and on one whose pieces need each other."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from history_lines import parse
from test_judge_check import BAD, GOOD, LEFT_OUT, made

from barnabas.cli.app import run
from barnabas.judge.check import JudgeVerdict, check
from barnabas.judge.history import (
    APACHE_VERSION,
    BEFORE_KIP_890,
    NEVER,
    TOMBSTONE,
    Client,
    Context,
    HistoryError,
    OperationHistory,
    write,
)
from barnabas.judge.proxy import DELAY_END_TXN

pytestmark = pytest.mark.long(1)

_APART = 10**12
KILLS = ("kill", "disk-full")


def together(histories: Sequence[OperationHistory]) -> OperationHistory:
    """One after another, with clients, topics, values, transactions and names of their own."""
    clients: list[Client] = []
    topics: dict[str, Any] = {}
    places: list[tuple[str, int]] = []
    names: list[str] = []
    columns: dict[str, list[Any]] = {}
    for number, one in enumerate(histories):
        for field, added in (("process", len(clients)), ("place", len(places)), ("name", len(names))):
            _moved(columns, field, getattr(one, field), added)
        for field in ("value", "txn", "follows"):
            _moved(columns, field, getattr(one, field), 1000 * number)
        for field in ("invoked", "completed", "wall"):
            times = getattr(one, field)
            columns.setdefault(field, []).append(np.where(times == NEVER, NEVER, times + number * _APART))
        for field in ("op", "status", "offset", "key"):
            columns.setdefault(field, []).append(getattr(one, field))
        columns.setdefault("error", []).append(np.full(len(one), -1))
        clients += [
            dataclasses.replace(
                each,
                name=f"{number}.{each.name}",
                transactional_id=each.transactional_id and f"{number}.{each.transactional_id}",
                group=each.group and f"{number}.{each.group}",
            )
            for each in one.context.clients
        ]
        topics |= {f"{number}.{topic}": config for topic, config in one.context.topics.items()}
        places += [(f"{number}.{topic}", partition) for topic, partition in one.places]
        names += [_renamed(name, number) for name in one.names]
    whole = {field: np.concatenate(parts) for field, parts in columns.items()}
    return OperationHistory(
        Context(tuple(clients), topics, _facts(histories)), tuple(places), tuple(names), (), **whole
    )


def _facts(histories: Sequence[OperationHistory]) -> dict[str, str]:
    older = [
        f"{number}.{each}"
        for number, one in enumerate(histories)
        for each in filter(None, one.context.facts.get(BEFORE_KIP_890, "").split(","))
    ]
    # Of a version that has all limits, so that their rows are looked up in pieces, too.
    return {**histories[0].context.facts, BEFORE_KIP_890: ",".join(older), APACHE_VERSION: "3.9.2"}


def _renamed(name: str, number: int) -> str:
    fault, colon, held = name.partition(":")
    return (
        name
        if name in (DELAY_END_TXN, TOMBSTONE, *KILLS) or "/" in name  # a copy's batch
        else f"{fault}:{number}.{held}"
        if colon
        else f"{number}.{name}"
    )


def _moved(columns: dict[str, list[Any]], field: str, values: Any, added: int) -> None:
    columns.setdefault(field, []).append(np.where(values < 0, values, values + added))


def said(told: dict[str, Any]) -> dict[str, Any]:
    """All of a verdict, as JSON, but which of several examples it shows, and the numbers of rows."""
    findings = [(each["anomaly"], each["limit"], each["count"]) for each in told["anomalies"] + told["limits"]]
    shown = [
        (example["sentence"], tuple(example["history"]))
        for each in told["anomalies"] + told["limits"]
        if each["count"] <= 10
        for example in each["examples"]
    ]
    return {**told, "anomalies": sorted(findings, key=str), "limits": None, "shown": sorted(shown)}


def _groups() -> dict[str, list[str]]:
    """The made histories that may stand in one: by the version of transactions, which is of all of it, and in an order
    in which what a nemesis did is of nothing that comes later."""
    groups: dict[str, list[str]] = {"1": [], "2": []}
    texts = [*(text for _, _, text in BAD.values()), *GOOD.values(), *LEFT_OUT]
    for text in sorted(
        texts,
        key=lambda text: (
            any(f"g={each}\n" in text for each in KILLS),
            f"{DELAY_END_TXN}\n" in text,
            DELAY_END_TXN in text,
        ),
    ):
        groups["1" if "fact transaction.version=1" in text else "2"].append(text)
    return groups


GROUPS = _groups()


def one_of(group: str) -> tuple[OperationHistory, JudgeVerdict]:
    """The histories of a group in one, and the verdict on it in memory, which is that on each of them."""
    histories = [made(text) for text in GROUPS[group]]
    whole = together(histories)
    verdict = check(whole)
    assert sum(each.count for each in (*verdict.anomalies, *verdict.limits)) == sum(
        each.count for one in map(check, histories) for each in (*one.anomalies, *one.limits)
    )
    return whole, verdict


@pytest.mark.timeout(900)
def test_spark_finds_what_memory_finds_in_made_histories_of_several_files(spark: Any, tmp_path: Path) -> None:
    """Each file goes on from the one before it."""
    import pyarrow.parquet as pq

    from barnabas.judge import spark_check

    whole, verdict = one_of("2")
    write(whole, tmp_path / "history")
    table = pq.read_table(tmp_path / "history")
    (tmp_path / "several").mkdir()
    cut = len(table) // 2
    for number, part in enumerate((table.slice(0, cut), table.slice(cut))):
        pq.write_table(part, tmp_path / "several" / f"{number}.parquet")
    assert said(spark_check.check(spark, tmp_path / "several").as_json()) == said(verdict.as_json())


@pytest.mark.timeout(900)
def test_the_command_tells_by_spark_what_memory_finds(
    spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "history.parquet")
    whole, verdict = one_of("1")
    write(whole, path)
    assert run(["judge", "check", path, "--spark", "local[2]", "--format", "json"]) == 1
    assert said(json.loads(capsys.readouterr().out)) == said(verdict.as_json())
    assert run(["judge", "check", str(tmp_path / "none"), "--spark", "local[2]"]) == 2


def test_every_made_history_is_in_a_group() -> None:
    assert sum(map(len, GROUPS.values())) == len(BAD) + len(GOOD) + len(LEFT_OUT) >= 100


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("p send r/0@0 v=1\nq send r/1@1 v=1", "value 1 is sent twice"),
        ("p send r/0@0 v=1\np send r/0@1 v=2 ..1", "row 1 \\(send\\) completes before it is invoked"),
    ],
)
def test_a_history_that_contradicts_itself_is_refused_by_spark_too(
    text: str, why: str, spark: Any, tmp_path: Path
) -> None:
    from barnabas.judge import spark_check

    write(parse(text), tmp_path / "history.parquet")
    with pytest.raises(HistoryError, match=why):
        spark_check.check(spark, tmp_path / "history.parquet")
