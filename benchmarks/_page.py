"""Write docs/benchmarks.md: the tables of many_jobs.py, and a plot of its runs as SVG."""

from __future__ import annotations

import datetime as dt
import math
import os
import platform
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["Plot", "Table", "write_page"]

DOCS = Path(__file__).parent.parent / "docs"
PICTURE = "pictures/benchmarks.svg"
PAGE = """\
# Benchmarks

This page compares luigi_pai with `luigi.contrib.pai`, measured in one run. The server is a separate
process on the same machine that responds immediately, so the times measure only the clients. Tables and
rows measured against `luigi-pai local` say so. `luigi.contrib.pai` never sees a job on a real server as
complete, because it checks for `SUCCEED`, and servers send `SUCCEEDED`. "Mended" means a patched subclass
that checks for the correct state, and whose `output()` does not recurse forever.

Written by `make bench` (this page alone: `python benchmarks/many_jobs.py --write`) on {date}: {machine}.
Compare the ratios, because the seconds depend on the machine. `benchmarks/README.md` describes all
benchmarks.

{tables}

![requests and seconds from 100 to 10,000 tasks]({picture})

The first two jobs are looked up one at a time. From the third job on, luigi_pai requests one list of the
user's jobs. It looks up a job separately if the list does not contain the job, or if a monitored job
failed. List requests use at most half of the server's rate limit for lists (60 a minute from 1.0 on) and
at most a fifth of the time. On v2 clusters, there is one login and, for users with more than 5,000 jobs,
a second page of the list.
"""


class Run(Protocol):
    """The values to plot for a run."""

    @property
    def number(self) -> int: ...

    @property
    def seconds(self) -> float: ...

    @property
    def requests(self) -> int: ...


@dataclass
class Table:
    """A Markdown table."""

    title: str
    head: tuple[str, ...]
    rows: list[tuple[str, ...]] = field(default_factory=list)

    def add(self, *cells: str) -> None:
        self.rows.append(cells)

    def __str__(self) -> str:
        lines = [self.head, ("---",) * len(self.head), *self.rows]
        return f"## {self.title}\n\n" + "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


@dataclass(frozen=True)
class Plot:
    """Requests and seconds by the number of tasks, on logarithmic axes."""

    runs: Mapping[str, Sequence[Run]]

    def svg(self) -> str:
        panels = [
            _panel("requests", self.runs, lambda run: run.requests, (1, 100_000), left=0),
            _panel("seconds", self.runs, lambda run: run.seconds, (0.01, 100), left=380),
        ]
        style = "font-family='sans-serif' font-size='12'"
        head = f"<svg xmlns='http://www.w3.org/2000/svg' width='760' height='330' {style}>"
        return "\n".join([head, "<rect width='760' height='330' fill='white'/>", *panels, "</svg>", ""])


COLOURS = ("#c0392b", "#1f5fa8")
TASKS = (100, 10_000)
WIDTH, HEIGHT, TOP, MARGIN = 290.0, 220.0, 40.0, 60.0


def _panel(
    title: str,
    runs: Mapping[str, Sequence[Run]],
    value: Callable[[Run], float],
    values: tuple[float, float],
    left: float,
) -> str:
    def x(number: float) -> float:
        return left + MARGIN + WIDTH * _share(number, TASKS)

    def y(amount: float) -> float:
        return TOP + HEIGHT * (1 - _share(amount, values))

    right, bottom = x(TASKS[1]), y(values[0])
    parts = [f"<text x='{left + MARGIN}' y='24' font-weight='bold'>{title}</text>"]
    for amount in _powers(values):
        parts.append(f"<path d='M{x(TASKS[0])} {y(amount):.1f}H{right}' stroke='#ddd'/>")
        parts.append(
            f"<text x='{x(TASKS[0]) - 6}' y='{y(amount) + 4:.1f}' text-anchor='end'>{amount:,g}</text>"
        )
    parts += [
        f"<text x='{x(number):.1f}' y='{bottom + 18:.1f}' text-anchor='middle'>{number:,g}</text>"
        for number in _powers(TASKS)
    ]
    parts.append(f"<text x='{(x(TASKS[0]) + right) / 2}' y='{bottom + 36}' text-anchor='middle'>tasks</text>")
    for (name, measured), colour in zip(runs.items(), COLOURS, strict=True):
        points = [(x(run.number), y(value(run))) for run in measured]
        line = " ".join(f"{one:.1f},{other:.1f}" for one, other in points)
        parts.append(f"<polyline points='{line}' fill='none' stroke='{colour}' stroke-width='2'/>")
        parts += [f"<circle cx='{one:.1f}' cy='{other:.1f}' r='3' fill='{colour}'/>" for one, other in points]
        end = points[-1]
        parts.append(
            f"<text x='{end[0]:.1f}' y='{end[1] - 8:.1f}' text-anchor='end' fill='{colour}'>{name}</text>"
        )
    return "\n".join(parts)


def _share(value: float, bounds: tuple[float, float]) -> float:
    low, high = (math.log10(bound) for bound in bounds)
    return (math.log10(max(value, bounds[0])) - low) / (high - low)


def _powers(bounds: tuple[float, float]) -> list[float]:
    low, high = (round(math.log10(bound)) for bound in bounds)
    return [10.0**power for power in range(low, high + 1)]


def write_page(tables: Sequence[Table], plot: Plot) -> None:
    """Write docs/benchmarks.md and its picture."""
    machine = (
        f"{os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}, "
        f"Luigi {metadata.version('luigi')}, requests {metadata.version('requests')}; "
        f"load {os.getloadavg()[0]:.0f} at the end"
    )
    text = PAGE.format(
        date=dt.datetime.now(dt.timezone.utc).date(),
        machine=machine,
        tables="\n\n".join(map(str, tables)),
        picture=PICTURE,
    )
    (DOCS / "benchmarks.md").write_text(text, encoding="utf-8")
    (DOCS / PICTURE).write_text(plot.svg(), encoding="utf-8")
