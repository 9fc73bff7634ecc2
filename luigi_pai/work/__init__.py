"""Pieces of work: their evidence, and how they are decided, submitted, run and recorded. No Luigi."""
