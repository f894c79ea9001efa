# Work at a wandb sweep until it has no trial left: sh agent.sh ENTITY/PROJECT/ID [NUMBER]
# The agent gives each trial an id of its own, in place of the run's.
unset WANDB_RUN_ID WANDB_RESUME
cd "$(dirname "$0")" && exec wandb agent --forward-signals "$1"
