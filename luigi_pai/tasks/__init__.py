"""Modules shared by the task classes: runs, outputs, claims and completion flag."""
