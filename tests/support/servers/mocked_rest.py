"""A rest-server of mocked tests: its URL, a job, and how it answers."""

from __future__ import annotations

import json

from luigi_pai.jobspec.job import PaiJob, TaskRole

__all__ = ["GET", "JOB", "POST", "URL", "reply", "rest_server"]

URL = "http://pai.test:9186"
GET = ("GET", "/api/v1/jobs/x")
POST = ("POST", "/api/v1/jobs")
JOB = PaiJob("j", "i", [TaskRole("w", "c")])


def reply(state: str, **about: object) -> dict:
    """Return the reply for a job."""
    return {"jobStatus": {"state": state} | about}


def rest_server(serve, tokens, wants_token=("POST", "PUT", "DELETE")):
    """Serve as 0.7.1 does: logins hand out the tokens in turn, the last of them is taken."""

    def answer(asked):
        given = server.given
        if asked.path.endswith("/api/v1/token"):
            given.append(tokens[min(len(given), len(tokens) - 1)])
            return 200, {}, json.dumps({"user": "admin", "token": given[-1], "admin": True})
        bearer = asked.headers.get("Authorization")
        if asked.method in wants_token and (not given or bearer != f"Bearer {given[-1]}"):
            return 401, {}, '{"code": "UnauthorizedUserError", "message": "Guest."}'
        return 200, {}, "{}"

    server = serve(answer)
    return server
