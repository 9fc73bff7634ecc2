"""How much is run, and what is drawn: CHAOS_ROUNDS and CHAOS_SEED of the environment."""

from __future__ import annotations

import os

__all__ = ["ROUNDS", "SEED"]

ROUNDS = int(os.environ.get("CHAOS_ROUNDS", "1"))
"""How many times as much as in ``make test``."""

SEED = int(os.environ.get("CHAOS_SEED", "1"))
"""Of all that is drawn at random."""
