"""Pieces of work: what is known of one, what to do now, how it is submitted, run and recorded. No Luigi."""
