"""PaiProtocolTasks on a local OpenPAI 1.8 and LTP 1.5: prerequisites, parameters and secrets."""

from __future__ import annotations

import luigi
import pytest
from pipelines import ask, build

from luigi_pai import PaiJobFailed, PaiProtocolTask

pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("any_cluster"),
    pytest.mark.parametrize("any_cluster", ["v2", "ltp"], indirect=True),
]


PROTOCOL = """
protocolVersion: 2
name: protocol
type: job
prerequisites:
  - {name: image, type: dockerimage, uri: ubuntu}
  - name: words
    type: data
    require: [tools]
    file: words.txt
    callbacks:
      - event: containerStart
        commands: ["cp tools.txt <% this.parameters.file %>", "echo data >> <% this.parameters.file %>"]
  - name: tools
    type: script
    callbacks:
      - {event: taskStarts, commands: ["echo tools > tools.txt"]}
parameters: {text: none}
secrets: {key: none}
taskRoles:
  main:
    instances: 1
    prerequisites: [words]
    dockerImage: image
    resourcePerInstance: {cpu: 1, memoryMB: 256, gpu: 0}
    commands:
      - cat words.txt > FOLDER/words
      - |-
        cat > FOLDER/text <<'END OF TEXT'
        <% $parameters.text %>
        END OF TEXT
      - |-
        cat > FOLDER/key <<'END OF TEXT'
        <% $secrets.key %>
        END OF TEXT
"""


class Job(PaiProtocolTask):
    """A job with prerequisites that need each other, a parameter and a secret."""

    name = luigi.Parameter()
    folder = luigi.Parameter()
    text = luigi.Parameter(default="plain", significant=False)
    key = "hush-hush"

    @property
    def protocol(self):
        return PROTOCOL.replace("FOLDER", self.folder)

    @property
    def parameters(self):
        return {"text": self.text}

    @property
    def secrets(self):
        return {"key": self.key}


def test_prerequisites_run_in_the_order_they_need(name, tmp_path):
    """What a prerequisite requires runs before it; the proposal's names and own keys work."""
    assert build(Job(name, str(tmp_path)))
    assert (tmp_path / "words").read_text() == "tools\ndata\n"


@pytest.mark.parametrize("kind", ["parameter", "secret"])
@pytest.mark.parametrize(
    "value",
    [
        "it's",
        'a "b" c',
        "<tag> & </tag>",
        "100% & more %>",
        "$HOME `ls` \\",
        "two\nlines",
        "é 漢 🚀",
        "  padded",
    ],
)
def test_values_arrive_unharmed(name, tmp_path, kind, value):
    """What parameters and secrets hold reaches the command as it is."""
    task = Job(name, str(tmp_path), text=value if kind == "parameter" else "plain")
    if kind == "secret":
        task.key = value
    task.run()
    assert (tmp_path / "key" if kind == "secret" else tmp_path / "text").read_text() == f"{value}\n"


def test_a_secret_is_nowhere(any_cluster, name, tmp_path, caplog):
    """Not in the log of the task, the server's config, its pages, its database or its own log."""
    caplog.set_level("DEBUG")
    secret = "hush-hush-and-never-tell"
    task = Job(name, str(tmp_path))
    task.key = secret
    task.run()
    assert (tmp_path / "key").read_text() == f"{secret}\n"
    paths = (
        f"/api/v2/jobs/admin~{name}",
        f"/api/v2/jobs/admin~{name}/config",
        "/",
        f"/job-detail.html?username=admin&jobName={name}",
    )
    shown = [ask(any_cluster, path).text for path in paths]
    assert all(name in text for text in shown)
    assert not [text for text in [caplog.text, *shown] if secret in text]


def test_a_failed_protocol_says_why(name, tmp_path):
    task = Job(name, str(tmp_path / "missing"))
    with pytest.raises(PaiJobFailed, match=r"words: No such file or directory"):
        task.run()
    assert not task.output().exists()
