"""GitHub's REST API, as far as the fleet needs it: the SSH keys of users and repositories.

May import: errors, model, payload.
"""
