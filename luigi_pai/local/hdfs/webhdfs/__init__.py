"""WebHDFS over a folder on this machine, as in Hadoop 2.7.4."""
