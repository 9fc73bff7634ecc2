"""Fit a linear model by stochastic gradient descent: ``study_fit.py RATE BATCH_SIZE RESULT``."""

from __future__ import annotations

import json
import os
import random
import sys
from pathlib import Path

SOUGHT = (2.0, -3.0, 1.0)
NOISE = 0.5
STEPS = 200
LARGEST = 1e9  # a fit that runs away stops here


def fit(rate: float, batch: int) -> float:
    """Return the mean squared distance of the weights from those that are sought; always the same."""
    draw = random.Random(7)  # noqa: S311  examples, not secrets
    weights = [0.0] * len(SOUGHT)
    for _ in range(STEPS):
        slope = [0.0] * len(SOUGHT)
        for _ in range(batch):
            example = [draw.uniform(-1, 1) for _ in SOUGHT]
            wanted = sum(map(float.__mul__, SOUGHT, example)) + draw.uniform(-NOISE, NOISE)
            error = sum(map(float.__mul__, weights, example)) - wanted
            slope = [old + 2 * error * x / batch for old, x in zip(slope, example, strict=True)]
        weights = [max(-LARGEST, min(LARGEST, w - rate * s)) for w, s in zip(weights, slope, strict=True)]
    return round(sum((w - s) ** 2 for w, s in zip(weights, SOUGHT, strict=True)) / len(SOUGHT), 9)


if __name__ == "__main__":
    rate, batch = float(sys.argv[1]), int(sys.argv[2])
    file = Path(os.environ.get("LUIGI_PAI_MOUNTS", "") + sys.argv[3])  # set by ``luigi-pai local`` only
    result = {"rate": rate, "batch": batch, "loss": fit(rate, batch)}
    file.parent.mkdir(parents=True, exist_ok=True)
    unfinished = file.with_suffix(".unfinished")
    unfinished.write_text(json.dumps(result))
    unfinished.replace(file)  # so that a half-written result is none
    print(result)
