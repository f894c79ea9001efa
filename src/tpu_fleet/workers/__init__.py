"""Workers: how they are found, reached and asked, and how playbooks are run.

May import: on_worker.
"""
