"""The v2 REST APIs: that of OpenPAI 1.8, with the part of v1 that it still has, and that of LTP 1.5."""

from __future__ import annotations

from luigi_pai.local.rest.v2 import cluster, jobs, logins
from luigi_pai.local.rest.v2.access import AccessV2

__all__ = ["LtpHandler", "V2Handler"]

_ROUTES = (
    *logins.ROUTES,
    *cluster.ROUTES,
    *jobs.ROUTES,
)


class V2Handler(AccessV2):
    """Every address under /api that OpenPAI 1.8 knows."""

    routes = _ROUTES


class LtpHandler(AccessV2):
    """Every address under /api that LTP 1.5 knows."""

    routes = (*logins.LTP_ROUTES, *_ROUTES)
