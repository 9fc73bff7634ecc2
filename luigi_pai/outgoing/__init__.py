"""Selects the files that leave this machine: which files in a folder are sent, and which never are."""
