#!/usr/bin/env python3
"""Run the stages of the test suite side by side; print what failed and what took the time.

    scripts/run_tests.py check          lint of Python and YAML, types, unit tests
    scripts/run_tests.py test           everything that CI runs
    scripts/run_tests.py test-all       the same, then in turn what is too long for CI
    scripts/run_tests.py STAGE ...      the named ones in turn

Each stage logs to .work/tests/<stage>.log. A stage that cannot run has failed: there are no skips.
A stage of `test` that failed beside others runs once more alone. If it passes then, the output
names it as unsteady, and its first log stays as <stage>.first.log: a race to look for.
For the stages that CI leaves out, tests/stages.json records at which commit each one passed last.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from cpu_meter import COUNTS, CpuMeter
from stage_record import StageRecord

ROOT = Path(__file__).resolve().parent.parent
LOGS = ROOT / ".work" / "tests"

# How ansible, molecule and pytest begin the line that says what went wrong.
FAILURE = re.compile(r"fatal:|UNREACHABLE!|\[ERROR\]|CRITICAL|^E  |^FAILED|^ERROR")
# What a stage says that is worth to be seen also when all is well: seeds, counts.
NOTE = "note: "
TELL_EVERY = 60.0
# So many stages that failed beside others run once more, alone. More have a common cause.
AGAIN = 3
# tests/support/warm_ansible.py has what this is about.
START_ANSIBLE = "TPU_FLEET_TESTS_START_ANSIBLE"
# How pytest prints what took long.
SLOW = re.compile(r"(?m)^(\d+[.]\d+)s (?:call|setup|teardown) +((?:local_cloud/)?tests/\S+)")


@dataclass(frozen=True)
class Stage:
    """One command of the suite."""

    name: str
    argv: tuple[str, ...]
    env: dict[str, str] = field(default_factory=dict)
    # How far its processes stand back, as nice(1) has it, while others want a core.
    nice: int = 0
    # Whether it only computes, without limits of time: it takes what the other stages leave.
    fills: bool = False
    # The files and folders that it tests, for the record of what CI leaves out.
    tests: tuple[str, ...] = ()


def pytest(*args: str) -> tuple[str, ...]:
    return ("pytest", "-q", "--durations=10", *args)


def in_ci(*args: str) -> tuple[str, ...]:
    """Return a command for those tests that are not too long: these have the mark `night`."""
    return pytest("-m", "not night", *args)


SANITY = ("scripts/ansible-test", "sanity")
# pylint and pep8 are half of its time; ruff and mypy see most of what they do. import is half of
# the rest: in CI compile reads all code under each Python, molecule's machines run it with theirs
# (3.10), and the unit tests with the controller's. The others are stages of their own here, with
# newer versions; each of them makes a venv first, and the others make one each where they need any.
# So do ansible-doc and runtime-metadata: in CI scripts/check-package has Ansible read the whole
# documentation, and tests/unit/test_collection.py has meta/runtime.yml.
NIGHT_SANITY = (
    *("pylint", "pep8", "import", "changelog", "yamllint", "ansible-doc", "runtime-metadata"),
)
STORIES = "tests/machines/stories"
DATASETS = f"{STORIES}/test_datasets.py"
WHY = ("tests/machines/why", "tests/cloud/run_agent/test_why_hangs.py")
RUNS = (f"{STORIES}/test_runs.py", f"{STORIES}/test_zombies.py")
SELF_SETUP = f"{STORIES}/test_self_setup.py"
HEALING = (
    *(
        f"{STORIES}/test_{name}.py"
        for name in ("after_the_end", "budget", "multislice", "starts", "watch_service")
    ),
    SELF_SETUP,
)
MISTAKES = tuple(
    f"{STORIES}/test_{name}.py" for name in ("mistakes_on_machines", "machine_faults", "doctor")
)
CAPACITY, TAKE_OVER = f"{STORIES}/test_capacity.py", f"{STORIES}/test_take_over.py"
CANARY = f"{STORIES}/test_canary.py"
PEOPLE = (
    CANARY,
    *(f"{STORIES}/test_{name}.py" for name in ("git_access", "data_disks", "onboarding")),
)
VERIFY_FAILS = "tests/machines/e2e/test_verify_fails.py"
APPLY = "tests/machines/e2e/test_4_apply.py"
MACHINES = ("local_cloud/tests/machines", "tests/machines/workers")
GCLOUD = "local_cloud/tests/gcloud"
# How far stages stand back that fill the cores while the others wait.
FILLS = 5
# How far those stand back that are done long before the longest one.
SHORTER = 3
CLOUD_TESTS = "tests/cloud"

# The scenarios of molecule for roles that other stages of CI apply to machines, and the longest.
# - tests/machines/e2e applies all roles, most of them without declarations, twice, once with each
#   role forced, in check mode and after a reboot, syncs a folder of code to all workers, and logs
#   in to the accounts; tests/cloud/apply has drift, check mode and secrets.
# - tests/machines/hostile_user declares each of these but ray_cluster and notebook_server, for a
#   person who replaces their files; its boards are those of tensorboard_server.
# - tests/unit/roles/dataset has the agent of dataset, as a slice of four on this computer.
# - tests/cloud/modules has code_checkout and python_env, tests/cloud/run_agent has training_run,
#   tests/unit/roles/test_definitions.py has the services of ray_cluster and notebook_server, which
#   the same code starts as those boards. JupyterLab is a hundred packages on each of two machines.
# - tests/cloud/queue_agent has the program of run_queue, tests/unit/roles/run_queue its files;
#   hostile_user has git_access, and tests/cloud/playbooks/test_git_keys.py the keys at GitHub.
NIGHT_SCENARIOS = tuple(
    f"--exclude={role}"
    for role in (
        *("code_checkout", "dataset", "env_secrets", "git_access", "host_base"),
        *("notebook_server", "python_env", "ray_cluster", "run_queue", "tensorboard_server"),
        *("training_run", "user_accounts", "user_shell", "without_declarations"),
    )
)

# What a stage with machines tests: the whole product, and the machines it runs on.
PRODUCT = (
    *("plugins", "roles", "playbooks", "src", "local_cloud/src", "requirements"),
    *("tests/support", "local_cloud/tests/support"),
)
ROLES_CODE = ("plugins", "roles", "playbooks", "extensions/molecule")
# What is started from here.
PROGRAMS = ("src", "local_cloud/src", "plugins", "roles", "tests/support")
CLOUD = ("local_cloud/src", "plugins/module_utils/_schema", "plugins/module_utils/_compute")

# It checks playbooks with the inventory of ansible.cfg, whose cloud need not be up.
LINT_ENV = {
    "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "collections"),
    "ANSIBLE_INVENTORY": str(ROOT / "tests" / "support" / "no_fleet.yml"),
}

UNIT = ("--hypothesis-profile=ci", "tests/unit", "local_cloud/tests/unit")

LINTS = (
    Stage("ruff", ("ruff", "check", "."), nice=FILLS, fills=True),
    Stage("format", ("ruff", "format", "--check", "."), nice=FILLS, fills=True),
    Stage("yamllint", ("yamllint", "--strict", "."), nice=FILLS, fills=True),
    Stage("changelog", ("antsibull-changelog", "lint"), nice=FILLS, fills=True),
)
# The unit tests, and one after the other beside them what fills.
CHECK = (
    # Without a clock: an example that takes long on a busy computer is no failure.
    Stage("unit", in_ci("-n", "2", *UNIT)),
    Stage("mypy", ("mypy",), nice=FILLS, fills=True),
    *LINTS,
)
# Where there is no cache, to write one for the next time is a seventh of what it costs.
NO_CACHE = () if (ROOT / ".mypy_cache").exists() else (f"--cache-dir={os.devnull}",)


def of_cloud(name: str, *folders: str) -> Stage:
    """Return a stage of CI for folders of tests/cloud: one process, which reads only these."""
    return Stage(name, in_ci(*(f"{CLOUD_TESTS}/{folder}" for folder in folders)), nice=SHORTER)


# Those at once that mostly wait, the longest first; the one with the most to compute, story, has
# the cores before the others, or it would end long after them. Beside them one at a time what
# fills. Any may run beside any other: each cloud gets a free port (ports.py of the local cloud's
# tests).
AT_ONCE = 6
FULL = (
    Stage("story", in_ci("-x", "tests/machines/e2e")),
    of_cloud("agents", "run_agent", "queue_agent"),
    of_cloud("playbooks", "playbooks", "hostile"),
    Stage("hostile_user", in_ci("tests/machines/hostile_user")),
    # One process reads 15,000 tests once. It computes all the time, and would be alone at the end.
    Stage("unit", in_ci(*UNIT)),
    of_cloud("modules", "modules", "apply", "api", "capacity", "inventory", "queue"),
    Stage("api", in_ci("local_cloud/tests/api"), nice=SHORTER),
    of_cloud("watch", "watch", "fan_out"),
    Stage("machines", in_ci(*MACHINES, CANARY)),
    Stage(
        "molecule",
        ("scripts/molecule", "test", "--all", "--report", *NIGHT_SCENARIOS),
        {"TPU_FLEET_MOLECULE_PROGRAM": f"python {ROOT / 'tests/support/warm_molecule.py'}"},
    ),
    # Each of its tests starts gcloud, which is a second of a core.
    Stage("gcloud", in_ci(GCLOUD), nice=SHORTER),
    Stage("property", in_ci("tests/worlds/property"), nice=SHORTER),
    # The fleet's page in a browser.
    Stage("page", in_ci("tests/cloud/page")),
    Stage("package", ("scripts/check-package",), nice=SHORTER),
    # It has Ansible check each playbook; half of them are molecule's, which runs them.
    Stage(
        "ansible-lint",
        ("python", "tests/support/warm_lint.py", "--offline", "--exclude", "extensions/molecule"),
        LINT_ENV,
        nice=FILLS,
        fills=True,
    ),
    Stage(
        "sanity",
        (*SANITY, *(word for test in NIGHT_SANITY for word in ("--skip-test", test))),
        nice=FILLS,
        fills=True,
    ),
    Stage("mypy", ("mypy", *NO_CACHE), nice=FILLS, fills=True),
    *LINTS,
)

# What is too long for each run of CI.
MORE = (
    Stage(
        "lint_molecule",
        ("ansible-lint", "--offline", "extensions/molecule"),
        LINT_ENV,
        tests=("extensions/molecule", ".ansible-lint"),
    ),
    Stage(
        "siege",
        pytest("tests/machines/hostile_user"),
        tests=(*PRODUCT, "tests/machines/hostile_user"),
    ),
    Stage(
        "pylint",
        (
            *(*SANITY, "--requirements", "--venv"),
            *(word for test in NIGHT_SANITY for word in ("--test", test)),
        ),
        tests=("plugins", "roles", "meta"),
    ),
    # The unit tests of plugins once more, under each Python that ansible-core supports on machines.
    # In CI the stage sanity compiles all of it under each of them.
    Stage(
        "ansible-units",
        ("scripts/ansible-test", "units", "--requirements", "--venv"),
        tests=("plugins", "roles", "tests/unit/plugins", "tests/unit/roles"),
    ),
    Stage("molecule_push", ("scripts/molecule",), tests=ROLES_CODE),
    Stage("molecule_by_hosts", ("scripts/molecule_by_hosts.py",), tests=ROLES_CODE),
    Stage("verify_fails", pytest("-m", "night", VERIFY_FAILS), tests=ROLES_CODE),
    Stage("apply", pytest("-x", APPLY), tests=(*PRODUCT, "tests/machines/e2e")),
    # Each boots machines with kernels of their own, which are programs here: slow ones.
    Stage(
        "lab",
        pytest("-x", "tests/machines/lab/test_lab.py"),
        tests=(*PRODUCT, "tests/machines/lab"),
    ),
    Stage(
        "nfs",
        pytest("-x", "tests/machines/nfs"),
        tests=(*CLOUD, "roles", "plugins/module_utils/_roles/nfs_share", "tests/machines/nfs"),
    ),
    Stage("gcloud_all", pytest("-n", "3", GCLOUD), tests=(*CLOUD, GCLOUD)),
    Stage("capacity", pytest(CAPACITY), tests=(*PRODUCT, CAPACITY)),
    # Five fleets, one after the other: about eleven minutes when nothing else is done here.
    Stage(
        "guides",
        pytest("tests/machines/lab/test_guides.py"),
        tests=(*PRODUCT, "tests/machines/lab"),
    ),
    # Other lives than those of CI, by a seed that is printed.
    Stage(
        "lives",
        pytest(
            *("-m", "not night", "-n", "2"),
            *(
                f"tests/worlds/property/test_{of}.py"
                for of in ("lives", "writers", "budget", "queue")
            ),
        ),
        {"TPU_FLEET_PROPERTY_RUNS": "9600", "TPU_FLEET_PROPERTY_SEED": "random"},
        tests=("plugins/module_utils", "roles/training_run/files/run_agent", "tests/worlds"),
    ),
    # Each rule of these worlds is seen to fail; CI has a few of them.
    Stage(
        "broken_worlds",
        pytest("-m", "night", "-n", "2", "tests/worlds/property"),
        tests=("plugins/module_utils", "roles/training_run/files/run_agent", "tests/worlds"),
    ),
    Stage("runs", pytest("-x", *RUNS), tests=(*PRODUCT, *RUNS)),
    Stage("people", pytest(*PEOPLE), tests=(*PRODUCT, *PEOPLE)),
    Stage(
        "cloud_rest",
        pytest(
            *("-m", "night", "-n", "3", "--dist", "loadfile"),
            *(CLOUD_TESTS, "local_cloud/tests/api"),
            "--ignore=tests/cloud/sweeps",
        ),
        tests=(*PRODUCT, "examples/jax", "tests/cloud", "local_cloud/tests/api"),
    ),
    Stage(
        "machines_rest",
        pytest("-m", "night", *MACHINES),
        tests=(*PRODUCT, *MACHINES),
    ),
    # In most of it a watcher waits until slices rest, or are there again.
    Stage(
        "healing",
        pytest(*HEALING),
        tests=(*PRODUCT, *HEALING),
    ),
    Stage(
        "mistakes",
        pytest(*MISTAKES),
        tests=(*PRODUCT, *MISTAKES),
    ),
    Stage(
        "take_over",
        pytest(TAKE_OVER),
        tests=(*PRODUCT, TAKE_OVER),
    ),
    Stage(
        "sweeps",
        pytest("tests/cloud/sweeps"),
        tests=(*PRODUCT, "examples/sweeps", "tests/cloud/sweeps"),
    ),
    # docs/tutorial.md, line by line.
    Stage(
        "tutorial",
        pytest("tests/machines/tutorial"),
        tests=(*PRODUCT, "docs/tutorial.md", "tests/machines/tutorial"),
    ),
    # The wheels as a release has them, with gcloud.
    Stage(
        "wheels",
        ("scripts/check-package", str(LOGS / "wheels")),
        tests=(*CLOUD, "src", "pyproject.toml", "galaxy.yml", "scripts/check-package"),
    ),
    # The documentation as a site, without a warning and without a dead link, on a phone and in a
    # wide window, light and dark. In CI tests/unit/test_docs.py follows the links of its pages, and
    # test_site.py has the builder's parts.
    Stage(
        "site",
        ("sh", "-c", "make site && .venv/bin/python scripts/site/look.py"),
        tests=("docs", "README.md", "roles", "plugins", "scripts/site", "requirements/docs.txt"),
    ),
    # Galaxy's own check of the collection.
    Stage(
        "galaxy",
        ("scripts/check-galaxy",),
        tests=("galaxy.yml", "meta", "plugins", "roles", "playbooks", "docs"),
    ),
    # Ray, SkyPilot and dstack, which are 700 MB.
    Stage(
        "clients",
        ("scripts/test-clients",),
        tests=(*CLOUD, "local_cloud/tests/clients", "requirements/clients.txt"),
    ),
    # Four gigabytes to download for each machine, and three machines.
    Stage(
        "torch_xla",
        pytest("-x", "tests/machines/torch_xla"),
        tests=(*PRODUCT, "examples/torch_xla", "tests/machines/torch_xla"),
    ),
    # JAX on two machines, with Orbax on a bucket: about fifteen minutes.
    Stage(
        "buckets",
        pytest("-x", "tests/machines/buckets"),
        tests=(*PRODUCT, "tests/machines/buckets", "tests/worlds/chaos/on_machine"),
    ),
    # Four machines, which read one bucket: about five minutes.
    Stage("datasets", pytest("-x", DATASETS), tests=(*PRODUCT, DATASETS)),
    # Five small machines, of which two are lost and created again: about ten minutes.
    Stage("queue", pytest("-x", "tests/machines/queue"), tests=(*PRODUCT, "tests/machines/queue")),
    Stage(
        "drills", pytest("-x", "tests/machines/drills"), tests=(*PRODUCT, "tests/machines/drills")
    ),
    # Eleven runs on four machines: about ten minutes.
    Stage("why", pytest("-x", *WHY), tests=(*PRODUCT, *WHY)),
    # Up to nine machines at once; about twenty minutes when nothing else is done here.
    Stage(
        "compute_engine",
        pytest("-x", "tests/machines/compute_engine"),
        tests=(*PRODUCT, "tests/machines/compute_engine"),
    ),
    Stage("chaos", pytest("-x", "tests/worlds/chaos"), tests=(*PRODUCT, "tests/worlds/chaos")),
)


def telling(text: str) -> list[str]:
    """Return what to show of a failed stage's log: around its last failures, and its end.

    The end alone is often a report that only says where it stopped, and the first failures may be
    those that a play itself mended.
    """
    lines = text.splitlines()
    shown = set(range(max(0, len(lines) - 20), len(lines)))
    # Few lines: a CI that keeps a part of the output drops the middle of a long one.
    for number in [number for number, line in enumerate(lines) if FAILURE.search(line)][-3:]:
        shown.update(range(max(0, number - 4), min(len(lines), number + 10)))
    return [lines[number] for number in sorted(shown)]


RECORD = StageRecord(ROOT, {stage.name: stage.tests for stage in MORE})


Results = dict[str, tuple[int, float, float]]
"""The exit code of each stage that ended, the seconds it took, and the CPU seconds it used."""


def run(stage: Stage, results: Results, running: dict[str, float]) -> None:
    log = LOGS / f"{stage.name}.log"
    started = running[stage.name] = time.monotonic()
    tested = RECORD.committed(stage.name)
    environment = {
        **os.environ,
        # What CI leaves out starts Ansible's programs, as users do.
        **({START_ANSIBLE: "1"} if stage in MORE else {}),
        **stage.env,
        "PATH": f"{ROOT / '.venv/bin'}{os.pathsep}{os.environ['PATH']}",
    }
    meter = CpuMeter(stage.name)
    standing_back = ("nice", "-n", str(stage.nice)) if stage.nice else ()
    with log.open("wb") as out:
        code, cpu = meter.run(
            (*standing_back, *stage.argv),
            cwd=ROOT,
            env=environment,
            stdout=out,
            stderr=out,
            stdin=subprocess.DEVNULL,
        )
    took = time.monotonic() - started
    results[stage.name] = (code, took, cpu)
    if code == 0:
        RECORD.passed(stage.name, tested)
    del running[stage.name]
    said = log.read_text(errors="replace")
    shown = telling(said) if code else [n for n in said.splitlines() if n.startswith(NOTE)]
    head = f"{'ok    ' if code == 0 else 'FAILED'} {stage.name:17} {took:7.1f} s {cpu:7.1f} CPU s"
    print("\n".join([head, *(f"    {line}" for line in shown)]), flush=True)


def run_side_by_side(stages: Sequence[Stage], results: Results, running: dict[str, float]) -> None:
    """Run stages, so many at once, and beside them one at a time those that fill."""
    with ThreadPoolExecutor(AT_ONCE) as pool, ThreadPoolExecutor(1) as beside:
        try:
            begun = [
                (beside if stage.fills else pool).submit(run, stage, results, running)
                for stage in stages
            ]
            for one in begun:
                one.result()
        except KeyboardInterrupt:
            # Stages that run get it too, and end; no other one begins.
            for lane in (pool, beside):
                lane.shutdown(wait=False, cancel_futures=True)
            raise


def run_again(results: Results, running: dict[str, float]) -> list[str]:
    """Run the few stages that failed beside others once more; return those that pass alone."""
    failed = [stage for stage in FULL if results.get(stage.name, (0,))[0]]
    if len(failed) > AGAIN:
        return []
    for stage in failed:
        (LOGS / f"{stage.name}.log").rename(LOGS / f"{stage.name}.first.log")
        print(f"       {stage.name} again, alone", flush=True)
        run(stage, results, running)
    return [stage.name for stage in failed if not results[stage.name][0]]


def tell(
    over: threading.Event,
    stages: Sequence[Stage],
    results: Results,
    running: dict[str, float],
) -> None:
    """Print every minute what runs, since when, and how many stages are done."""
    while not over.wait(TELL_EVERY):
        now = time.monotonic()
        at_work = ", ".join(f"{name} for {now - since:.0f} s" for name, since in [*running.items()])
        print(f"       {len(results)} of {len(stages)} stages done; {at_work}", flush=True)


def slowest(stages: Iterable[Stage]) -> list[tuple[float, str]]:
    """Return seconds and names of the ten tests that took the longest, by the logs of stages."""
    took: dict[str, float] = {}
    for stage in stages:
        log = LOGS / f"{stage.name}.log"
        for seconds, name in SLOW.findall(log.read_text(errors="replace") if log.exists() else ""):
            took[name] = took.get(name, 0.0) + float(seconds)
    return sorted(((seconds, name) for name, seconds in took.items()), reverse=True)[:10]


def main(names: list[str]) -> int:
    known = {stage.name: stage for stage in (*FULL, *MORE)}
    side_by_side: tuple[Stage, ...] = ()
    in_turn: tuple[Stage, ...] = ()
    if names == ["check"]:
        side_by_side = CHECK
    elif names == ["test"]:
        side_by_side = FULL
    elif names == ["test-all"]:
        side_by_side, in_turn = FULL, MORE
    else:
        unknown = [name for name in names if name not in known]
        if unknown or not names:
            print(f"unknown stage {unknown}; stages: check, test, test-all, {', '.join(known)}")
            return 2
        in_turn = tuple(known[name] for name in names)
    stages = (*side_by_side, *in_turn)
    LOGS.mkdir(parents=True, exist_ok=True)
    # Many stages start tpu-fleet, the local cloud and run agents again and again, and where
    # PYTHONDONTWRITEBYTECODE is set Python would compile all of them each time.
    subprocess.run(
        (*(ROOT / ".venv/bin/python", "-m", "compileall", "-q"), *PROGRAMS),
        cwd=ROOT,
        check=False,
    )
    results: Results = {}
    running: dict[str, float] = {}
    over = threading.Event()
    threading.Thread(target=tell, args=(over, stages, results, running), daemon=True).start()
    started = time.monotonic()
    run_side_by_side(side_by_side, results, running)
    unsteady = [] if side_by_side is CHECK else run_again(results, running)
    for stage in in_turn:
        run(stage, results, running)
    over.set()
    failed = [name for name, (code, *_) in results.items() if code]
    missing = [stage.name for stage in stages if stage.name not in results]
    for seconds, name in slowest(stages):
        print(f"slow   {seconds:7.1f} s  {name}")
    cpu = sum(used for _, _, used in results.values())
    print(
        f"\n{len(stages)} stages in {time.monotonic() - started:.0f} s, {cpu:.0f} CPU s", end="; "
    )
    print(f"logs in {LOGS}; CPU seconds are {COUNTS}")
    if any(stage in MORE for stage in stages):
        for line in RECORD.stale():
            print(f"not passed since what it tests changed: {line}")
    for name in unsteady:
        print(f"unsteady: {name} failed beside others (see {name}.first.log) and passed alone")
    for name in failed + missing:
        print(f"failed: {name}")
    print(f"{len(results) - len(failed)} passed, {len(failed) + len(missing)} failed")
    return 1 if failed or missing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
