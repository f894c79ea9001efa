"""The processes of a local cloud: HTTP and gRPC servers, who may ask them, the metadata server.

May import: errors, github, google, machines, model, tpu_api.
"""
