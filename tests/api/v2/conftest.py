"""The v2 dialect with an application token."""

from __future__ import annotations

import pytest
from mocked_rest import URL

from luigi_pai.api.dialects.v2 import V2Dialect


@pytest.fixture
def v2(new_session):
    """The dialect of a user with an application token."""
    return V2Dialect(new_session(URL, token="application-token"))


@pytest.fixture
def asked(rest):
    return lambda: [f"{call.request.method} {call.request.url.removeprefix(URL)}" for call in rest.calls]
