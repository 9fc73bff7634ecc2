"""What differs between the YAML readers of the servers, js-yaml 3 and js-yaml 4, as data.

OpenPAI 0.15 to 1.8 and LTP 1.0 read a job with js-yaml 3, LTP 1.1 and later with
js-yaml 4. Everything that is not said here the two read alike. The patterns are
those of ``lib/type/int.js`` and ``float.js`` of js-yaml 3.14 and 4.1.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["JS_YAML_3", "JS_YAML_4", "YamlReader", "other_reader"]


@dataclass(frozen=True)
class YamlReader:
    """The rules of one reader.

    Attributes:
        servers: who reads with it, for messages.
        integer: a whole number; the group that matched names its base.
        real: a number with a fraction or exponent, infinity, not a number.
        takes_tabs: tabs may indent; else they are refused.
        takes_empty_entries: ``[a,,b]`` has a null; else it is refused.
        loses_proto: the value of a key ``__proto__`` is lost.
        binary_is_buffer: ``!!binary`` is a Buffer, which is its text in a command; else an array of
            bytes, which is numbers with commas there.
    """

    servers: str
    integer: re.Pattern[str]
    real: re.Pattern[str]
    takes_tabs: bool
    takes_empty_entries: bool
    loses_proto: bool
    binary_is_buffer: bool


JS_YAML_3 = YamlReader(
    servers="OpenPAI",
    integer=re.compile(
        r"""([-+]?)(?:
            0b(?P<binary>[01_]*[01])
          | 0x(?P<hexadecimal>[0-9a-fA-F_]*[0-9a-fA-F])
          | (?P<octal>0[0-7_]*(?<!_))
          | (?P<decimal>[1-9][0-9_]*(?<!_))
          | (?P<sexagesimal>[1-9][0-9_]*(?::[0-5]?[0-9])+)
        )""",
        re.VERBOSE,
    ),
    real=re.compile(
        r"""(?:
            [-+]?(?:0|[1-9][0-9_]*)(?:\.[0-9_]*)?(?:[eE][-+]?[0-9]+)?
          | \.[0-9_]+(?:[eE][-+]?[0-9]+)?
          | [-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+\.[0-9_]*
          | [-+]?\.(?:inf|Inf|INF)
          | \.(?:nan|NaN|NAN)
        )(?<!_)""",
        re.VERBOSE,
    ),
    takes_tabs=True,
    takes_empty_entries=True,
    loses_proto=True,
    binary_is_buffer=True,
)
"""OpenPAI 0.15 to 1.8, and LTP 1.0."""

JS_YAML_4 = YamlReader(
    servers="LTP 1.1 and later",
    integer=re.compile(
        r"""([-+]?)(?:
            0b(?P<binary>[01_]*[01])
          | 0x(?P<hexadecimal>[0-9a-fA-F_]*[0-9a-fA-F])
          | 0o(?P<octal>[0-7_]*[0-7])
          | (?P<decimal>(?:0(?!_)|[1-9])[0-9_]*(?<!_))
        )""",
        re.VERBOSE,
    ),
    real=re.compile(
        r"""(?:
            [-+]?[0-9][0-9_]*(?:\.[0-9_]*)?(?:[eE][-+]?[0-9]+)?
          | \.[0-9_]+(?:[eE][-+]?[0-9]+)?
          | [-+]?\.(?:inf|Inf|INF)
          | \.(?:nan|NaN|NAN)
        )(?<!_)""",
        re.VERBOSE,
    ),
    takes_tabs=False,
    takes_empty_entries=False,
    loses_proto=False,
    binary_is_buffer=False,
)
"""LTP 1.1 to 1.5."""


def other_reader(reader: YamlReader) -> YamlReader:
    """Return the one of the two that a reader is not."""
    return JS_YAML_4 if reader == JS_YAML_3 else JS_YAML_3
