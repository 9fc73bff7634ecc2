"""Runs Python functions as jobs: implements ``Cluster.call`` and ``Cluster.map``. Requires Luigi."""
