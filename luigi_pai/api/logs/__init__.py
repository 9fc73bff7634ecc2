"""Reads the logs of tasks: in parts, line by line, and the last lines of the failed task."""
