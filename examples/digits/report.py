"""The page that compares the models, and its pictures."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any

import matplotlib as mpl

mpl.use("Agg")  # draw to files: no window, no display

import matplotlib.pyplot as plt
import numpy as np

if TYPE_CHECKING:
    from pathlib import Path

INK, FAINT, WRONG = "#1f2933", "#66717d", "#c2492f"
MISREAD_SHOWN = 12

STYLE = f"""
  body {{ color: {INK}; font: 16px/1.55 system-ui, sans-serif; max-width: 54rem; margin: 3rem auto; }}
  .faint {{ color: {FAINT}; }} table {{ border-collapse: collapse; width: 100%; }} img {{ max-width: 100%; }}
  th, td {{ text-align: left; padding: .5rem 1rem .5rem 0; border-bottom: 1px solid #e3e7eb; }}
  .best td {{ font-weight: 700; }}
"""


def write_report(results: list[dict[str, Any]], images: np.ndarray, folder: Path) -> str:
    """Draw the pictures into a folder and compose the page that shows them.

    Args:
        results: the metrics of each job (train.py), and its name as ``job``.
        images: the grey values of all images, 0 to 16, one image a row.
        folder: where the pictures go; the page is to lie beside them.
    """
    ranked = sorted(results, key=lambda result: result["accuracy"], reverse=True)
    best = ranked[0]
    draw_confusion(best, folder / "confusion.png")
    draw_misread(best, images, folder / "misread.png")
    return f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Reading handwritten digits</title>
<style>{STYLE}</style>
<h1>{html.escape(best["title"].split(",")[0])}: {best["accuracy"]:.1%} read correctly</h1>
<p class="faint">{len(ranked)} models learned from {best["rows"]:,} handwritten digits, each in a job of its
own, and were judged on {best["tested"]} that they had not seen.</p>
<table>
<tr><th>Model</th><th>Read correctly</th><th>Misread</th><th>F1</th><th>Training</th><th>Job</th></tr>
{"".join(table_row(result, best=result is best) for result in ranked)}</table>
<h2>What the best model takes for what</h2>
<img src="confusion.png" alt="Confusion matrix of {html.escape(best["title"])}">
<h2>Images that it misread</h2>
<img src="misread.png" alt="The first misread images, each with its digit and what it was read as">
</html>
"""


def table_row(result: dict[str, Any], *, best: bool) -> str:
    """Compose one model's row of the table."""
    return (
        f"<tr{' class=best' if best else ''}><td>{html.escape(result['title'])}</td>"
        f"<td>{result['accuracy']:.1%}</td><td>{len(result['mistakes'])}</td><td>{result['f1']:.3f}</td>"
        f"<td>{result['train_seconds']:.2f}&nbsp;s</td><td><code>{html.escape(result['job'])}</code></td></tr>\n"
    )


def draw_confusion(result: dict[str, Any], path: Path) -> None:
    """Draw how often each digit was read as each."""
    counts = np.array(result["confusion"])
    figure, axes = plt.subplots(figsize=(7.2, 6.6), layout="constrained")
    axes.imshow(np.sqrt(counts), cmap="Blues", vmax=1.5 * np.sqrt(counts.max()))
    for row, column in np.argwhere(counts > 0):
        color = INK if row == column else WRONG
        axes.text(column, row, str(counts[row, column]), ha="center", va="center", color=color)
    axes.set_xticks(range(10))
    axes.set_yticks(range(10))
    axes.set_xlabel("read as", color=FAINT)
    axes.set_ylabel("is a", color=FAINT)
    figure.savefig(path, dpi=160)
    plt.close(figure)


def draw_misread(result: dict[str, Any], images: np.ndarray, path: Path) -> None:
    """Draw the first of the misread images."""
    shown = result["mistakes"][:MISREAD_SHOWN]
    figure, grid = plt.subplots(2, MISREAD_SHOWN // 2, figsize=(8.4, 3.5), layout="constrained")
    for axes in grid.flat:
        axes.set_axis_off()
    for axes, (row, digit, read_as) in zip(grid.flat, shown, strict=False):
        axes.imshow(images[row].reshape(8, 8), cmap="gray_r", vmin=0, vmax=16)
        axes.set_title(f"{digit}, read as {read_as}", fontsize=10, color=WRONG)
    if not shown:
        figure.text(0.5, 0.5, "none", ha="center", color=FAINT)
    figure.savefig(path, dpi=160)
    plt.close(figure)
