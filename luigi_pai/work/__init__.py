"""Pieces of work: the evidence about them, and how to decide, submit, run and record them. No Luigi."""
