"""The v2 REST APIs: that of OpenPAI 1.8, with the part of v1 that it still has, and that of LTP 1.5."""

from __future__ import annotations

from luigi_pai.local import (
    rest_v2_cluster,
    rest_v2_groups,
    rest_v2_jobs,
    rest_v2_people,
    rest_v2_users,
)
from luigi_pai.local.access_v2 import AccessV2

__all__ = ["SHARED_PATHS", "LtpHandler", "V2Handler"]

SHARED_PATHS = r"/api/(?:v2(?:/.*)?|v1/authn/.*|v1/token/.+|v1/user/[^/]+/?)"
"""The paths that are this API's where 0.7.1 answers beside it."""

_ROUTES = (
    *rest_v2_people.ROUTES,
    *rest_v2_users.ROUTES,
    *rest_v2_groups.ROUTES,
    *rest_v2_cluster.ROUTES,
    *rest_v2_jobs.ROUTES,
)


class V2Handler(AccessV2):
    """Every address under /api that OpenPAI 1.8 knows."""

    routes = (*rest_v2_users.OPENPAI_ROUTES, *_ROUTES)


class LtpHandler(AccessV2):
    """Every address under /api that LTP 1.5 knows."""

    routes = (
        *rest_v2_people.LTP_ROUTES,
        *rest_v2_users.LTP_ROUTES,
        *rest_v2_cluster.LTP_ROUTES,
        *_ROUTES,
    )
