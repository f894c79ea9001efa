"""The unit tests lie as the code does: the test of a file is where its path says."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
UNIT = ROOT / "tests" / "unit"
MIRRORED = {
    UNIT / "plugins": ROOT / "plugins",
    UNIT / "src": ROOT / "src" / "tpu_fleet",
    UNIT / "playbooks": ROOT / "playbooks",
    UNIT / "roles/training_run/run_agent": ROOT / "roles/training_run/files/run_agent",
    UNIT / "roles/run_queue/queue_agent": ROOT / "roles/run_queue/files/queue_agent",
    UNIT / "roles/dataset/dataset_agent": ROOT / "roles/dataset/files/dataset_agent",
    ROOT / "local_cloud/tests/unit": ROOT / "local_cloud/src/tpu_local_cloud",
}
# Many host modules at once; the whole run agent, attacked by the run's user.
ABOUT_MANY = {
    UNIT / "plugins/modules/test_places_of_users.py",
    UNIT / "roles/training_run/run_agent/test_borders.py",
}


def mirroring(folder: Path) -> list[Path]:
    return sorted(set(folder.rglob("test_*.py")) - ABOUT_MANY)


def is_about(test: str, file: str) -> bool:
    """Whether a test's name is that of a file, with or without what it is about in that file."""
    return f"{test}_".startswith(f"test_{file}_")


@pytest.mark.parametrize("mirror", MIRRORED, ids=lambda mirror: str(mirror.relative_to(ROOT)))
def test_each_unit_test_is_where_its_file_is(mirror: Path) -> None:
    astray = []
    for test in mirroring(mirror):
        folder = MIRRORED[mirror] / test.parent.relative_to(mirror)
        if not any(is_about(test.stem, file.stem) for file in folder.glob("*.py")):
            astray.append(f"{test.relative_to(ROOT)}: about no file of {folder.relative_to(ROOT)}/")
    assert astray == []


def test_each_folder_of_role_tests_is_a_role() -> None:
    roles = {path.parent.parent.name for path in (ROOT / "roles").glob("*/tasks/main.yml")}
    folders = {path.name for path in (UNIT / "roles").iterdir() if path.is_dir()}
    assert {name for name in folders if name[0] != "_"} <= roles


@pytest.mark.parametrize(
    ("test", "file", "about"),
    [
        ("test_plan", "plan", True),
        ("test_plan_of_a_fleet", "plan", True),
        ("test_planner", "plan", False),
        ("test_plan", "plan_terms", False),
    ],
)
def test_which_file_a_test_is_about(test: str, file: str, about: bool) -> None:
    assert is_about(test, file) is about
