"""Uses one of the cluster's storages in jobs, in place of OpenPAI 0.7's HDFS."""
