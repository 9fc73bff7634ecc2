"""Access to a storage of the cluster that is mounted on this machine."""
