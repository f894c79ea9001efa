"""The tools of role python_env in a folder of this computer, with caches of their own."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ansible_collections.tpu.fleet.plugins.module_utils._roles.python_env.build import Tools


def uv_tools(folder: Path, warn: Callable[[str], None], **params: Any) -> Tools:
    """Return tools that run the uv beside this Python; `params` are in the place of these."""
    uv = folder / "uv" / "here" / "bin" / "uv"
    if not uv.exists():
        uv.parent.mkdir(parents=True)
        uv.symlink_to(Path(sys.executable).with_name("uv"))
    given = {
        "uv_dir": str(folder / "uv"),
        "uv_version": "here",
        "cache_dir": str(folder / "cache"),
        "python_dir": str(folder / "pythons"),
        "python_source": "uv",
        "python_mirror": "",
        "python_list": "",
        "compile_bytecode": True,
        "index_url": "",
        "extra_index_urls": [],
        "index_credentials": [],
        "torch_index_url": "",
        "shared_cache_url": "",
        "ca_bundle": "",
        "environment": {},
        "secret_environment": {},
        "tries": 1,
    }
    return Tools({**given, **params}, warn)
