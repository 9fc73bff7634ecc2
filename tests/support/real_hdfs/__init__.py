"""A real HDFS 2.7.4 on this machine, for the tests: fetched once, started and stopped in seconds.

``real_hdfs_command.py`` beside it is its command, which ``make real-hdfs``, ``make fetch-real-hdfs`` and
the test targets of the Makefile run. Standard library only.
"""

from real_hdfs.cluster import RealHdfs
from real_hdfs.software import Missing, Software, installed

__all__ = ["Missing", "RealHdfs", "Software", "installed"]
