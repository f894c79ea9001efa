"""What can hold a run up: the table of causes, with their remedies. Pure.

The judge takes weights and remedies from it; the table in docs/why.md is made of it.
"""

from __future__ import annotations

from dataclasses import dataclass

TROUBLE, WAIT, FINE, NOTE = range(4)
"""How urgent a cause is; the first come first."""
_LOG = "tpu-fleet logs {run} --slice {slice} --worker {worker} --tail 50"
_RESTART = "tpu-fleet stop {run} && tpu-fleet start {run}"


@dataclass(frozen=True)
class Cause:
    """One thing that can be the matter with a run."""

    title: str
    weight: int
    """How likely it is what holds the run up, where several things are seen."""
    seen: str
    """What the evidence shows then."""
    remedy: str = ""
    """A sentence; `{run}`, `{host}` and other fields of the finding are filled in."""
    command: str = ""
    grade: int = TROUBLE


CAUSES = {
    # What is certain of one worker
    "full_disk": Cause(
        "full disk",
        100,
        "a file system that the run writes to has less than 64 MiB or 0.5 % left, or no files",
        "Free space on {host}, or declare a larger disk.",
        "tpu-fleet exec --limit {host} --sudo -- du -xh --max-depth=2 {path}",
    ),
    "silent_disk": Cause(
        "disk does not answer",
        97,
        "a folder of the run did not answer within three seconds: the server of a share is gone",
        "Bring its server or its network back.",
        "tpu-fleet doctor",
    ),
    "oom": Cause(
        "out of memory",
        95,
        "the kernel has ended a process of the run since it started, for want of memory",
        "Let the program hold less in the worker's memory: batches, prefetching, loader processes.",
        _LOG,
    ),
    "stopped": Cause(
        "stopped process",
        90,
        "the kernel has the program in state T",
        "Let it go on.",
        "tpu-fleet exec --limit {host} --sudo -- kill -CONT {pid}",
    ),
    "traced": Cause(
        "held by a debugger",
        89,
        "the kernel has the program in state t",
        "End the debugger on {host}.",
        "tpu-fleet exec --limit {host} --sudo -- grep -H TracerPid /proc/{pid}/status",
    ),
    "error": Cause(
        "exception",
        85,
        "one worker's log ends with a traceback, and the others wait",
        "Correct the program; its log has the whole traceback.",
        _LOG,
    ),
    "ended": Cause(
        "program ended on one worker",
        84,
        "no process of the run is there any more, and the others wait",
        "Its log says why.",
        _LOG,
    ),
    "no_answer": Cause(
        "worker does not answer",
        80,
        "no ssh connection, or no answer in time",
        "Find out what is wrong with the machine; a lost one is recreated by tpu-fleet repair.",
        "tpu-fleet doctor",
    ),
    "run_missing": Cause(
        "worker does not have the run",
        79,
        "one worker does not have the declaration of the run, and the others have it",
        "Apply the fleet file to it.",
        "tpu-fleet apply",
    ),
    "old_agent": Cause(
        "run agent is older",
        15,
        "a worker's run agent is missing, or of an earlier version without this command",
        "Apply the fleet file to it.",
        "tpu-fleet apply",
    ),
    "bad_answer": Cause(
        "worker's answer is refused",
        20,
        "its evidence has a value that no evidence has",
        "Check the worker; if no intruder controls it, configure it again.",
        "tpu-fleet apply",
    ),
    "chips_held": Cause(
        "chips held by another process",
        78,
        "a process that is not the run's has a chip open",
        "Have it ended by the person to whom it belongs, or end it.",
        "tpu-fleet exec --limit {host} --sudo -- kill {pid}",
    ),
    "chips_missing": Cause(
        "chips missing",
        77,
        "the worker has fewer chips than most others",
        "Restart the machine; if they stay away, have the slice recreated.",
        "tpu-fleet doctor",
    ),
    "agent_gone": Cause(
        "run agent does not run",
        76,
        "the service of the run is not active on one worker",
        "Start it.",
        "tpu-fleet start {run}",
    ),
    "not_started": Cause(
        "program not started on one worker",
        75,
        "no process of the run there, while others have one",
        "Its run agent says why; the log of the agent has more.",
        "tpu-fleet exec --limit {host} --sudo -- journalctl -u tpu-fleet-run@{run} -n 30",
    ),
    "blocked_port": Cause(
        "blocked port",
        72,
        "a worker cannot connect to a port of another: a timeout, or no route",
        "Let the workers reach each other; networks called default do.",
        "{firewall}",
    ),
    "other_code": Cause(
        "other code on one worker",
        70,
        "the workers' code differs",
        "Install the same on all of them.",
        "tpu-fleet sync {run}",
    ),
    "other_version": Cause(
        "other version on one worker",
        69,
        "the workers' Python, JAX, libtpu or PyTorch differ",
        "Build the environment on all of them.",
        "tpu-fleet apply --only venvs",
    ),
    "other_definition": Cause(
        "other declaration on one worker",
        68,
        "the workers have the run as it was declared at different times",
        "Apply the fleet file to all of them.",
        "tpu-fleet apply --only runs",
    ),
    "core_error": Cause(
        "error of a core",
        67,
        "libtpu's monitoring port has an error text",
        "Restart the run; if it comes back on this worker, have the slice recreated.",
        _RESTART,
    ),
    "stuck_core": Cause(
        "stuck core",
        66,
        "a core has not come to the program at which the others are, which was launched there, or "
        "computes in a program in which most of the others wait for it",
        "Restart the run; if it comes back on this worker, have the slice recreated.",
        _RESTART,
    ),
    # One worker does not come to where the others wait
    "dead_lock": Cause(
        "dead lock",
        64,
        "two threads of a process want locks, and none of them runs",
        "Take the locks in the same order everywhere; until then, restart the run.",
        _RESTART,
    ),
    "person": Cause(
        "waits for a person",
        63,
        "the program is in a debugger, or reads from its terminal",
        "Answer at its terminal, and take the breakpoint out.",
        "tpu-fleet attach {run} --slice {slice} --worker {worker}",
    ),
    "data": Cause(
        "stuck data loader",
        62,
        "the program is in `queue.get`, a DataLoader, grain, tf.data; the others wait for it",
        "Look at what feeds it: the line is named, and its other threads are in the material.",
    ),
    "network": Cause(
        "waits for the network",
        61,
        "the program is in a request or a socket; the others wait for it",
        "Give the request a timeout, and look at the other side.",
    ),
    "files": Cause(
        "waits for a disk or a share",
        60,
        "the kernel has the program in a system call on a file; the others wait for it",
        "Look at the disk, the share or the bucket that is named.",
        "tpu-fleet doctor",
    ),
    "child": Cause(
        "waits for a process that it started",
        59,
        "the program is in `subprocess` or joins a process; the others wait for it",
        "Look at that process: the material has its stack.",
    ),
    "lock": Cause(
        "waits for a lock or an event",
        58,
        "the program is in `threading`, or wants a lock; the others wait for it",
        "Look at which thread has to release it: the material has all stacks.",
    ),
    "sleep": Cause(
        "sleeps",
        57,
        "the program is in a sleep; the others wait for it",
        "Take the sleep out, or let all workers sleep alike.",
    ),
    "compute": Cause(
        "still computes",
        56,
        "the program runs on a processor; the others wait for it",
        "Let this worker do less, or all of them the same.",
    ),
    "elsewhere": Cause(
        "stands elsewhere",
        55,
        "one program stands in another line than all others",
        "Look at why the program goes another way there.",
    ),
    "chips": Cause(
        "chips do not initialise",
        54,
        "the program is in the initialisation of the chips; the others wait for it",
        "Restart the run; if it comes back on this worker, have the slice recreated.",
        _RESTART,
    ),
    "behind": Cause(
        "behind the others",
        53,
        "all wait for the chips, and one is at an earlier step or program",
        "Look at its chips and at the network to it.",
        "tpu-fleet doctor",
    ),
    "nobody_listens": Cause(
        "nothing listens",
        52,
        "a port of another worker refuses connections: its program does not listen there",
        "Look at why the program of that worker does not listen.",
    ),
    "together": Cause(
        "all wait at the same point",
        45,
        "all workers wait for each other or for the same thing, and none stands out",
        "Look at the stacks in the material; a restart goes on from the last checkpoint.",
        _RESTART,
    ),
    "unknown": Cause(
        "no cause found",
        40,
        "no step for long, and nothing in the evidence stands out",
        "Look at the stacks in the material.",
    ),
    "failed": Cause(
        "failed",
        50,
        "the run has ended as failed",
        "Correct the program, then try once more.",
        "tpu-fleet retry {run}",
    ),
    "slow": Cause(
        "slow worker",
        35,
        "the run goes on, and in each look all others wait for the same worker",
        "Look at what this worker does more than the others.",
    ),
    "stands_out": Cause(
        "stands out over minutes",
        34,
        "over three minutes the steps of one worker took longer, or its loss is another",
        "A slow worker: look at its machine. Another loss: its chips may compute wrongly; have the "
        "slice recreated.",
        "tpu-fleet doctor",
    ),
    # Nothing is wrong, or nothing yet
    "saves": Cause("saves a checkpoint", 36, "the programs are in Orbax or torch.save", grade=WAIT),
    "restores": Cause(
        "restores a checkpoint", 35, "the programs are in Orbax or torch.load", grade=WAIT
    ),
    "compiles": Cause(
        "compiles", 34, "the programs are in the compiler of JAX or PyTorch", grade=WAIT
    ),
    "queued": Cause(
        "waits for its turn or its workers",
        33,
        "the run agents have not begun an attempt, and say what they wait for",
        grade=WAIT,
    ),
    "restarts": Cause("between two attempts", 32, "the run agents say so", grade=WAIT),
    "starts": Cause(
        "starts", 31, "the programs began less than a minute ago, and have made no step", grade=WAIT
    ),
    "over": Cause("is over", 30, "the run has succeeded, or was stopped", grade=FINE),
    "healthy": Cause("healthy", 10, "steps are made, and no worker stands out", grade=FINE),
    "note": Cause("also seen", 0, "worth knowing, and holds nothing up", grade=NOTE),
}
