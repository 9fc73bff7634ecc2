"""Finds, checks and renders a job protocol's references and commands."""
