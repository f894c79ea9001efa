"""The watcher polls a fleet, decides what to do, runs playbooks that do it, and notifies people.

Its parts lead, look, act and report take turns in `loop`. Decisions (decide, hosts, after,
on_queue, trouble, lease) are separate from effects (jobs, ground, read).

May import: commands, contract, notify, show, workers, history, page, on_worker, queue.
"""
