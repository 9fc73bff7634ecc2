"""Write optdigits.tra and optdigits.tes into a folder, as UCI's but with blots in place of handwriting."""

from __future__ import annotations

import argparse
import random
from pathlib import Path


def lines(count: int, draw: random.Random, blots: list[list[int]]) -> str:
    """Return so many digits, each its blot with some noise."""
    text = ""
    for number in range(count):
        digit = number % len(blots)
        image = (min(16, max(0, value + draw.randint(-3, 3))) for value in blots[digit])
        text += ",".join(map(str, [*image, digit])) + "\n"
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--train", type=int, default=200)
    parser.add_argument("--test", type=int, default=50)
    options = parser.parse_args()
    draw = random.Random(0)  # noqa: S311  always the same
    blots = [[draw.randint(0, 16) for _ in range(64)] for _ in range(10)]
    options.folder.mkdir(parents=True, exist_ok=True)
    (options.folder / "optdigits.tra").write_text(lines(options.train, draw, blots))
    (options.folder / "optdigits.tes").write_text(lines(options.test, draw, blots))


if __name__ == "__main__":
    main()
