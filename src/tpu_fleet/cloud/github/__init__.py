"""What the fleet needs of GitHub's REST API: the SSH keys of users and repositories.

May import: model.
"""
