"""Python functions as jobs: the implementation of ``Cluster.call`` and ``Cluster.map``. It needs Luigi."""
