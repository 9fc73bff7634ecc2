"""Access to a cluster storage that is mounted on this machine."""
