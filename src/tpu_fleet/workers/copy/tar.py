"""Archives between this computer and workers: sent as a stream, checked when read."""

from __future__ import annotations

import os
import shutil
import stat
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

COMPLETE = ".tpu-fleet-complete"
"""The last member; tar does not notice if an archive ends between two members."""
CHUNK = 1 << 16


class CopyError(ValueError):
    """Something cannot be copied; the message says what and why."""


# Up


@dataclass(frozen=True)
class Piece:
    """A part of an archive: bytes, or the content of a file."""

    data: bytes = b""
    path: Path | None = None
    size: int = 0
    changed_at: int = 0


def pieces_of(sources: Sequence[Path]) -> list[Piece]:
    """Plan an archive of files and folders that can be sent to many workers at the same time."""
    names = [source.resolve().name for source in sources]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise CopyError(f"two of them are called {', '.join(twice)}: copy one after the other")
    if COMPLETE in names:
        raise CopyError(f"{COMPLETE} is a name that tpu-fleet uses itself")
    pieces: list[Piece] = []
    for source, name in zip(sources, names, strict=True):
        if not name:
            raise CopyError(f"{source} has no file name to use there")
        # A path given by the user may be a link and is followed; within folders links stay links.
        _add(pieces, source.resolve(), name)
    pieces.append(Piece(_header(tarfile.TarInfo(COMPLETE))))
    pieces.append(Piece(bytes(2 * tarfile.BLOCKSIZE)))
    return pieces


def _add(pieces: list[Piece], path: Path, name: str) -> None:
    try:
        seen = path.lstat()
    except OSError as error:
        raise CopyError(f"{path}: {error.strerror}") from error
    if "\n" in name:
        raise CopyError(f"{name!r} has a line break in its name")
    info = tarfile.TarInfo(name)
    info.mode = stat.S_IMODE(seen.st_mode)
    info.mtime = int(seen.st_mtime)
    if stat.S_ISDIR(seen.st_mode):
        info.type = tarfile.DIRTYPE
        pieces.append(Piece(_header(info)))
        for child in sorted(path.iterdir()):
            _add(pieces, child, f"{name}/{child.name}")
    elif stat.S_ISLNK(seen.st_mode):
        info.type, info.linkname = tarfile.SYMTYPE, str(path.readlink())
        pieces.append(Piece(_header(info)))
    elif stat.S_ISREG(seen.st_mode):
        if not os.access(path, os.R_OK):
            raise CopyError(f"{path}: no permission to read it")
        info.size = seen.st_size
        pieces.append(Piece(_header(info)))
        pieces.append(Piece(path=path, size=seen.st_size, changed_at=seen.st_mtime_ns))
        padding = -seen.st_size % tarfile.BLOCKSIZE
        if padding:
            pieces.append(Piece(bytes(padding)))
    else:
        raise CopyError(f"{path} is neither file nor folder nor link")


def _header(info: tarfile.TarInfo) -> bytes:
    return info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")


def chunks_of(pieces: Sequence[Piece]) -> Iterator[bytes]:
    """Yield the archive; raise if a file changes meanwhile."""
    gathered = bytearray()
    for piece in pieces:
        if piece.path is None:
            gathered += piece.data
        else:
            yield from _content(piece, gathered)
        if len(gathered) >= CHUNK:
            yield bytes(gathered)
            gathered.clear()
    yield bytes(gathered)


def _content(piece: Piece, gathered: bytearray) -> Iterator[bytes]:
    assert piece.path is not None  # noqa: S101
    left = piece.size
    with piece.path.open("rb") as stream:
        while left:
            data = stream.read(min(CHUNK, left))
            if not data:
                break
            left -= len(data)
            gathered += data
            if len(gathered) >= CHUNK:
                yield bytes(gathered)
                gathered.clear()
        if left or os.fstat(stream.fileno()).st_mtime_ns != piece.changed_at:
            raise CopyError(f"{piece.path} changed while it was copied")


# Everything goes to a folder beside its target, is completed there, and then renamed: none sees
# a partial file. An existing folder keeps its other files; each of its files is replaced as
# a whole. $1: target, $2: names, one a line.
UNPACK = r"""
set -eu
umask 022
to=$1 names=$2
case $to in "~") to=$HOME ;; "~/"*) to=$HOME/${to#"~/"} ;; "") to=. ;; esac
if [ -d "$to" ]; then into=$to as=
else case $to in
  */) echo "there is no folder $to" >&2; exit 1 ;;
  */*) into=${to%/*} as=${to##*/} ;;
  *) into=. as=$to ;;
  esac
  [ -n "$into" ] || into=/
  [ -d "$into" ] || { echo "there is no folder $into" >&2; exit 1; }
  [ "$(printf '%s\n' "$names" | wc -l)" = 1 ] || { echo "there is no folder $to" >&2; exit 1; }
fi
half=$(mktemp -d "$into/.tpu-fleet-half.XXXXXXXX")
trap 'chmod -R u+rwX "$half"; rm -rf "$half"' EXIT
trap 'exit 143' HUP INT TERM
tar -x -p --no-same-owner -f - -C "$half"
[ -e "$half/.tpu-fleet-complete" ] || { echo "the archive ended in the middle" >&2; exit 1; }
printf '%s\n' "$names" | while IFS= read -r name; do
  place=$into/${as:-$name}
  if [ -d "$half/$name" ] && [ ! -L "$half/$name" ] && [ -d "$place" ]; then
    (cd "$half/$name" && find . -type d) | while IFS= read -r folder; do
      from=$half/$name/$folder in=$place/$folder
      mode=$(stat -c %a "$from")
      [ -d "$in" ] || mkdir "$in"
      chmod u+rwx "$from" "$in"
      find "$from" -mindepth 1 -maxdepth 1 ! -type d -exec mv -f -t "$in" -- {} +
      chmod "$mode" "$in"
    done
  elif [ -d "$place" ]; then echo "$place is a folder" >&2; exit 1
  elif [ -d "$half/$name" ] && [ ! -L "$half/$name" ]; then
    mode=$(stat -c %a "$half/$name")
    chmod u+rwx "$half/$name"
    mv -T -- "$half/$name" "$place"
    chmod "$mode" "$place"
  else mv -f -T -- "$half/$name" "$place"
  fi
done
"""

# $1: path. Its name in the archive is its last part, whatever precedes it.
PACK = r"""
set -eu
what=$1
case $what in "~") what=$HOME ;; "~/"*) what=$HOME/${what#"~/"} ;; esac
[ -e "$what" ] || [ -L "$what" ] || { echo "there is no $what" >&2; exit 3; }
what=$(realpath -- "$what")
exec tar -c -f - -C "$(dirname -- "$what")" -- "$(basename -- "$what")"
"""


# Down


def unpack(archive: IO[bytes], folder: Path) -> list[str]:
    """Unpack a worker's archive into a new folder; return what was left out, and why.

    A worker may be compromised. Only files, folders and links are unpacked, nothing outside the
    folder, and links last, so nothing is written through one.
    """
    left_out: list[str] = []
    links: list[tarfile.TarInfo] = []
    folders: list[tuple[Path, tarfile.TarInfo]] = []
    with tarfile.open(fileobj=archive, mode="r:") as tar:
        for member in tar:
            path = _inside(folder, member.name)
            if path is None:
                left_out.append(f"{member.name!r}: its name leads outside")
            elif member.isdir():
                _make_folder(folder, path)
                folders.append((path, member))
            elif member.issym():
                links.append(member)
            elif member.islnk():
                _copy_twin(folder, path, member, left_out)
            elif member.isreg():
                content = tar.extractfile(member)
                assert content is not None  # noqa: S101
                _write(folder, path, content, member)
            else:
                left_out.append(f"{member.name!r}: neither file nor folder nor link")
    for member in links:
        _link(folder, member, left_out)
    # Last and bottom-up, because a folder may be read-only.
    for path, member in reversed(folders):
        path.chmod(member.mode & 0o777)
        os.utime(path, (member.mtime, member.mtime))
    return left_out


def _inside(folder: Path, name: str) -> Path | None:
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if name.startswith("/") or ".." in parts or "\0" in name or not parts:
        return None
    return folder.joinpath(*parts)


def _make_folder(top: Path, path: Path) -> None:
    """Create a folder and its parents. There are no links yet, so no path leads elsewhere."""
    for part in reversed([path, *path.parents]):
        if part.is_relative_to(top) and not part.is_dir():
            part.unlink(missing_ok=True)
            part.mkdir(mode=0o700)


def _write(top: Path, path: Path, content: IO[bytes], member: tarfile.TarInfo) -> None:
    _make_folder(top, path.parent)
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    with open(path, "xb") as stream:
        shutil.copyfileobj(content, stream)
        # Only the bits of rwx.
        os.fchmod(stream.fileno(), member.mode & 0o777)
    os.utime(path, (member.mtime, member.mtime))


def _copy_twin(top: Path, path: Path, member: tarfile.TarInfo, left_out: list[str]) -> None:
    """Copy an earlier file of the archive, which is how tar represents a hard link."""
    twin = _inside(top, member.linkname)
    if twin is None or not twin.is_file():
        left_out.append(f"{member.name!r}: {member.linkname!r} is not in the archive")
        return
    with twin.open("rb") as content:
        _write(top, path, content, member)


def _link(top: Path, member: tarfile.TarInfo, left_out: list[str]) -> None:
    path = _inside(top, member.name)
    assert path is not None  # noqa: S101
    above = path.relative_to(top).parents
    # The folders above it are real, so `..` at its start leads where it seems to. After another
    # link it may not.
    parts = [part for part in member.linkname.split("/") if part not in ("", ".")]
    up = next((at for at, part in enumerate(parts) if part != ".."), len(parts))
    if member.linkname.startswith("/") or up >= len(above) or ".." in parts[up:]:
        left_out.append(f"{member.name!r}: a link to {member.linkname!r}, which is outside")
        return
    if any((top / folder).is_symlink() for folder in above):
        left_out.append(f"{member.name!r}: behind a link")
        return
    if path.is_dir() and not path.is_symlink():
        left_out.append(f"{member.name!r}: link and folder at once")
        return
    _make_folder(top, path.parent)
    path.unlink(missing_ok=True)
    path.symlink_to(member.linkname)


def bring_in(half: Path, place: Path) -> None:
    """Move all files of a folder to their target; existing folders keep their other files."""
    for entry in sorted(half.iterdir()):
        target = place / entry.name
        if entry.is_dir() and not entry.is_symlink():
            if target.is_dir() and not target.is_symlink():
                mode = stat.S_IMODE(entry.stat().st_mode)
                entry.chmod(0o700)
                bring_in(entry, target)
                target.chmod(mode)
                continue
            target.unlink(missing_ok=True)
        elif target.is_dir() and not target.is_symlink():
            raise CopyError(f"{target} is a folder")
        entry.rename(target)


def make_half(place: Path) -> Path:
    """Create a folder for incomplete files, on the same disk as the target."""
    place.mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(prefix=".tpu-fleet-half.", dir=place))
