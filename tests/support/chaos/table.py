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


_PLACES = ("hdfs", "storage", "none")


def table(rows: Iterable[dict[str, Any]]) -> str:
    """Return a table in Markdown: numbers of rounds with HDFS, a storage and neither; findings by verdict."""
    rounds: Counter[tuple[str, str, str]] = Counter()
    verdicts: dict[tuple[str, str], Counter[str]] = {}
    for row in rows:
        workload, nemesis = row["workload"], row["nemesis"]
        rounds[workload, nemesis, row["place"]] += 1
        found = {each["verdict"] for each in row["findings"]}
        verdicts.setdefault((workload, nemesis), Counter()).update(found)
    workloads, nemeses = (sorted({pair[part] for pair in verdicts}) for part in (0, 1))
    lines = [f"| nemesis | {' | '.join(workloads)} |", "|" + "---|" * (len(workloads) + 1)]
    for nemesis in nemeses:
        cells = [
            _cell(
                [rounds[each, nemesis, place] for place in _PLACES], verdicts.get((each, nemesis), Counter())
            )
            for each in workloads
        ]
        lines.append(f"| {nemesis} | {' | '.join(cells)} |")
    total = sum(verdicts.values(), Counter())
    totals = ", ".join(f"{total[verdict]} {verdict}" for verdict in ("lost", "twice", "wrong verdict"))
    return "\n".join([*lines, "", f"{rounds.total()} rounds: {totals}"])


def _cell(rounds: list[int], verdicts: Counter[str]) -> str:
    counts = " / ".join(map(str, rounds)) if any(rounds) else ""
    return ", ".join([counts, *(f"{count} {verdict}" for verdict, count in verdicts.items())])


if __name__ == "__main__":
    lines = Path(sys.argv[1]).read_text().splitlines()
    sys.stdout.write(table(map(json.loads, lines)) + "\n")
