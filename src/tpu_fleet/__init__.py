"""tpu.fleet: the command line beside the Ansible collection."""
