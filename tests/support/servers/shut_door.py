"""An address at which nobody is, that counts who tried."""

from __future__ import annotations

import contextlib
import socket
import threading


class ShutDoor:
    """Takes each connection and closes it at once, without a word.

    Attributes:
        attempts: how many there were.
    """

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.attempts = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _address = self._listener.accept()
                self.attempts += 1
                connection.close()
