"""The v2 REST APIs: that of OpenPAI 1.8, with the part of v1 that it still has, and that of LTP 1.5."""

from __future__ import annotations

from luigi_pai.local.rest.v2 import cluster, jobs, logins, users
from luigi_pai.local.rest.v2.access import AccessV2

__all__ = ["SHARED_PATHS", "LtpHandler", "V2Handler"]

SHARED_PATHS = r"/api/(?:v2(?:/.*)?|v1/authn/.*|v1/token/.+|v1/user/[^/]+/?)"
"""The paths that are this API's where 0.7.1 answers beside it."""

_ROUTES = (
    *logins.ROUTES,
    *users.ROUTES,
    *cluster.ROUTES,
    *jobs.ROUTES,
)


class V2Handler(AccessV2):
    """Every address under /api that OpenPAI 1.8 knows."""

    routes = _ROUTES


class LtpHandler(AccessV2):
    """Every address under /api that LTP 1.5 knows."""

    routes = (*logins.LTP_ROUTES, *_ROUTES)
