"""A storage of the cluster in jobs, in the place of the HDFS of OpenPAI 0.7."""
