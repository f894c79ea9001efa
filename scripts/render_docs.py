#!/usr/bin/env python3
"""Write the files that are made from the code; with --check only say which are outdated.

They are pages of docs/, the READMEs of the roles, and what the command tpu-fleet reads and hands
out.

scripts/render_docs.py [--check] [--dir DIR]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from ansible_collections.tpu.fleet.plugins.plugin_utils._roles.specs import ROLES, role_names
from pages import (
    DOCS,
    PROGRAM,
    command_line,
    commands,
    doctor,
    errors,
    fleet_file,
    gcloud,
    json_forms,
    local_cloud,
    pictures,
    playbooks,
    python,
    role_readmes,
    schema,
    top,
    why,
)

PAGES: dict[str, Callable[[], str]] = {
    "commands.md": commands.page,
    "doctor.md": doctor.page,
    "errors.md": errors.page,
    "fleet-file.md": fleet_file.page,
    "internals/gcloud.md": gcloud.page,
    "local-cloud.md": local_cloud.page,
    "playbooks.md": playbooks.page,
    "python.md": python.page,
    "pictures/how-attempts.svg": pictures.attempts,
    "pictures/how-disk.svg": pictures.disk,
    "pictures/how-grant.svg": pictures.grant,
    "pictures/how-system.svg": pictures.system,
    "pictures/top.svg": top.page,
    "why.md": why.page,
}
OF_PROGRAM: dict[str, Callable[[], str]] = {
    "command_line.json": command_line.page,
    "fleet.schema.json": schema.page,
    **json_forms.PAGES,
}
OF_ROLES: dict[str, Callable[[], str]] = {
    f"{role}/README.md": partial(role_readmes.page, role) for role in role_names()
}


def main(argv: list[str]) -> int:
    """Write or check all pages."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--dir", type=Path, help="write all of them here")
    options = parser.parse_args(argv)
    outdated = []
    for name, render in {**PAGES, **OF_PROGRAM, **OF_ROLES}.items():
        of_roles = ROLES if name in OF_ROLES else DOCS
        folder = options.dir or (PROGRAM if name in OF_PROGRAM else of_roles)
        page = folder / name
        text = render()
        if not page.exists() or page.read_text() != text:
            outdated.append(page)
            if not options.check:
                page.parent.mkdir(exist_ok=True)
                page.write_text(text)
    for page in outdated:
        print(f"{page} is outdated; run: make docs" if options.check else f"wrote {page}")
    return 1 if options.check and outdated else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
