"""Finds, checks and renders the references and commands of a job protocol."""
