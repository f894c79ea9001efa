"""Apply on the machine what it was last asked to be, one role after the other, whatever fails.

    roles.py REPORT ROLE ...

It is the machine's own apply agent with another play: in its own, the first role that fails is
the last. Each role's answer goes to the file REPORT.
"""

import json
import subprocess
import sys
from pathlib import Path

# All but what it was told: that names the same files.
SAID = (
    "{{ ansible_failed_result | dict2items | rejectattr('key', 'equalto', 'invocation')"
    " | items2dict | string }}"
)

report, *roles = sys.argv[1:]
programs = Path("/opt/tpu-fleet/apply")
collection = max(programs.glob("[0-9a-f]" * 16), key=lambda path: path.stat().st_mtime)
agent = collection / "ansible_collections/tpu/fleet/plugins/module_utils"
sys.path.insert(0, str(agent))
import _apply_agent.again as again  # noqa: E402
import _apply_agent.place as place  # noqa: E402
import _apply_agent.work as work  # noqa: E402

here = place.Place()
todo = work.Work(here, again.kept(here)[0])
folder = Path("/srv/judge/work")
folder.mkdir(exist_ok=True)
tasks = [
    {
        "block": [{"ansible.builtin.include_role": {"name": f"tpu.fleet.{role}"}}],
        "rescue": [
            {
                "ansible.builtin.lineinfile": {
                    "path": report,
                    "create": True,
                    "line": "{{ {'role': role, 'said': said} | to_json }}",
                },
                "vars": {"role": role, "said": SAID},
            }
        ],
    }
    for role in roles
]
play = {"hosts": "tpu", "gather_facts": False, "become": False, "tasks": tasks}
(folder / "hosts.yml").write_text(work.inventory(todo.wish.host, todo.variables, {}))
(folder / "play.json").write_text(json.dumps([play]))
(folder / "ansible.cfg").write_text("[defaults]\ninternal_poll_interval = 0.005\n")
playbook = next(programs.glob("ansible-*/bin/ansible-playbook"))
environment = work._environment(collection, folder, folder / "events")
words = [str(playbook), "-i", "hosts.yml", "play.json"]
done = subprocess.run(
    words,
    cwd=folder,
    env=environment,
    stdin=subprocess.DEVNULL,
    stdout=subprocess.PIPE,
    stderr=subprocess.STDOUT,
)
if done.returncode:
    # A handler failed, which no block rescues.
    with open(report, "a", encoding="utf-8") as file:
        file.write(json.dumps({"said": done.stdout.decode(errors="replace")}) + "\n")
