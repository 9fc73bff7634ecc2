"""A storage of the cluster that is mounted on this machine."""
