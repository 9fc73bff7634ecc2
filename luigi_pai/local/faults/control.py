"""Control routes, for administrators on this machine; the one of faults."""

from __future__ import annotations

from typing import TYPE_CHECKING

from luigi_pai.errors import ConfigError
from luigi_pai.local.config.fault_rules import Faults, parse_faults
from luigi_pai.local.node.http import ApiError, RestHandler, basic_credentials, is_from_here

if TYPE_CHECKING:
    from luigi_pai.local.rest.base.api import Api
    from luigi_pai.local.store.records import User

__all__ = ["Control", "FaultControl"]


class Control(RestHandler):
    """A route that changes how the server behaves."""

    _api: Api

    async def _allow(self) -> None:
        """Check that an administrator on this machine sent the request, with a token or a password.

        Raises:
            ApiError: 403 or 401.
        """
        if not is_from_here(self.request):
            raise ApiError(403, "ForbiddenUserError", "This server is controlled from this machine only.")
        user = await self._user()
        if user is None:
            raise ApiError(401, "UnauthorizedUserError", "Guest is not allowed to do this operation.")
        if not self._api.groups.is_admin(user):
            raise ApiError(403, "ForbiddenUserError", "Non-admin is not allowed to do this operation.")

    async def _user(self) -> User | None:
        """Return the user that token, or name and password, authenticate; None without valid ones."""
        scheme, credentials = self.credentials()
        if scheme == "basic":
            return await self._api.users.with_password(*basic_credentials(credentials))
        bearer = self._api.tokens.check(credentials) if scheme == "bearer" else None
        return None if bearer is None else self._api.users.get(bearer.username)


class FaultControl(Control):
    """``GET``, ``PUT`` and ``DELETE`` of the rules in force."""

    def initialize(self, api: Api, faults: Faults) -> None:
        """Store what all requests share."""
        self._api = api
        self._faults = faults

    async def get(self) -> None:
        """Answer with the rules, and how many requests each has seen and struck."""
        await self._allow()
        self.answer(200, self._faults.shown())

    async def put(self) -> None:
        """Replace the rules; their counts and random numbers start again."""
        await self._allow()
        try:
            self._faults.replace_by(parse_faults(self.body_value()))
        except ConfigError as error:
            raise ApiError(400, "InvalidParametersError", str(error)) from None
        self.answer(200, self._faults.shown())

    async def delete(self) -> None:
        """Clear the rules."""
        await self._allow()
        self._faults.replace_by(Faults())
        self.answer(200, self._faults.shown())
