"""How much is run, and what is drawn: CHAOS_... of the environment, as ``make chaos`` sets them."""

from __future__ import annotations

import os

__all__ = ["BUG", "CRASH_POINTS", "ROUNDS", "SEED", "seeds"]

_ASKED = os.environ.get("CHAOS_ROUNDS")

ROUNDS = int(_ASKED or 1)
"""How many times as much as in ``make test``."""

SEED = int(os.environ.get("CHAOS_SEED", "1"))
"""Of all that is drawn at random."""

CRASH_POINTS = os.environ.get("CHAOS_CRASH_POINTS", "")
"""``all``, or the number of a request; empty for one that is drawn."""

BUG = os.environ.get("CHAOS_BUG", "")
"""A name of ``seeded_bugs``; empty for none."""


def seeds(few: int, share: float = 1.0) -> list[int]:
    """Return the seeds of rounds: as many as the environment asks for, from its seed on, or a few.

    Args:
        few: how many rounds there are where the environment does not say.
        share: of the rounds that the environment asks for.
    """
    return list(range(SEED, SEED + (max(1, round(share * ROUNDS)) if _ASKED else few)))
