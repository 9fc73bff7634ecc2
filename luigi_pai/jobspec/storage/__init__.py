"""A storage of the cluster in jobs, instead of the HDFS of OpenPAI 0.7."""
