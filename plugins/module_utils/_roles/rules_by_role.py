# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rules of every role. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .._schema.keys import Problem
from .bucket_mount.rules import check_bucket_mount
from .code_checkout.rules import check_code_checkout
from .data_disk.rules import check_data_disk
from .dataset.rules import check_dataset
from .env_secrets.rules import check_env_secrets
from .git_access.rules import check_git_access
from .host_base.rules import check_host_base
from .nfs_share.rules import check_nfs_share
from .notebook_server.rules import check_notebook_server
from .python_env.rules import check_python_env
from .ray_cluster.rules import check_ray_cluster
from .run_queue.rules import check_run_queue
from .tensorboard_server.rules import check_tensorboard_server
from .tpu_metrics.rules import check_tpu_metrics
from .training_run.rules import check_training_run
from .user_accounts.rules import check_user_accounts
from .user_shell.rules import check_user_shell

# In the order in which the roles are applied.
ROLE_RULES: dict[str, Callable[[Mapping[str, Any]], list[Problem]]] = {
    "host_base": check_host_base,
    "user_accounts": check_user_accounts,
    "data_disk": check_data_disk,
    "nfs_share": check_nfs_share,
    "bucket_mount": check_bucket_mount,
    "git_access": check_git_access,
    "env_secrets": check_env_secrets,
    "user_shell": check_user_shell,
    "code_checkout": check_code_checkout,
    "dataset": check_dataset,
    "python_env": check_python_env,
    "notebook_server": check_notebook_server,
    "tensorboard_server": check_tensorboard_server,
    "tpu_metrics": check_tpu_metrics,
    "ray_cluster": check_ray_cluster,
    "training_run": check_training_run,
    "run_queue": check_run_queue,
}
