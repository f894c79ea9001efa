"""Serve TensorBoard on a UNIX socket: `tensorboard_on_socket.py SOCKET [argument of tensorboard]…`.

TensorBoard itself listens on TCP ports only, which any user of the machine may bind first. This
program uses the interface by which TensorBoard is given another server. It runs in the board's
environment, as the board's user.
"""

from __future__ import annotations

import sys
from typing import Any

from absl import app
from tensorboard import default, main_lib, program
from werkzeug import serving


class Quiet(serving.WSGIRequestHandler):
    """Writes no line for each request."""

    def log_request(self, *_words: Any) -> None:
        """Write nothing."""


class OnSocket(program.TensorBoardServer):
    """Serves on the socket that the first argument names."""

    path = ""

    def __init__(self, wsgi_app: Any, flags: Any) -> None:
        self._port = flags.port
        self._server = serving.make_server(
            f"unix://{self.path}", 0, wsgi_app, threaded=True, request_handler=Quiet
        )
        # Threads of open connections do not keep the program from ending.
        self._server.daemon_threads = True

    def serve_forever(self) -> None:
        """Serve until the program is ended."""
        self._server.serve_forever()

    def get_url(self) -> str:
        """Return the address at which systemd passes connections on."""
        return f"http://127.0.0.1:{self._port}/"

    def print_serving_message(self) -> None:
        """Say where it serves."""
        print(f"TensorBoard serves on {self.path} for {self.get_url()}", file=sys.stderr)


def main() -> None:
    """Run TensorBoard with this server."""
    OnSocket.path = sys.argv.pop(1)
    main_lib.global_init()
    board = program.TensorBoard(plugins=default.get_plugins(), server_class=OnSocket)
    app.run(board.main, flags_parser=board.configure)


if __name__ == "__main__":
    main()
