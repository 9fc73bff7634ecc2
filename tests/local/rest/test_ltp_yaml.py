"""The YAML of job protocols on LTP: js-yaml 4 reads some scalars in another way than OpenPAI 1.8."""

from __future__ import annotations

import pytest
from protocol_client import ProtocolClient

pytestmark = pytest.mark.slow

PROTOCOL = """
protocolVersion: 2
name: NAME
type: job
prerequisites: [{name: image, type: dockerimage, uri: ubuntu}]
parameters: {number: NUMBER}
taskRoles:
  worker:
    dockerImage: image
    instances: 1
    resourcePerInstance: {cpu: 1, memoryMB: 1024, gpu: 0}
    commands: ["echo <% $parameters.number %>"]
"""


@pytest.mark.parametrize(
    ("written", "on_1_8", "on_ltp"),
    [
        ("012", 10, 12),
        ("08", "08", 8),
        ("0o17", "0o17", 15),
        ("1:30", 90, "1:30"),
        ("0x1F", 31, 31),
        ("yes", "yes", "yes"),
    ],
)
def test_each_release_reads_its_own_way(local_pai_v2, local_pai_ltp, written, on_1_8, on_ltp):
    """The server's stored job tells what it has read."""
    name = "yaml-" + "".join(letter if letter.isalnum() else "-" for letter in written)
    for server, value in ((local_pai_v2, on_1_8), (local_pai_ltp, on_ltp)):
        client = ProtocolClient(server)
        assert client.post(PROTOCOL.replace("NAME", name).replace("NUMBER", written)).status_code == 202
        assert client.send("GET", f"/jobs/admin~{name}/config").json()["parameters"] == {"number": value}
