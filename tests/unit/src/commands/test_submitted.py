"""Without a queue in the fleet file, nothing is asked for submitted runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tpu_fleet.commands import submitted


@pytest.fixture
def variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "group_vars" / "all").mkdir(parents=True)
    (tmp_path / "fleet.tpu.yml").write_text("plugin: tpu.fleet.tpu\n")
    monkeypatch.setenv("ANSIBLE_INVENTORY", str(tmp_path / "fleet.tpu.yml"))
    return tmp_path / "group_vars" / "all" / "fleet.yml"


def test_without_a_queue_the_others_get_all(variables: Path) -> None:
    variables.write_text("fleet_zone: us-central2-b\n")
    assert not submitted.mentions_queue()
    assert submitted.archive_of("a") == ""
    assert submitted.with_submitted("stop", ["a"], False, None, lambda names: len(names)) == 1


def test_a_file_that_names_one(variables: Path) -> None:
    variables.write_text("fleet_queue: {bucket: gs://lab/queue}\n")
    assert submitted.mentions_queue()
