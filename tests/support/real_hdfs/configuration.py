"""The files that Hadoop's processes read at their start."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["LOGGING", "QUIET", "make_pages", "write_configuration"]

LOGGING = """\
log4j.rootLogger=INFO,c
log4j.logger.org.apache.hadoop.util.NativeCodeLoader=ERROR
log4j.appender.c=org.apache.log4j.ConsoleAppender
log4j.appender.c.target=System.err
log4j.appender.c.layout=org.apache.log4j.PatternLayout
log4j.appender.c.layout.ConversionPattern=%d %p %c: %m%n
"""
_NO_PAGES = '<web-app version="2.4" xmlns="http://java.sun.com/xml/ns/j2ee"></web-app>'
QUIET = LOGGING.replace("INFO,c", "ERROR,c")


def make_pages(folder: Path) -> None:
    """Make what Hadoop's HttpServer2 looks for on the class path; what is tested does not need its pages."""
    for name in ("hdfs", "datanode"):
        (folder / name / "WEB-INF").mkdir(parents=True)
        (folder / name / "WEB-INF" / "web.xml").write_text(_NO_PAGES)
    (folder / "static").mkdir()


def write_configuration(folder: Path, core: dict[str, str], hdfs: dict[str, str], logging: str) -> None:
    folder.mkdir(parents=True)
    (folder / "log4j.properties").write_text(logging)
    for name, values in (("core-site.xml", core), ("hdfs-site.xml", hdfs)):
        lines = [
            f"<property><name>{key}</name><value>{value}</value></property>" for key, value in values.items()
        ]
        (folder / name).write_text("\n".join(["<configuration>", *lines, "</configuration>", ""]))
