"""Rules in which the YAML readers of the servers differ: js-yaml 3 and js-yaml 4.

OpenPAI 0.15 to 1.8 and LTP 1.0 read a job with js-yaml 3, LTP 1.1 and later with
js-yaml 4. They read everything else alike. The patterns are those of
``lib/type/int.js`` and ``float.js`` of js-yaml 3.14 and 4.1.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["JS_YAML_3", "JS_YAML_4", "YamlReader"]


@dataclass(frozen=True)
class YamlReader:
    """The rules of one reader.

    Attributes:
        integer: a whole number; the group that matched names its base.
        real: a number with a fraction or exponent, infinity, not a number.
        loses_proto: the value of a key ``__proto__`` is lost.
    """

    integer: re.Pattern[str]
    real: re.Pattern[str]
    loses_proto: bool


_BINARY_OR_HEX = r"0b(?P<binary>[01_]*[01])|0x(?P<hexadecimal>[0-9a-fA-F_]*[0-9a-fA-F])"
_EXPONENT = r"(?:[eE][-+]?[0-9]+)?"
_OTHER_REALS = rf"\.[0-9_]+{_EXPONENT}|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"

JS_YAML_3 = YamlReader(
    integer=re.compile(
        rf"""([-+]?)(?:{_BINARY_OR_HEX}
          | (?P<octal>0[0-7_]*(?<!_))
          | (?P<decimal>[1-9][0-9_]*(?<!_))
          | (?P<sexagesimal>[1-9][0-9_]*(?::[0-5]?[0-9])+)
        )""",
        re.VERBOSE,
    ),
    real=re.compile(
        rf"""(?:{_OTHER_REALS}
          | [-+]?(?:0|[1-9][0-9_]*)(?:\.[0-9_]*)?{_EXPONENT}
          | [-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+\.[0-9_]*
        )(?<!_)""",
        re.VERBOSE,
    ),
    loses_proto=True,
)
"""OpenPAI 0.15 to 1.8, and LTP 1.0."""

JS_YAML_4 = YamlReader(
    integer=re.compile(
        rf"""([-+]?)(?:{_BINARY_OR_HEX}
          | 0o(?P<octal>[0-7_]*[0-7])
          | (?P<decimal>(?:0(?!_)|[1-9])[0-9_]*(?<!_))
        )""",
        re.VERBOSE,
    ),
    real=re.compile(rf"(?:{_OTHER_REALS}|[-+]?[0-9][0-9_]*(?:\.[0-9_]*)?{_EXPONENT})(?<!_)"),
    loses_proto=False,
)
"""LTP 1.1 to 1.5."""
