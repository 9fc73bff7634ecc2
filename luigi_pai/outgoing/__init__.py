"""Selects the files that leave this machine: which files of a folder are sent, and which never are."""
