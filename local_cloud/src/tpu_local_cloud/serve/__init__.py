"""The servers of a local cloud: HTTP, gRPC and metadata, and who may use them.

May import: compute_api, compute_errors, errors, github, google, machines, model, payload,
storage_api, tables, tpu_api.
"""
