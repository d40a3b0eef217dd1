"""The plots of ``barnabas bench growth`` are drawn from what was measured, and again from the file beside them."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.bench import BenchError
from barnabas.bench.growth import AXES, RESULTS, Growth, read, write
from barnabas.bench.plots import short


def measured(axis: str) -> Growth:
    """Figures of three rounds that rise by a tenth from point to point."""
    growth = Growth(AXES[axis])
    for number, at in enumerate(growth.axis.points):
        throughput, cpu = growth.points[at] = growth.axis.throughput(at), growth.axis.cpu(at)
        for figure in (throughput, cpu):
            figure.ours += [1.0 + number / 10, 2.0 + number / 10, 9.0]
            figure.theirs += [3.0 + number / 10, 5.0 + number / 10, 7.0]
    return growth


def test_a_plot_has_both_lines_their_units_and_the_medians_of_the_rounds(tmp_path: Path) -> None:
    growth = measured("clients")
    write([growth], tmp_path)
    drawn = (tmp_path / "clients.svg").read_text()
    for text in ("Barnabas", "Apache Kafka 3.9.2", "requests per second", "µs per request", growth.axis.label, "1k"):
        assert f">{text}</text>" in drawn
    throughput, cpu = growth.panels()
    assert throughput.ours == cpu.ours == [2.0 + number / 10 for number in range(7)]
    assert throughput.theirs == [5.0 + number / 10 for number in range(7)]


def test_plots_are_drawn_again_from_the_results_and_an_axis_that_was_not_measured_stays(tmp_path: Path) -> None:
    write([measured("replication-factor")], tmp_path)
    first = (tmp_path / "replication-factor.svg").read_bytes()
    write([measured("record-size")], tmp_path)
    again = read(tmp_path / RESULTS)
    assert [each.axis.name for each in again] == ["record-size", "replication-factor"]
    assert again[0].figures() == measured("record-size").figures()
    tables = (tmp_path / "growth.md").read_text()
    assert "## Record size\n\n![record size (bytes), in batches of 1 MB](record-size.svg)\n" in tables
    assert "| 1,000,000 | 2.5 | 5.5 | 0.45 | 2.5 | 5.5 | 0.45 |" in tables
    (tmp_path / "replication-factor.svg").unlink()
    write(again, tmp_path)
    assert (tmp_path / "replication-factor.svg").read_bytes() == first


def test_a_file_that_holds_something_else_is_told_by_name(tmp_path: Path) -> None:
    (tmp_path / RESULTS).write_text('[{"axis": "weather", "points": []}]')
    with pytest.raises(BenchError, match=r"growth.json was not written by bench growth --plots: KeyError\('weather'"):
        read(tmp_path / RESULTS)


def test_numbers_at_an_axis_are_short() -> None:
    assert [short(value) for value in (0.5, 20, 1500, 2_000_000)] == ["0.5", "20", "1.5k", "2M"]
