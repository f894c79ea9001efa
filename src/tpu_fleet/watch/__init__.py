"""The watcher polls a fleet, decides what to do, runs playbooks that do it, and notifies people.

Decisions (decide, hosts, trouble, lease) are separate from effects (loop, jobs, ground).

May import: notify, show, workers, history, page, on_worker.
"""
