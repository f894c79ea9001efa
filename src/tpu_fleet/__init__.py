"""tpu.fleet: the command line and the local cloud beside the Ansible collection."""
