"""Rounds of chaos: a user's pipeline on a local server, a nemesis, the same command again, and a checker.

A round is made from its seed. ``rounds.play`` runs it, ``checker.findings`` judges its ``history``.
"""
