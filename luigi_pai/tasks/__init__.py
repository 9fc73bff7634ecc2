"""Modules shared by the task classes: definitions, runs, outputs and uploads."""
