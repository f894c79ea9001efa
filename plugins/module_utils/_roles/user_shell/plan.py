# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide the contents of a host's shell files. No I/O. Private to tpu.fleet."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..here import is_on

ETC = "/etc/tpu-fleet/shell"
OHMYZSH = "/opt/tpu-fleet/ohmyzsh"
CURRENT = f"{OHMYZSH}/current"
SYSCTL = "/etc/sysctl.d/60-tpu-fleet-vscode.conf"
# Microsoft's recommendation for VS Code; the default is too low for one big folder.
WATCHES = 524288

BLOCK = ("# BEGIN tpu.fleet (role user_shell)", "# END tpu.fleet (role user_shell)")
# Written once for a user without ~/.zshrc, because zsh asks questions at a first login without it.
ZSHRC = f"""\
# Yours to change: tpu.fleet made it because there was none, and does not touch it again.
[ -r {ETC}/zshrc ] && . {ETC}/zshrc
"""


@dataclass(frozen=True)
class Person:
    """The shell of one user on this host."""

    user: str
    zsh: bool
    ohmyzsh: bool
    theme: str
    plugins: tuple[str, ...]
    dotfiles: Mapping[str, str]


def people_here(settings: Mapping[str, Any]) -> list[Person]:
    """Return the users of this slice with their declared shells."""
    found, slice_name = [], settings["slice"]
    for user in settings["users"]:
        if user.get("state") == "absent" or not is_on(user, slice_name):
            continue
        wish: Mapping[str, Any] = next(
            (
                one
                for one in settings["people"]
                if one.get("user") == user["name"] and is_on(one, slice_name)
            ),
            {},
        )
        zsh = str(user.get("shell") or "").rpartition("/")[2] == "zsh"
        own = wish.get("plugins")
        wanted = wish.get("ohmyzsh")
        found.append(
            Person(
                user=str(user["name"]),
                zsh=zsh,
                ohmyzsh=zsh and (wanted is None or bool(wanted)),
                theme=wish.get("theme") or settings["theme"],
                plugins=tuple(settings["plugins"] if own is None else own),
                dotfiles={k: v for k, v in (wish.get("dotfiles") or {}).items() if v},
            )
        )
    return found


def mark(slice_name: str, worker: int, workers: int) -> str:
    """Return the mark of this machine for the prompt."""
    text = slice_name if workers <= 1 else f"{slice_name} w{worker}"
    return re.sub(r"[^A-Za-z0-9 ._-]", "", text)


def files(settings: Mapping[str, Any], people: Sequence[Person]) -> dict[str, str]:
    """Return the wanted files in the folder of the shells, by path."""
    found, marked, editor = {}, "", settings["editor"]
    if settings["prompt"]:
        marked = mark(settings["slice"], settings["worker_index"], settings["worker_count"])
    if marked or editor:
        found[f"{ETC}/interactive.bash"] = _bash(marked, editor)
        found[f"{ETC}/interactive.zsh"] = _zsh(marked, editor)
    if any(person.zsh for person in people):
        found[f"{ETC}/zshrc"] = _OHMYZSH_RC
        found[f"{ETC}/login.zsh"] = _ZSH_LOGIN
    for person in people:
        if person.ohmyzsh:
            found[f"{ETC}/users/{person.user}.zsh"] = (
                "# Managed by tpu.fleet (role user_shell).\n"
                f"ZSH_THEME={shlex.quote(person.theme)}\n"
                f"plugins=({' '.join(shlex.quote(name) for name in person.plugins)})\n"
            )
    return found


def with_block(text: str, line: str) -> str:
    """Return a file with our lines at its end; without them if there are none."""
    begin, end = BLOCK
    pattern = re.compile(
        rf"\n?^{re.escape(begin)}$.*?^{re.escape(end)}$\n?", re.MULTILINE | re.DOTALL
    )
    rest = pattern.sub("", text)
    if not line:
        return rest
    if rest and not rest.endswith("\n"):
        rest += "\n"
    return f"{rest}\n{begin}\n{line}\n{end}\n"


def source_line(path: str) -> str:
    """Return the line that sources a file if it exists, because a login must never fail."""
    return f"if [ -r {path} ]; then . {path}; fi"


_HEAD = """\
# Managed by tpu.fleet (role user_shell). Nothing in here may end a login.
"""


def _editor(editor: str) -> str:
    if not editor:
        return ""
    program = shlex.quote(editor.split()[0])
    return (
        f'if [ -z "${{EDITOR-}}" ] && command -v {program} > /dev/null 2>&1; then\n'
        f"  export EDITOR={shlex.quote(editor)}\nfi\n"
    )


def _bash(marked: str, editor: str) -> str:
    text = _HEAD + _editor(editor)
    if marked:
        # Themes and users' files set the prompt after this was read, so the mark is added
        # just before the prompt is shown.
        text += f"""\
__tpu_fleet_mark() {{
  local status=$?
  case ${{PS1-}} in
    *"[{marked}] "*) ;;
    *) PS1="[{marked}] ${{PS1-}}" ;;
  esac
  return $status
}}
case ${{PROMPT_COMMAND-}} in
  *__tpu_fleet_mark*) ;;
  *) PROMPT_COMMAND="__tpu_fleet_mark${{PROMPT_COMMAND:+; $PROMPT_COMMAND}}" ;;
esac
"""
    return text


def _zsh(marked: str, editor: str) -> str:
    text = _HEAD + _editor(editor)
    if marked:
        text += f"""\
__tpu_fleet_mark() {{
  case $PROMPT in
    *"[{marked}] "*) ;;
    *) PROMPT="[{marked}] $PROMPT" ;;
  esac
  # After the hooks of themes that came later.
  precmd_functions=(${{precmd_functions:#__tpu_fleet_mark}} __tpu_fleet_mark)
}}
typeset -ga precmd_functions
precmd_functions=(${{precmd_functions:#__tpu_fleet_mark}} __tpu_fleet_mark)
"""
    return text


# zsh does not read /etc/profile, which has environments and secrets.
_ZSH_LOGIN = (
    _HEAD
    + """\
for __tpu_fleet_file in /etc/profile.d/tpu-fleet-*.sh(N); do
  emulate sh -c ". $__tpu_fleet_file"
done
unset __tpu_fleet_file
"""
)
_OHMYZSH_RC = (
    _HEAD
    + f"""\
if [[ -r {ETC}/users/$USERNAME.zsh && -r {CURRENT}/oh-my-zsh.sh ]]; then
  . {ETC}/users/$USERNAME.zsh
  export ZSH={CURRENT}
  # The fleet file says which version there is.
  zstyle ':omz:update' mode disabled
  # Your own themes and plugins.
  [[ -d ~/.oh-my-zsh-custom ]] && ZSH_CUSTOM=~/.oh-my-zsh-custom
  # A plugin is one of oh-my-zsh, one of yours, or a package; one that is missing is left out.
  __tpu_fleet_own=${{ZSH_CUSTOM:-$ZSH/custom}}
  __tpu_fleet_packages=()
  __tpu_fleet_plugins=()
  for __tpu_fleet_name in $plugins; do
    if [[ -d $ZSH/plugins/$__tpu_fleet_name || -d $__tpu_fleet_own/plugins/$__tpu_fleet_name ]]
    then
      __tpu_fleet_plugins+=($__tpu_fleet_name)
    elif [[ -r /usr/share/$__tpu_fleet_name/$__tpu_fleet_name.zsh ]]; then
      __tpu_fleet_packages+=(/usr/share/$__tpu_fleet_name/$__tpu_fleet_name.zsh)
    fi
  done
  plugins=($__tpu_fleet_plugins)
  __tpu_fleet_name=themes/$ZSH_THEME.zsh-theme
  [[ -r $ZSH/$__tpu_fleet_name || -r $__tpu_fleet_own/$__tpu_fleet_name ]] || ZSH_THEME=
  . $ZSH/oh-my-zsh.sh
  for __tpu_fleet_name in $__tpu_fleet_packages; do . $__tpu_fleet_name; done
  unset __tpu_fleet_name __tpu_fleet_own __tpu_fleet_packages __tpu_fleet_plugins
fi
"""
)
