"""Python functions as jobs: what ``Cluster.call`` and ``Cluster.map`` do. It needs Luigi."""
