"""Google's other APIs, as far as needed: Service Usage, IAM, projects, secrets, logins.

May import: compute_errors, errors, model, payload, tpu_api.
"""
