"""The hdfs and hadoop commands that jobs call. They import only the standard library: see `executable`."""
