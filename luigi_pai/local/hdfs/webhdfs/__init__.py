"""WebHDFS over a folder on this machine, as Hadoop 2.7.4 speaks it."""
