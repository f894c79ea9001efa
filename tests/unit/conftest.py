from __future__ import annotations

from pathlib import Path


def pytest_configure() -> None:
    """Let Ansible find the collection before Python does, or tests of plugins cannot import it."""
    from ansible.plugins.loader import init_plugin_loader
    from ansible.utils.collection_loader import AnsibleCollectionConfig

    if AnsibleCollectionConfig.collection_finder is None:
        init_plugin_loader([str(Path(__file__).parents[2] / "collections")])
