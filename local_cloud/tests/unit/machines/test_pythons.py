"""Which Python of this computer machines get."""

from __future__ import annotations

from pathlib import Path

import pytest

from tpu_local_cloud.machines import pythons


def build(folder: Path, version: str) -> None:
    program = folder / "bin/python3.12"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho {version}\n")
    program.chmod(0o755)


def test_the_newest_that_runs(tmp_path: Path) -> None:
    assert pythons.own_build(tmp_path, {}) is None
    build(tmp_path / ".pyenv/versions/3.12.9", "3.12.9")
    build(tmp_path / ".pyenv/versions/3.13.0", "3.13.0")
    (tmp_path / ".pyenv/versions/3.12.99/bin").mkdir(parents=True)
    found = pythons.own_build(tmp_path, {})
    assert found
    assert found.version == "3.12.9"
    folder = tmp_path / "elsewhere/cpython-3.12.11-linux-x86_64-gnu"
    build(folder, "3.12.11")
    found = pythons.own_build(tmp_path, {"UV_PYTHON_INSTALL_DIR": str(tmp_path / "elsewhere")})
    assert found == pythons.Build(folder, "3.12.11")


def test_what_is_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build(tmp_path / "own", "3.12.9")
    own, root = tmp_path / "own", tmp_path / "root"
    for name in ("lib/python3.12/os.py", "lib/python3.12/test/x.py", "include/python3.12/P.h"):
        (own / name).parent.mkdir(parents=True, exist_ok=True)
        (own / name).touch()
    (own / "lib/libpython3.12.so.1.0").touch()
    (root / "usr/local/sbin").mkdir(parents=True)
    called: list[list[str]] = []
    do = pythons.run

    def without_ldconfig(argv: list[str]) -> object:
        called.append(argv)
        return do(argv) if argv[0] == "install" else None

    monkeypatch.setattr(pythons, "run", without_ldconfig)
    pythons.Build(own, "3.12.9").put_in(root)
    copied = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}
    assert copied == {
        "usr/local/sbin/python3.12",
        "usr/local/lib/python3.12/os.py",
        "usr/local/include/python3.12/P.h",
        "usr/local/lib/libpython3.12.so.1.0",
    }
    assert called[-1] == ["ldconfig", "-r", str(root)]
