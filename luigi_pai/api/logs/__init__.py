"""Reads task logs: in parts, line by line, and the failed task's last lines."""
