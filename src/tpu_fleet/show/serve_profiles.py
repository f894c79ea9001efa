"""Serve a folder of profiles with XProf on the loopback address: `serve_profiles.py FOLDER PORT`.

XProf's own program listens on all addresses, with a second port on which it computes for others;
here neither is opened. A process of its own runs this, with the interpreter that has XProf.
"""

from __future__ import annotations

import sys

ADDRESS = "127.0.0.1"


def main(words: list[str]) -> int:
    """Serve until this process is ended."""
    from xprof import profile_plugin_loader, server

    folder, port = words[0], int(words[1])
    context = server.TBContext(folder, server.DataProvider(folder), server.TBContext.Flags(False))
    # They are read of the context; there is no profiler to ask from here.
    context.hide_capture_profile_button = True
    context.enable_tab_name_label = False
    context.src_prefix = None
    plugin = profile_plugin_loader.ProfilePluginLoader().load(context)
    server.run_server(plugin, ADDRESS, port)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
