"""Pictures of measurements: a line for Barnabas and one for the other, over the quantity that grows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

from barnabas.bench.side_by_side import Figure

_OURS: Final = "#31688e"
_THEIRS: Final = "#b5451b"
_GRID: Final = "#dddddd"


@dataclass(frozen=True)
class Panel:
    """One pair of lines; `y_label` names the unit."""

    title: str
    y_label: str
    ours: Sequence[float]
    theirs: Sequence[float]


def draw(target: Path, x_label: str, at: Sequence[int], panels: Sequence[Panel], theirs: str) -> None:
    """`panels` beside one another in one SVG, over `at`; both axes are logarithmic. The same figures give the same
    file. Raises ``ImportError`` without matplotlib."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

    look = {
        "font.family": "sans-serif",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "svg.fonttype": "none",
        "svg.hashsalt": "barnabas",
    }
    with pyplot.rc_context(look):
        figure, axes = pyplot.subplots(
            1, len(panels), figsize=(5.2 * len(panels), 3.7), squeeze=False, layout="constrained", facecolor="white"
        )
        for panel, axis in zip(panels, axes[0], strict=True):
            axis.set_xscale("log")
            axis.set_yscale("log")
            axis.plot(at, panel.ours, marker="o", color=_OURS, label="Barnabas")
            axis.plot(at, panel.theirs, marker="s", color=_THEIRS, label=theirs)
            axis.set_title(panel.title, loc="left")
            axis.set_xlabel(x_label)
            axis.set_ylabel(panel.y_label)
            axis.xaxis.set_major_locator(FixedLocator(at))
            axis.xaxis.set_minor_locator(NullLocator())
            axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
            values = [*panel.ours, *panel.theirs]
            # A nearly flat line must look flat, and its axis needs ticks.
            low, high = min(values), max(values)
            axis.set_ylim(low / 1.6, high * 1.6)
            axis.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high / low < 500 else (1.0,)))
            axis.yaxis.set_minor_locator(NullLocator())
            axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
            axis.grid(color=_GRID, linewidth=0.6)
        axes[0][0].legend(frameon=False)
        target.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(target, format="svg", metadata={"Date": None})
        pyplot.close(figure)


def medians(figures: Sequence[Figure]) -> tuple[list[float], list[float]]:
    """The medians of the rounds, ours and theirs."""
    return [median(figure.ours) for figure in figures], [median(figure.theirs) for figure in figures]


def short(value: float) -> str:
    """A number in the form of an axis label: ``20``, ``1.5k``, ``2M``."""
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"
