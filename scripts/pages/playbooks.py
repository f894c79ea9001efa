"""docs/playbooks.md: the playbooks, from the comments at their beginning, and their variables."""

from __future__ import annotations

import re

from ansible_collections.tpu.fleet.plugins.module_utils._schema.keys import PLAYBOOK_VARIABLES

from . import ROOT
from .fleet_file import code, table

PART = "A part of"
HEAD = """\
# Playbooks and their variables

`ansible-playbook tpu.fleet.NAME` runs a playbook of the collection; `site.yml` of a checkout is
`tpu.fleet.site`. All take `--check`, `--diff`, `--limit` and `-v`. They are for pipelines and for
people who work with Ansible; [commands.md](commands.md) has the commands of `tpu-fleet`.
"""
OF_ONE_PLAYBOOK = {
    "teardown": ("teardown", "The slices to delete, separated by commas, or `all`."),
    "finish": ("finish", "The slice to [stop or delete](after-the-end.md) after its runs."),
    "bad_chips": ("bad_chips", "The slice to [recreate](gang.md#chips-that-do-not-initialise)."),
    "bad_chips_node": ("bad_chips", "The `uid` of its node; a later one is left alone."),
    "run": ("collect", "The run whose files are [fetched](runs.md#what-it-left); `a,b` are two."),
    "collect_to": ("collect", "Folder on this computer; default `fleet_results_dir`."),
    "doctor_fix": ("doctor", "Whether to make the [safe repairs](doctor.md)."),
    "doctor_fail_on": (
        "doctor",
        "From which status the playbook fails: `fail`, `warn` or `never`.",
    ),
    "metrics_targets_file": ("metrics_targets", "The [file for Prometheus](metrics.md)."),
    "fleet_run": ("drill", "The run, and `fleet_drill_…`: [drill.md](drill.md) has all of them."),
    "fleet_github_token": (
        "git_keys",
        "The token, and `fleet_github_…`: [git-access.md](git-access.md) has all of them.",
    ),
}


def page() -> str:
    """Return the page of the playbooks."""
    about = {
        path.stem: about_of(path.read_text()) for path in sorted((ROOT / "playbooks").glob("*.yml"))
    }
    own = [f"`{name}` | {text}" for name, text in about.items() if PART not in text]
    parts = ", ".join(f"`{name}`" for name, text in about.items() if PART in text)
    variables = [
        f"`{name}` | {code(key.default)} | {key.description}"
        for name, key in PLAYBOOK_VARIABLES.items()
    ]
    of_one = [
        f"`{name}` | `{playbook}` | {meaning}"
        for name, (playbook, meaning) in OF_ONE_PLAYBOOK.items()
    ]
    sections = [
        *(HEAD.rstrip(), table(own, "playbook | what it does")),
        f"Parts of these, of no use alone: {parts}.",
        "## Variables",
        "Set them in the fleet file, or for one run with `-e` on the command line.",
        table(variables, "variable | default | meaning"),
        "Further variables belong to one playbook each:",
        table(of_one, "variable | playbook | meaning"),
    ]
    return "\n\n".join(sections) + "\n"


def about_of(playbook: str) -> str:
    """Return the first sentence of the comment at the beginning, and whose part it is."""
    lines = re.match(r"---\n((?:# .*\n)+)", playbook)
    text = " ".join(line[2:] for line in lines[1].splitlines()) if lines else ""
    sentences = re.split(r"(?<=\.)\s", text)
    return " ".join([sentences[0], *(s for s in sentences[1:] if s.startswith(PART))])
