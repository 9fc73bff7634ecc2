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
  :root {{ color: {INK}; background: #fff; font: 16px/1.55 system-ui, sans-serif; }}
  body {{ max-width: 54rem; margin: 3rem auto; padding: 0 1.5rem; }}
  h1 {{ font-size: 1.9rem; line-height: 1.2; margin: 0 0 .4rem; }}
  h2 {{ font-size: 1.2rem; margin: 2.6rem 0 .6rem; }}
  p {{ margin: .4rem 0; }} .faint {{ color: {FAINT}; }}
  .scroll {{ overflow-x: auto; }}
  table {{ border-collapse: collapse; width: 100%; margin: 1.4rem 0 .4rem; }}
  th, td {{ text-align: left; padding: .55rem 1.2rem .55rem 0; border-bottom: 1px solid #e3e7eb; }}
  td {{ font-variant-numeric: tabular-nums; white-space: nowrap; }}
  thead th {{ color: {FAINT}; font-weight: 500; font-size: .88rem; white-space: nowrap; }}
  tbody th {{ font-weight: 500; }} tr.best th, tr.best td {{ font-weight: 700; }}
  .number {{ text-align: right; }} code {{ font-size: .88em; white-space: nowrap; }}
  .bar {{ display: inline-block; height: .6rem; margin-right: .6rem; background: {WRONG}; }}
  img {{ width: 100%; height: auto; }} figure {{ margin: 0; }} .picture {{ max-width: 38rem; }}
"""


def write_report(results: list[dict[str, Any]], images: np.ndarray, folder: Path) -> str:
    """Draw the pictures into a folder and compose the page that shows them.

    Args:
        results: the metrics of each job (train.py), and its name as ``job``.
        images: the grey values of all images, 0 to 16, one image a row.
        folder: where the pictures go; the page is to lie beside them.

    Returns:
        The page, as HTML.
    """
    ranked = sorted(results, key=lambda result: result["accuracy"], reverse=True)
    best, most_misread = ranked[0], len(ranked[-1]["mistakes"])
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
<div class="scroll"><table>
<thead><tr>
<th scope="col">Model</th><th scope="col" class="number">Read correctly</th><th scope="col">Misread</th>
<th scope="col" class="number">F1</th><th scope="col" class="number">Training</th><th scope="col">Job</th>
</tr></thead>
<tbody>
{"".join(table_row(result, most_misread, best=result is best) for result in ranked)}</tbody>
</table></div>
<p class="faint">F1 is the mean over the ten digits. Training is the time in the model alone.</p>
<h2>What the best model takes for what</h2>
<figure class="picture">
<img src="confusion.png" alt="Confusion matrix of {html.escape(best["title"])}">
</figure>
<h2>Images that it misread</h2>
<figure>
<img src="misread.png" alt="The first misread images, each with its digit and what it was read as">
</figure>
</html>
"""


def table_row(result: dict[str, Any], most_misread: int, *, best: bool) -> str:
    """Compose one model's row of the table; the bars compare the misread images."""
    misread = len(result["mistakes"])
    width = 7 * misread / max(most_misread, 1)
    return (
        f'<tr{" class=best" if best else ""}><th scope="row">{html.escape(result["title"])}</th>'
        f'<td class="number">{result["accuracy"]:.1%}</td>'
        f'<td><span class="bar" style="width:{width:.2f}rem"></span>{misread}</td>'
        f'<td class="number">{result["f1"]:.3f}</td>'
        f'<td class="number">{result["train_seconds"]:.2f}&nbsp;s</td>'
        f"<td><code>{html.escape(result['job'])}</code></td></tr>\n"
    )


def draw_confusion(result: dict[str, Any], path: Path) -> None:
    """Draw how often each digit was read as each: right ones in blue, wrong ones in red."""
    counts = np.array(result["confusion"])
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    right = np.eye(10, dtype=bool)
    figure, axes = plt.subplots(figsize=(7.2, 6.6), layout="constrained")
    axes.imshow(np.ma.array(shares, mask=~right), cmap="Blues", vmin=0, vmax=1.15)
    axes.imshow(np.ma.array(np.sqrt(shares), mask=right | (counts == 0)), cmap="Reds", vmin=-0.05, vmax=0.7)
    for row, column in np.argwhere(counts > 0):
        light = right[row, column] and shares[row, column] > 0.5  # noqa: PLR2004  a dark square
        axes.text(
            column, row, str(counts[row, column]), ha="center", va="center",
            color="white" if light else INK, fontsize=11, fontweight="bold" if light else "normal",
        )  # fmt: skip
    axes.set_xticks(range(10))
    axes.set_yticks(range(10))
    axes.set_xticks(np.arange(-0.5, 10), minor=True)
    axes.set_yticks(np.arange(-0.5, 10), minor=True)
    axes.grid(which="minor", color="#e3e7eb", linewidth=1)
    axes.tick_params(which="both", length=0, labelsize=11, labelcolor=INK)
    axes.spines[:].set_visible(False)
    axes.xaxis.tick_top()
    axes.xaxis.set_label_position("top")
    axes.set_xlabel("read as", fontsize=11, color=FAINT, labelpad=8)
    axes.set_ylabel("is a", fontsize=11, color=FAINT, labelpad=8)
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
