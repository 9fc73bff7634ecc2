"""Sweeps: run many tasks as jobs, such as one class with many parameter values, and tabulate the results."""
