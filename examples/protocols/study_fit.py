"""Fit a linear model by stochastic gradient descent, and write the signed loss down.

The same arguments give the same loss, on any machine.
"""

from __future__ import annotations

import argparse
import hashlib
import hmac
import json
import os
import random
from pathlib import Path
from typing import Any

SOUGHT = (2.0, -3.0, 1.0)
NOISE = 0.5
LARGEST = 1e9  # a fit that runs away stops here


def fit(rate: float, batch: int, steps: int) -> float:
    """Return the mean squared distance of the weights from those that are sought."""
    draw = random.Random(7)  # noqa: S311  examples, not secrets
    weights = [0.0] * len(SOUGHT)
    for _ in range(steps):
        slope = [0.0] * len(SOUGHT)
        for _ in range(batch):
            example = [draw.uniform(-1, 1) for _ in SOUGHT]
            wanted = sum(map(float.__mul__, SOUGHT, example)) + draw.uniform(-NOISE, NOISE)
            error = sum(map(float.__mul__, weights, example)) - wanted
            slope = [old + 2 * error * x / batch for old, x in zip(slope, example, strict=True)]
        weights = [max(-LARGEST, min(LARGEST, w - rate * s)) for w, s in zip(weights, slope, strict=True)]
    return round(sum((w - s) ** 2 for w, s in zip(weights, SOUGHT, strict=True)) / len(SOUGHT), 9)


def signature(result: dict[str, Any], key: str) -> str:
    """Return the signature of a result."""
    return hmac.new(key.encode(), json.dumps(result, sort_keys=True).encode(), hashlib.sha256).hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=float, required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--result", type=Path, required=True)
    options = parser.parse_args()
    loss = fit(options.rate, options.batch, options.steps)
    result = {"rate": options.rate, "batch": options.batch, "steps": options.steps, "loss": loss}
    signed = {**result, "signature": signature(result, os.environ["STUDY_KEY"])}
    options.result.parent.mkdir(parents=True, exist_ok=True)
    unfinished = options.result.with_suffix(".unfinished")
    unfinished.write_text(json.dumps(signed))
    unfinished.replace(options.result)
    print(f"rate {options.rate}, batch {options.batch}: loss {loss}")


if __name__ == "__main__":
    main()
