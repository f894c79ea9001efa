"""The file of stopped runs, which anything may have spoilt."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.tpu.fleet.plugins.plugin_utils._fleet.stops import FILE, read_stops

ROOT = Path(__file__).resolve().parents[5]


@pytest.mark.parametrize(
    ("text", "stops"),
    [
        (None, {}),
        ("", {}),
        ("[]", {}),
        ('{"pair": 1}', {}),
        ('{"pair": {"digits": 7, "words": "eve@x"}}', {"pair": {"words": "eve@x"}}),
    ],
)
def test_what_is_no_stop_is_left_out(
    tmp_path: Path, text: str | None, stops: dict[str, dict[str, str]]
) -> None:
    if text is not None:
        (tmp_path / FILE).write_text(text)
    assert read_stops(tmp_path) == stops


def test_the_playbooks_read_this_file() -> None:
    assert f"fleet_state_dir ~ '/{FILE}'" in (ROOT / "playbooks/vars/apply.yml").read_text()
