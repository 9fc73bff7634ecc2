"""Sweeps: run many tasks, such as one class with many parameter values, as jobs, and tabulate the results."""
