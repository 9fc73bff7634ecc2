"""The local OpenPAI's HDFS: WebHDFS over a folder, and the hdfs command for jobs."""
