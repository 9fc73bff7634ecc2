"""Requests to HDFS over WebHDFS."""
