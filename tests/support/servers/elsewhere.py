"""A server that is not the one that was asked: where redirects lead."""

from __future__ import annotations

from fault_server import FaultServer, Reply, Request


class Elsewhere(FaultServer):
    """Answers everything with the login page of somebody else, and keeps what has arrived.

    Attributes:
        requests: whole.
    """

    def __init__(self) -> None:
        self.requests: list[Request] = []
        super().__init__()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def answer(self, request: Request) -> Reply:
        self.requests.append(request)
        return Reply(200, "<html><body>Please sign in</body></html>")

    def seen(self) -> str:
        """Return all that has arrived, as one text: lines, headers and bodies."""
        parts = []
        for request in self.requests:
            headers = "".join(f"{name}: {value}\n" for name, value in request.headers.items())
            parts.append(
                f"{request.method} {request.path}\n{headers}\n{request.body.decode(errors='replace')}"
            )
        return "\n\n".join(parts)
