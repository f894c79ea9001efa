from __future__ import annotations

import sys
from pathlib import Path

# What writes the logs that we read lies in a role, where no import path leads.
sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "roles/training_run/files"))


def pytest_configure() -> None:
    """Let Ansible find the collection before Python does, or tests of plugins cannot import it."""
    from ansible.plugins.loader import init_plugin_loader
    from ansible.utils.collection_loader import AnsibleCollectionConfig

    if AnsibleCollectionConfig.collection_finder is None:
        init_plugin_loader([str(Path(__file__).parents[3] / "collections")])
