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


@pytest.mark.parametrize("api", ["v2", "ltp"])
def test_a_scalar_that_the_releases_read_otherwise_is_refused(local_pai_v2, local_pai_ltp, api):
    """A client would not send it: its meaning depends on the cluster."""
    client = ProtocolClient({"v2": local_pai_v2, "ltp": local_pai_ltp}[api])
    answer = client.post(PROTOCOL.replace("NAME", "yaml").replace("NUMBER", "012"))
    assert answer.status_code == 500
    assert "OpenPAI and LTP 1.1 and later take this for different values" in answer.text
