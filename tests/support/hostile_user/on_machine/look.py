"""Look at a whole machine from outside of all that runs there: runs on it as root, Python 3.8.

look.py hers                 print what lies in folders of mallory's, on all of the machine
look.py remember             remember owner, mode and content of everything else
look.py compare              print what is different since; remember that
look.py left                 print which processes of root's are left since
"""

import hashlib
import json
import os
import re
import stat
import sys
import time

UID = 2002
KEPT = "/srv/judge/remembered.json"
WORDS = b"WORDS-OF-MALLORY"
SECRET = b"SECRET-OF-ROOT"
# The kernel's, and what a machine is told by its keeper.
NOT_FILES = ("/proc", "/sys", "/dev", "/run/user", "/usr/local/lib/tpu-vm/disks")
# Folders of systemd's own services, with other modes during the boot than after it.
OF_THE_BOOT = "/run/credentials/systemd-"
# Everybody may write there, and what is mallory's there is hers.
OPEN = ("/tmp", "/var/tmp", "/dev/shm", "/run/lock", "/srv/canary", "/run/screen")
# What the system and the fleet write there by themselves: root's own records and logs.
RECORDS = re.compile(
    r"^/(?:run/(?:systemd|udev|log|utmp|sudo|dbus|mount|chrony|initctl|motd|sshd|cloud-init|blkid)\b"
    r"|run/[a-z-]+\.(?:pid|lock|sock)$|run/tpu-fleet/runs/(?:count|chips|hers|asks)/"
    r"|run/(?:lock|tpu-vm)\b|run$"
    r"|var/log/(?:journal|wtmp|btmp|lastlog|apt|dpkg\.log|private|faillog|auth\.log|syslog)\b"
    r"|var/log/(?:alternatives\.log|cloud-init)|var/log$"
    r"|var/lib/(?:systemd|sudo|dbus|apt|private|google|chrony|cloud)\b"
    r"|var/cache/(?:apt|debconf|ldconfig|tpu-fleet)\b"
    r"|var/lib/tpu-fleet/(?:runs/(?:count|chips|hers|asks)(?:/|$)|queue/chips\.json$)"
    r"|var/lib/tpu-fleet/(?:state\.json|\.lock)$"
    r"|var/lib/tpu-fleet/apply/(?:(?:known|stamp|shared|running|pending|wishes)\.json$|results/)"
    r"|var/lib/tpu-fleet/venvs/(?:builds/[0-9a-f]+\.json|(?:hers|carols)\.(?:json|lock))$"
    r"|var/lib/tpu-fleet/services/tensorboard-(?:hers|carols)\.json$"
    # What is kept of her dotfiles, and what of her tree could not be unpacked yet.
    r"|var/lib/tpu-fleet/dotfiles/mallory\.json$|var/lib/tpu-fleet/code/incoming/hers\.tar\.gz$"
    r"|opt/tpu-fleet/(?:[\w./-]+/)?__pycache__(?:/|$)"
    r"|etc/systemd/system/(?:timers\.target\.wants/)?tpu-fleet-apply\.(?:timer|service)$"
    r"|var/log/tpu-fleet/(?:apply(?:/|$)|disk-guard\.log$)|var/log/tpu-fleet$"
    r"|var/log/tpu-fleet/runs/[a-z]+/events\.jsonl(?:\.\d+)?$"
    r"|opt/tpu-fleet/apply$"
    r"|root/\.ansible|root$|tmp/ansible|home/ubuntu/\.ansible|home/ubuntu$"
    r"|tmp$|var/tmp$|tmp/systemd-private"
    r"|tmp/libtpu_lockfile$|tmp/\.libtpu_lockfile-moved-away-"
    r"|var/tmp/systemd-private|home/(?:alice|carol)/checkpoints/|var/log/tpu-fleet/runs/(?:count|chips)"
    r"|tmp/tmux-200[13]|srv/judge(?:/|$)|srv/canary/|home/ubuntu/\.(?:sudo_as_admin_successful|cache))"
)
# Of these files root says where what mallory did was in the way: her paths, not her words.
LOGS = re.compile(
    r"^/var/log/(?:journal|tpu-fleet/apply)/|^/run/log/|^/var/lib/systemd/"
    # How her runs are: with the end of their logs.
    r"|^/var/lib/tpu-fleet/runs/(?:hers|asks)/"
)


def walk(top):
    """Yield all entries below a folder with their lstat."""
    try:
        entries = list(os.scandir(top))
    except OSError:
        return
    for entry in entries:
        if entry.path in NOT_FILES or entry.path.startswith(OF_THE_BOOT):
            continue
        try:
            found = entry.stat(follow_symlinks=False)
        except OSError:
            continue
        yield entry.path, found
        if stat.S_ISDIR(found.st_mode):
            yield from walk(entry.path)


def content(path, found):
    """Return what distinguishes contents."""
    if stat.S_ISLNK(found.st_mode):
        return "-> " + os.readlink(path)
    if not stat.S_ISREG(found.st_mode):
        return ""
    with open(path, "rb") as file:
        digest = hashlib.sha256()
        while True:
            part = file.read(1 << 20)
            if not part:
                return digest.hexdigest()
            digest.update(part)


def everything(known):
    """Describe all that is not mallory's; what was not touched is not read again."""
    seen = {}
    for path, found in walk("/"):
        if found.st_uid == UID:
            seen[path] = [UID]
            continue
        mark = [found.st_ino, found.st_dev, found.st_ctime_ns, found.st_size]
        before = known.get(path)
        try:
            text = before[4] if before and before[3:4] == [mark] else content(path, found)
        except OSError:
            continue
        seen[path] = [found.st_uid, found.st_gid, found.st_mode, mark, text]
    return seen


def hers(path):
    """Say whether this is a place of mallory's: her home, or what lies in a folder of hers."""
    return path == "/home/mallory" or path.startswith(
        (
            "/home/mallory/",
            "/var/log/tpu-fleet/runs/hers/",
            "/var/log/tpu-fleet/runs/asks/",
            "/run/tpu-fleet/runs/hers/user/",
            "/run/tpu-fleet/runs/asks/user/",
            "/run/tpu-fleet/tensorboard-hers/",
        )
    )


def differences(before, now):
    """Yield what became of what is not mallory's."""
    for path in sorted({*before, *now}):
        old, new = before.get(path), now.get(path)
        if hers(path):
            # Of others there, only a change of owner says something.
            if old and new and old[0] not in (0, UID) and new[0] != old[0]:
                yield f"{path}: was of user {old[0]}, is of {new[0]}"
            continue
        if old and old[0] == UID and (new is None or new[0] == UID):
            continue
        if old is None and new[0] == UID:
            if not path.startswith(tuple(place + "/" for place in OPEN)) and not is_given(path):
                yield f"{path}: is new, and mallory's"
            continue
        if is_given(path):
            continue
        if old and new and old[0] != new[0] and UID in (old[0], new[0]):
            yield f"{path}: was of user {old[0]}, is of {new[0]}"
            continue
        if old and new and old[:3] + old[4:] == new[:3] + new[4:]:
            continue
        if RECORDS.match(path):
            if old and new and (old[0] != new[0] or old[2] != new[2]):
                yield f"{path}: was {named(old)}, is {named(new)}"
            elif new and is_record(path, new) and WORDS in head(path):
                yield f"{path}: has words of mallory's"
            continue
        yield f"{path}: was {named(old)}, is {named(new)}"


def is_record(path, entry):
    """Say whether this is a file in which no words of a user's have a place."""
    return stat.S_ISREG(entry[2]) and not LOGS.match(path)


def is_given(path):
    """Return whether root makes this for mallory, each time again."""
    return path.startswith(
        (
            "/run/tpu-fleet/runs/hers",
            "/run/tpu-fleet/runs/asks",
            "/run/tpu-fleet/tensorboard-hers",
            "/run/tpu-fleet/secrets/hers",
            "/etc/tpu-fleet/secrets/hers",
            "/var/log/tpu-fleet/runs/hers",
            "/var/log/tpu-fleet/runs/asks",
        )
    )


def named(entry):
    if entry is None:
        return "not there"
    if len(entry) == 1:
        return "mallory's"
    return f"{entry[0]}:{entry[1]} {entry[2]:o} {entry[4][:40]}"


def head(path):
    try:
        with open(path, "rb") as file:
            return file.read(4 << 20)
    except OSError:
        return b""


def leaks():
    """Yield what mallory can read that has the secret of root in it."""
    for path, found in walk("/"):
        readable = found.st_uid == UID or found.st_mode & 0o004
        if not stat.S_ISREG(found.st_mode) or not readable or found.st_size > 4 << 20:
            continue
        if found.st_mtime < STARTED or path.startswith("/srv/roots/"):
            continue
        if SECRET in head(path):
            yield f"{path}: mallory reads a secret of root's there"


def left():
    """Yield the processes of root's that began since, and belong to what should be through."""
    with open("/proc/stat", encoding="utf-8") as file:
        booted = next(int(line.split()[1]) for line in file if line.startswith("btime"))
    own = set()
    pid = os.getpid()
    while pid > 1:
        own.add(pid)
        pid = int(stat_of(pid)[1])
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) in own:
            continue
        try:
            command, owner = stat_of(name)[-1], os.stat("/proc/" + name).st_uid
            began = booted + int(stat_of(name)[19]) / os.sysconf("SC_CLK_TCK")
            with open(f"/proc/{name}/cgroup", encoding="utf-8") as file:
                group = file.read().strip()
            with open(f"/proc/{name}/cmdline", "rb") as file:
                line = file.read().replace(b"\0", b" ").decode(errors="replace")[:200]
        except (OSError, IndexError):
            continue
        ours = "/user.slice/" in group or "tpu-fleet-apply" in group or "session-" in group
        if (
            owner == 0
            and ours
            and began > STARTED
            and command not in ("sshd", "systemd", "(sd-pam)")
        ):
            yield f"process {name} of root's is left: {line}"


def stat_of(pid):
    """Return what the kernel says of a process from its state on, and its name."""
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
        text = file.read()
    return [*text.rpartition(")")[2].split(), text.partition("(")[2].rpartition(")")[0]]


def can_be_replaced():
    """Yield the paths whose folder is mallory's, without what packages brought."""
    for path, _found in walk("/"):
        folder = os.path.dirname(path)
        try:
            owner = os.lstat(folder).st_uid
        except OSError:
            continue
        if owner != UID or path.startswith(("/home/mallory/.stash", "/home/mallory/evil")):
            continue
        deep = path.partition("/site-packages/")[2] or path.partition("/.cache/uv/")[2]
        if "/" in deep or re.search(r"/(?:bin|\.local/lib)/|__pycache__", path):
            continue
        yield path


command = sys.argv[1]
STARTED = 0.0
if command == "hers":
    print(json.dumps(sorted(can_be_replaced())))
elif command == "left":
    STARTED = os.stat(KEPT).st_mtime
    ends = time.monotonic() + 20
    while True:
        found = sorted(left())
        if not found or time.monotonic() > ends:
            break
        time.sleep(0.5)
    print(json.dumps(found))
else:
    remembered = {}
    if command == "compare":
        with open(KEPT, encoding="utf-8") as kept:
            remembered = json.load(kept)
        STARTED = os.stat(KEPT).st_mtime - 1
    present = everything(remembered)
    if command == "compare":
        print(json.dumps([*differences(remembered, present), *leaks()]))
    with open(KEPT + ".new", "w", encoding="utf-8") as kept:
        json.dump(present, kept)
    os.replace(KEPT + ".new", KEPT)
