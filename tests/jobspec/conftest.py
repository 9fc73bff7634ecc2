"""Generated examples are the same in every run: a failure comes again, and a green run means something."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, database=None, deadline=None)
settings.load_profile("repeatable")
