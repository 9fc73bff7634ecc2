"""Modules shared by the task classes: attributes, outputs, uploads, the work of a task, and Luigi's page."""
