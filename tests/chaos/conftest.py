"""Servers and folders of the rounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from chaos.rounds import play
from ports import own_port

from luigi_pai.local import LocalPai

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from chaos.rounds import Played, Round, Table


@pytest.fixture(scope="session")
def chaos_servers() -> Iterator[Callable[[Round], LocalPai]]:
    """Return the server of a round; rounds kill and restart it, and leave it empty."""
    servers: dict[tuple[str, bool], LocalPai] = {}

    def get(one: Round) -> LocalPai:
        key = one.api, one.place == "hdfs"
        if key not in servers:
            hdfs = True if one.place == "hdfs" else None
            servers[key] = LocalPai(api=one.api, port=own_port(), hdfs=hdfs).start()
        return servers[key]

    yield get
    for server in servers.values():
        server.close()


@pytest.fixture
def play_round(
    chaos_servers: Callable[[Round], LocalPai], tmp_path: Path
) -> Callable[[Round, Callable[[Table], None]], Played]:
    """Return a function that plays a round."""

    def run(one: Round, nemesis: Callable[[Table], None]) -> Played:
        folder = tmp_path / str(one)
        folder.mkdir()
        return play(one, folder, chaos_servers(one), nemesis)

    return run
