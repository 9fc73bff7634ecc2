"""The hdfs and hadoop commands that jobs call; the standard library only, see `executable`."""
