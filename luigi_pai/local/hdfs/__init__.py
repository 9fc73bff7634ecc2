"""The HDFS of the local OpenPAI: WebHDFS over a folder, and the hdfs command of jobs."""
