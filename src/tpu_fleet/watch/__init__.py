"""The watcher: it looks at a fleet, decides what is to be done, has playbooks do it, tells people.

What is decided (decide, hosts, trouble, lease) is apart from what is done (loop, jobs, ground).

May import: notify, on_worker, show, workers.
"""
