"""Control routes, for tests: of this machine's administrator alone. Those of faults."""

from __future__ import annotations

from typing import TYPE_CHECKING

from luigi_pai.errors import ConfigError
from luigi_pai.local.config.fault_rules import Faults, parse_faults
from luigi_pai.local.node.http import ApiError, RestHandler, basic_credentials, is_from_here

if TYPE_CHECKING:
    from luigi_pai.local.faults.connections import FaultDesk
    from luigi_pai.local.rest.base.api import Api
    from luigi_pai.local.store.records import User

__all__ = ["Control", "FaultControl"]


class Control(RestHandler):
    """A route that changes how the server behaves."""

    _api: Api

    async def _allow(self) -> None:
        """Let in who is on this machine and has an administrator's token, or name and password.

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
        """Return who asks, by their token or by name and password; None for nobody."""
        scheme, credentials = self.credentials()
        if scheme == "basic":
            return await self._api.users.with_password(*basic_credentials(credentials))
        bearer = self._api.tokens.check(credentials) if scheme == "bearer" else None
        return None if bearer is None else self._api.users.get(bearer.username)


class FaultControl(Control):
    """``GET``, ``PUT`` and ``DELETE`` of the rules in force."""

    def initialize(self, api: Api, desk: FaultDesk) -> None:
        """Take what all requests share."""
        self._api = api
        self._desk = desk

    async def get(self) -> None:
        """Show the rules, and how often each was looked at and struck."""
        await self._allow()
        self.answer(200, self._desk.faults.shown())

    async def put(self) -> None:
        """Replace the rules; counts and dice begin anew."""
        await self._allow()
        try:
            self._desk.faults = parse_faults(self.body_value())
        except ConfigError as error:
            raise ApiError(400, "InvalidParametersError", str(error)) from None
        self.answer(200, self._desk.faults.shown())

    async def delete(self) -> None:
        """End all faults."""
        await self._allow()
        self._desk.faults = Faults()
        self.answer(200, self._desk.faults.shown())
