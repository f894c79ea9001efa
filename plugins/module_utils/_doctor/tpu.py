# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of the TPU of a machine: chips, holders, lock file. No I/O.

Runs on Python 3.8.
"""

from __future__ import annotations

from typing import Iterator, Tuple

from .._host.run_states import ENDED_OR_STOPPED
from .check import FAIL, WARN, WORKER, Case, Check, Facts, Hit, fine, hit, skipped


def is_free(facts: Facts) -> bool:
    """Return whether no process uses the chips, and no run is about to."""
    waiting = any(run["state"] not in ENDED_OR_STOPPED for run in facts.get("runs", []))
    return not facts["holders"] and not waiting


def _chips(facts: Facts) -> Iterator[Hit]:
    chips, host = facts["chips"], facts["host"]
    wanted = facts["expected"]["chips"]
    if not chips["pci"]:
        if wanted and not host["container"]:
            yield hit("none", wanted=wanted)
        else:
            yield skipped("there is no TPU on the PCI bus" + _of(host["container"]))
        return
    if wanted and chips["pci"] != wanted:
        yield hit("missing", wanted=wanted, found=chips["pci"])
    if not chips["devices"]:
        yield hit("no_driver", found=chips["pci"], generation=chips["generation"])
    elif not wanted or chips["pci"] == wanted:
        yield fine(f"{chips['pci']} chips of {chips['generation']} on the PCI bus")


def _of(container: str) -> str:
    return f" (no TPU VM, but {container})" if container else ""


def _framework(facts: Facts) -> Iterator[Hit]:
    chips = facts["chips"]["pci"]
    if not chips:
        yield skipped("there is no TPU on the PCI bus")
        return
    looks = facts["framework_looks"]
    if not looks:
        why = (
            "a program uses the chips, or a run is about to"
            if not is_free(facts)
            else ("no venv with a framework is known here")
        )
        yield skipped(why)
    for look in looks:
        about = {"subject": look["venv"], "venv": look["venv"], "framework": look["framework"]}
        if look["timeout"]:
            yield hit("slow", seconds=look["timeout"], **about)
        elif look["error"]:
            yield hit("refused", error=look["error"], **about)
        elif look["chips"] != chips:
            yield hit("fewer", seen=look["chips"], chips=chips, **about)
        else:
            yield fine(f"{look['framework']} sees {chips} chips", subject=look["venv"])


def _holders(facts: Facts) -> Iterator[Hit]:
    if not facts["chips"]["devices"]:
        yield skipped("there is no chip device (/dev/accel*, /dev/vfio/*)")
        return
    for holder in facts["holders"]:
        subject = f"process {holder['pid']}"
        who = f"process {holder['pid']} of {holder['user']} ({holder['command']})"
        if holder["run"]:
            yield fine(f"held by run {holder['run']}: {who}", subject=subject)
            continue
        where = f" in tmux session {holder['tmux']}" if holder["tmux"] else ""
        devices = holder["devices"]
        yield hit("other", subject=subject, who=who, where=where, devices=devices, **_names(holder))
    if not facts["holders"]:
        yield fine("no process uses the chips")


def _names(holder: Facts) -> Facts:
    return {"user": holder["user"], "pid": holder["pid"]}


def _lock_file(facts: Facts) -> Iterator[Hit]:
    lock = facts["lock_file"]
    if not lock:
        yield fine("there is none")
    elif facts["holders"]:
        yield fine("its chips are in use")
    elif lock["mode"] & 0o002 and not lock["sticky"]:
        yield hit("stale", path=lock["path"], owner=lock["owner"])
    else:
        yield hit("others", path=lock["path"], owner=lock["owner"])


def _preload(facts: Facts) -> Iterator[Hit]:
    for found in facts["preload"]:
        case = "missing" if found["missing"] else "tcmalloc"
        blanks = {"where": found["where"], "value": found["value"], "host": facts["host"]["name"]}
        yield hit(case, subject=found["where"], **blanks)


def _huge_pages(facts: Facts) -> Iterator[Hit]:
    pages = facts["huge_pages"]
    if not pages["wanted"] or facts["host"]["container"]:
        yield skipped("no chip here benefits from them")
    elif pages["now"] != "always":
        yield hit("off", now=pages["now"] or "unknown", host=facts["host"]["name"])
    else:
        yield fine("always")


CHECKS: Tuple[Check, ...] = (
    Check(
        "chips",
        WORKER,
        "the chips on the PCI bus, and whether a driver provides their devices",
        _chips,
        {
            "none": Case(
                FAIL,
                "there is no chip on the PCI bus; there should be {wanted}",
                "The machine is broken: delete the slice and create it again.",
            ),
            "missing": Case(
                FAIL,
                "{found} of {wanted} chips are on the PCI bus",
                "The machine is broken: delete the slice and create it again.",
            ),
            "no_driver": Case(
                FAIL,
                "{found} chips of {generation}, and neither /dev/accel* nor /dev/vfio/*: no driver",
                "The runtime version is for another generation: recreate the slice with its own.",
            ),
        },
        ("chips",),
    ),
    Check(
        "chips_seen",
        WORKER,
        "how many chips the frameworks see; checked only while no process uses them",
        _framework,
        {
            "fewer": Case(
                FAIL,
                "{framework} in venv {venv} sees {seen} of {chips} chips",
                "Check the variables (env | grep -E 'TPU|JAX|PJRT'); install libtpu in the venv.",
            ),
            "refused": Case(
                FAIL,
                "{framework} in venv {venv} gets no chip: {error}",
                "Install the framework with its libtpu: declare it as the venv's framework.",
            ),
            "slow": Case(
                WARN,
                "{framework} in venv {venv} has not answered within {seconds} s",
                "Allow more time: tpu-fleet doctor --timeout 90",
            ),
        },
        ("chips", "holders", "framework_looks", "runs"),
    ),
    Check(
        "holders",
        WORKER,
        "processes that have a chip open: user, command, tmux session",
        _holders,
        {
            "other": Case(
                WARN,
                "{devices} is held by {who}{where}",
                "Ask {user}; with their consent: sudo kill {pid}",
            )
        },
        ("chips", "holders"),
    ),
    Check(
        "lock_file",
        WORKER,
        "libtpu's lock file, when a dead program left it behind",
        _lock_file,
        {
            "stale": Case(
                WARN,
                "{path} of {owner} exists although no process uses the chips",
                "Run on the machine: sudo rm -f {path}",
                fix="removes it, if no process holds a chip",
            ),
            "others": Case(
                FAIL,
                "{path} belongs to {owner} although no process uses the chips: others get "
                "'libtpu.so already in use'",
                "Run on the machine: sudo rm -f {path}",
                fix="removes it, if no process holds a chip",
            ),
        },
        ("holders", "lock_file"),
    ),
    Check(
        "ld_preload",
        WORKER,
        "LD_PRELOAD for all users, such as the tcmalloc of TPU images",
        _preload,
        {
            "tcmalloc": Case(
                WARN,
                "{where} preloads {value} into every program, which breaks some",
                "Run: tpu-fleet apply --only base --limit {host}",
            ),
            "missing": Case(
                FAIL,
                "{where} preloads {value}, which does not exist",
                "Run: tpu-fleet apply --only base --limit {host}",
            ),
        },
        ("preload",),
    ),
    Check(
        "huge_pages",
        WORKER,
        "transparent huge pages, on v5e and later",
        _huge_pages,
        {
            "off": Case(
                WARN,
                "transparent huge pages are {now}: programs take twice as long to start",
                "Run: tpu-fleet apply --only base --limit {host}",
            )
        },
        ("huge_pages",),
    ),
)
