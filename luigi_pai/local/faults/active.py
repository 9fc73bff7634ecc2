"""The faults in force, which the control route replaces while the server runs."""

from __future__ import annotations

from dataclasses import dataclass, field

from luigi_pai.local.config.fault_rules import Faults

__all__ = ["ActiveFaults"]


@dataclass
class ActiveFaults:
    """The faults in force.

    Attributes:
        faults: the rules; none inject nothing.
    """

    faults: Faults = field(default_factory=Faults)
