"""Hosts: whether one is an address, and whether only this machine reaches it."""

from __future__ import annotations

import ipaddress

__all__ = ["is_address", "is_loopback"]


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach the host."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def is_address(host: str) -> bool:
    """Return whether a host is an address, not a name."""
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True
