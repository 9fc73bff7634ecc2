"""The hdfs and hadoop commands that jobs call."""
