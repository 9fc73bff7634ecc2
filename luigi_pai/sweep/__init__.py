"""Sweeps: many tasks, such as one with many parameter values, run as jobs and collected in a table."""
