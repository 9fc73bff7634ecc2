"""A real HDFS on this machine, for the tests: fetched once, started and stopped in seconds.

``real_hdfs_command.py`` beside it is its command, which ``make real-hdfs``, ``make fetch-real-hdfs`` and
the test targets of the Makefile run. Standard library only.
"""

from real_hdfs.cluster import RealHdfs
from real_hdfs.hadoops import HADOOP_2, HADOOP_3, HADOOPS, Hadoop
from real_hdfs.software import Software, installed
from real_hdfs.sources import Missing

__all__ = ["HADOOPS", "HADOOP_2", "HADOOP_3", "Hadoop", "Missing", "RealHdfs", "Software", "installed"]
