"""The table of workload and nemesis: ``python -m chaos.table build/chaos/rounds.jsonl`` prints it."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["table"]


def table(rows: Iterable[dict[str, Any]]) -> str:
    """Return a table in Markdown: a cell has the number of rounds, and of those with findings by verdict."""
    rounds: Counter[tuple[str, str]] = Counter()
    verdicts: dict[tuple[str, str], Counter[str]] = {}
    for row in rows:
        cell = row["workload"], row["nemesis"]
        rounds[cell] += 1
        verdicts.setdefault(cell, Counter()).update({each["verdict"] for each in row["findings"]})
    workloads, nemeses = (list(dict.fromkeys(sorted(names))) for names in zip(*rounds, strict=True))
    lines = [f"| nemesis | {' | '.join(workloads)} |", "|" + "---|" * (len(workloads) + 1)]
    for nemesis in nemeses:
        cells = [_cell(rounds[each, nemesis], verdicts.get((each, nemesis), Counter())) for each in workloads]
        lines.append(f"| {nemesis} | {' | '.join(cells)} |")
    found = sum(verdicts.values(), Counter())
    totals = ", ".join(f"{found[verdict]} {verdict}" for verdict in ("lost", "twice", "wrong verdict"))
    return "\n".join([*lines, "", f"{rounds.total()} rounds: {totals}"])


def _cell(rounds: int, verdicts: Counter[str]) -> str:
    return ", ".join([str(rounds or ""), *(f"{count} {verdict}" for verdict, count in verdicts.items())])


if __name__ == "__main__":
    lines = Path(sys.argv[1]).read_text().splitlines()
    sys.stdout.write(table(map(json.loads, lines)) + "\n")
