"""Modules shared by the task classes: runs, outputs, submission record and completion flag."""
