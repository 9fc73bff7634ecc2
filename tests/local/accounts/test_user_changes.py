"""Changes of users while a password is being looked at or hashed, which is done in a thread."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace

import pytest
from event_loop import in_a_loop

from luigi_pai.local.accounts.groups import Groups
from luigi_pai.local.accounts.tokens import Bearer, TokenRegister, Tokens
from luigi_pai.local.accounts.users import Users, hash_password, password_matches
from luigi_pai.local.node.http import ApiError
from luigi_pai.local.rest.base.api import ApiHandler
from luigi_pai.local.rest.v2 import users as rest_v2_users
from luigi_pai.local.rest.v2.access import AccessV2
from luigi_pai.local.store.jobs import Store
from luigi_pai.local.store.records import User

OLD, NEW, OTHER = "old-password", "new-password", "other-password"


@pytest.fixture
def api(tmp_path):
    store = Store(tmp_path / "server.sqlite")
    api = SimpleNamespace(
        users=Users(store, ["default"]),
        groups=Groups(store, ["default"], lambda: ()),
        tokens=TokenRegister(Tokens(b"k" * 32), store),
    )
    for name in ("root", "zoe"):
        api.users.save(User(name, hash_password(OLD), name == "root", ""))
    yield api
    store.close()


@pytest.fixture
def meanwhile(monkeypatch):
    """Have something happen whenever a handler waits for a thread."""

    def during(change, after=0):
        seen = []

        async def to_thread(work, *arguments):
            result = work(*arguments)
            if len(seen) == after:
                change()
            seen.append(work)
            return result

        monkeypatch.setattr(asyncio, "to_thread", to_thread)

    return during


class Asked(SimpleNamespace):
    """As much of a request as these routes look at."""

    checked = ApiHandler.checked
    checked_by_administrator = AccessV2.checked_by_administrator
    is_patch = AccessV2.is_patch

    def person(self):
        return Bearer(self.username, admin=False)

    def is_admin(self, bearer):
        return self.api.groups.is_admin(self.api.users.get(bearer.username))

    def require_admin(self, bearer):
        assert self.is_admin(bearer)

    def answer(self, status, _value):
        self.status = status


def change(api, username, action, body, *path):
    asked = Asked(api=api, username=username, body=body)
    in_a_loop(action(asked, *path))
    return asked.status


def set_email(api):
    api.users.save(replace(api.users.get("zoe"), email="zoe@example.org"))


def set_password(api, password):
    api.users.save(replace(api.users.get("zoe"), password=hash_password(password)))


@pytest.mark.parametrize("after", [0, 1])
def test_a_new_password_takes_back_no_other_change(api, meanwhile, after):
    """Whether it comes while the old one is looked at, or while the new one is hashed."""
    meanwhile(lambda: set_email(api), after)
    body = {"oldPassword": OLD, "newPassword": NEW}
    assert change(api, "zoe", rest_v2_users._change_password, body, "zoe") == 201
    user = api.users.get("zoe")
    assert (user.email, password_matches(user, NEW)) == ("zoe@example.org", True)


def test_an_administrators_change_takes_back_no_other(api, meanwhile):
    """PUT users, with a password among the data."""
    meanwhile(lambda: set_email(api))
    body = {"patch": True, "data": {"username": "zoe", "password": NEW, "extension": {"a": 1}}}
    assert change(api, "root", rest_v2_users._change_user, body) == 201
    user = api.users.get("zoe")
    assert (user.email, user.extension, password_matches(user, NEW)) == ("zoe@example.org", {"a": 1}, True)


@pytest.mark.slow
@pytest.mark.parametrize("after", [0, 1])
def test_a_password_that_is_the_old_one_no_more_changes_nothing(api, meanwhile, after):
    """Somebody else was sooner, with the same old password or as administrator."""
    meanwhile(lambda: set_password(api, OTHER), after)
    body = {"oldPassword": OLD, "newPassword": NEW}
    with pytest.raises(ApiError, match="Pls input the correct password"):
        change(api, "zoe", rest_v2_users._change_password, body, "zoe")
    assert password_matches(api.users.get("zoe"), OTHER)


@pytest.mark.parametrize(
    ("action", "body", "path"),
    [
        (rest_v2_users._change_password, {"newPassword": NEW}, ["zoe"]),
        (rest_v2_users._change_user, {"patch": True, "data": {"username": "zoe", "password": NEW}}, []),
    ],
)
def test_a_user_who_is_removed_meanwhile_does_not_come_back(api, meanwhile, action, body, path):
    """Nor is there a failure."""
    meanwhile(lambda: api.users.remove("zoe"))
    with pytest.raises(ApiError, match="User zoe not found"):
        change(api, "root", action, body, *path)
    assert api.users.get("zoe") is None


@pytest.mark.slow
def test_a_login_with_what_was_the_password_until_now_is_refused(api, meanwhile):
    """Its token would outlive the end of all logins that comes with a new password."""
    assert in_a_loop(api.users.with_password("zoe", OLD)).name == "zoe"
    assert in_a_loop(api.users.with_password("zoe", NEW)) is None
    assert in_a_loop(api.users.with_password("nobody", OLD)) is None
    meanwhile(lambda: set_password(api, NEW))
    assert in_a_loop(api.users.with_password("zoe", OLD)) is None
    meanwhile(lambda: api.users.remove("zoe"))
    assert in_a_loop(api.users.with_password("zoe", NEW)) is None
