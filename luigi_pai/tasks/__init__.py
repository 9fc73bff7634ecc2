"""Modules shared by the task classes: attributes, outputs, uploads, a task's work, and Luigi's page."""
