"""File systems of folders."""

from __future__ import annotations

from pathlib import Path

import pytest
from run_agent.act import (
    folder_facts,
)


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/home/alice/ck", "ext4"),
        ("/mnt/share/ck", "nfs4"),
        ("/mnt/share-of-mine/ck", "ext4"),
        ("/mnt/my disk/ck", "xfs"),
        ("/mnt/twice", "fuse.gcsfuse"),
    ],
)
def test_on_what_a_folder_lies(tmp_path: Path, folder: str, kind: str) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        "1 0 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n"
        "2 1 0:40 / /mnt/share rw - nfs4 server:/share rw\n"
        "3 1 8:2 / /mnt/my\\040disk rw - xfs /dev/sdb rw\n"
        "4 1 8:3 / /mnt/twice rw - ext4 /dev/sdc rw\n"
        "5 4 0:41 / /mnt/twice rw - fuse.gcsfuse bucket rw\n"
    )
    assert folder_facts.kind_of(Path(folder), mounts) == kind


MOUNTS = """
21 1 8:1 / / rw - overlay overlay rw
31 21 8:16 / /mnt/data rw - ext4 /dev/sdb rw
32 21 0:50 / /mnt/bucket rw - fuse.gcsfuse lab rw
33 21 0:51 / /mnt/share rw - nfs4 10.0.0.9:/lab rw
"""


@pytest.mark.parametrize(
    ("folder", "place"),
    [
        ("/home/alice/ck", "own disk"),
        ("/mnt/data/ck", "data disk"),
        ("/mnt/bucket/ck", "bucket"),
        ("/mnt/share", "NFS share"),
        ("/mnt/database", "own disk"),
    ],
)
def test_on_what_a_checkpoint_folder_is(folder: str, place: str, tmp_path: Path) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS.lstrip())
    assert folder_facts.place_of(Path(folder), mounts) == place
