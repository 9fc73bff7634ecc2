"""Learn to read handwritten digits from train.csv, and count how many of test.csv are read correctly.

A line is 64 grey values and the digit.
"""

from __future__ import annotations

import argparse
import csv
from collections import defaultdict
from pathlib import Path

Image = tuple[int, ...]


def digits(path: Path) -> list[tuple[Image, int]]:
    with path.open(newline="") as file:
        rows = [tuple(map(int, row)) for row in csv.reader(file)]
    return [(row[:-1], row[-1]) for row in rows]


def centroids(learned: list[tuple[Image, int]]) -> list[tuple[Image, int]]:
    """Return the mean image of each digit."""
    images = defaultdict(list)
    for image, digit in learned:
        images[digit].append(image)
    return [
        (tuple(sum(values) // len(values) for values in zip(*group, strict=True)), digit)
        for digit, group in sorted(images.items())
    ]


def nearest(image: Image, known: list[tuple[Image, int]]) -> int:
    """Return the digit of the known image that differs least."""
    return min(known, key=lambda each: sum((a - b) ** 2 for a, b in zip(image, each[0], strict=True)))[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", choices=("centroids", "neighbour"))
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    learned, asked = digits(options.folder / "train.csv"), digits(options.folder / "test.csv")[:300]
    known = centroids(learned) if options.model == "centroids" else learned
    right = sum(nearest(image, known) == digit for image, digit in asked)
    print(f"{options.model}: learned from {len(learned)}, read {right} of {len(asked)} correctly")


if __name__ == "__main__":
    main()
