"""The time that validation takes grows with the document, not with its square."""

from __future__ import annotations

import time

import pytest
from job_cases import protocol

from luigi_pai.jobspec.validate_protocol import validate_protocol


def large(roles, *prerequisites, **fields):
    """Return a protocol with these roles, as the one of ``protocol``, and further prerequisites."""
    document = protocol(**fields)
    (role,) = document["taskRoles"].values()
    document["prerequisites"] += prerequisites
    return document | {"taskRoles": {name: role | more for name, more in roles.items()}}


def references_in_commands(count):
    commands = [f"echo <% $parameters.k{index} %>" for index in range(count)]
    return large({"w": {"commands": commands}}, parameters={f"k{index}": 1 for index in range(count)})


def roles_with_data(count):
    roles = {f"r{n}": {"data": f"d{n}", "commands": ["<% $data.uri[0] %>"]} for n in range(count // 5)}
    return large(roles, *({"name": f"d{n}", "type": "data", "uri": ["u"]} for n in range(count // 5)))


def seconds(document):
    """Return how long the validation of a valid document computes."""
    begun = time.thread_time()
    assert validate_protocol(document) == []
    return time.thread_time() - begun


@pytest.mark.slow
@pytest.mark.parametrize("made", [references_in_commands, roles_with_data])
def test_time_is_not_quadratic(made):
    """Eight times as much takes some eight times as long; where it was quadratic, sixty times."""
    seconds(made(100))  # what is loaded at the first time
    assert seconds(made(12_000)) < 25 * max(seconds(made(1500)), 0.05)


def test_a_long_list_of_what_there_is_is_cut():
    """A message for each wrong reference, each with every name, would be a square too."""
    parameters = dict.fromkeys(map(str, range(99)))
    document = large({"w": {"commands": ["<% $parameters.rate %>"]}}, parameters=parameters)
    (problem,) = validate_protocol(document)
    assert (
        "there is no rate in $parameters (known: '0', '1', '2', '3', '4', '5', '6', '7', '8', "
        in problem.message
    )
