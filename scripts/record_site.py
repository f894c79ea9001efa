#!/usr/bin/env python3
"""Write docs/site-output.md: what site.yml prints, from real runs on the local cloud.

    .venv/bin/python scripts/record_site.py

It makes a local cloud of its own for the demo's fleet file, and removes it again. Takes about five
minutes. Seconds and times differ from run to run; everything else is what a user sees.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / ".work" / "record"
PAGE = ROOT / "docs" / "site-output.md"
PORT = "8499"
HEAD = """\
# What site.yml prints

Written by `scripts/record_site.py` from real runs of the demo's fleet file on the local cloud: a
slice `solo` with one worker and a slice `pair` with two. Each machine applies the roles to itself
and says what it changes; [apply.md](apply.md) explains how.
"""
PEOPLE = [{"name": "alice", "uid": 2001}, {"name": "bob", "uid": 2002}]
THEME = json.dumps({"user_shell_theme": "agnoster"})
CAROL = json.dumps({"user_accounts_users": [*PEOPLE, {"name": "carol", "uid": 2003}]})
TAKEN = "sudo useradd -u 2003 mallory"
# Title, words about it, what is done on pair-w1 before, and the words of the command.
RUNS = (
    ("The first time", "All roles on all machines.", "", ()),
    ("Nothing to do", "The same command again.", "", ()),
    (
        "One changed value",
        "Only the role that the value belongs to is applied.",
        "",
        ("-e", THEME),
    ),
    (
        "In check mode",
        "What would be changed, with `--diff`.",
        "",
        ("--check", "--diff", "-e", CAROL),
    ),
    (
        "One worker fails",
        "Somebody made an account by hand on pair-w1, with the number that the fleet file gives to "
        "carol. The other machines are set up all the same.",
        TAKEN,
        ("-e", CAROL),
    ),
    (
        "One slice only",
        "Plays of the controller are left out by `--limit`.",
        "sudo userdel mallory",
        ("-e", CAROL, "--limit", "tpu_slice_pair"),
    ),
)


def main() -> None:
    """Record all runs."""
    shutil.rmtree(WORK, ignore_errors=True)
    shutil.copytree(ROOT / "inventory", WORK / "inventory")
    (WORK / "examples").symlink_to(ROOT / "examples")
    where = WORK / "inventory" / "fleet.tpu.yml"
    where.write_text(where.read_text().replace(":8470/", f":{PORT}/"))
    env = {
        **os.environ,
        "PATH": f"{ROOT / '.venv/bin'}{os.pathsep}{os.environ['PATH']}",
        "ANSIBLE_INVENTORY": str(WORK / "inventory"),
        "ANSIBLE_NOCOLOR": "true",
        "COLUMNS": "80",
        "TPU_FLEET_CLOUD_DIR": str(WORK / "cloud"),
        "TPU_FLEET_STATE_DIR": str(WORK / "state"),
        "TPU_FLEET_SSH_KEY": str(WORK / "state" / "key"),
    }

    def run(*argv: str) -> str:
        done = subprocess.run(
            argv, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        return done.stdout

    run("tpu-fleet", "cloud", "up", "--hosts", "container", "--install", "--port", PORT)
    try:
        run("tpu-fleet", "cloud", "delays", "all=0.5")
        parts = [HEAD]
        for title, about, before, words in RUNS:
            if before:
                run("ssh", "-F", str(WORK / "state" / "ssh_config"), "pair-w1", before)
            said = run("ansible-playbook", "site.yml", *words)
            shown = " ".join(f"'{word}'" if word[0] == "{" else word for word in words)
            command = f"$ ansible-playbook site.yml {shown}".rstrip()
            parts.append(f"## {title}\n\n{about}\n\n```\n{command}\n{plain(said)}\n```\n")
    finally:
        run("tpu-fleet", "cloud", "down", "--keep-image")
    PAGE.write_text("\n".join(parts))


def plain(said: str) -> str:
    """Return the output without the paths of this computer."""
    text = re.sub(r" \*{3,}$", "", said, flags=re.MULTILINE)
    return (
        text.replace(str(WORK / "state"), "~/.local/state/tpu-fleet")
        .replace(f"{ROOT}/", "")
        .strip()
    )


if __name__ == "__main__":
    main()
