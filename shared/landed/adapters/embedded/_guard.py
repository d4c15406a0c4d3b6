"""Run one server and end it when the owner ends: the way to tie them where the kernel offers no signal for it.

Run as a script of its own (standard library only): ``_guard.py OWNER_PID SIGNAL COMMAND...``, with a pipe of the owner
as standard input and one to report the server's pid as standard output. The pipe closes with the owner however it
dies; the parent's pid is watched too, since a forked child of the owner would hold the pipe open.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading

POLL_SECONDS = 0.5


def main(owner_pid: int, ending: int, command: list[str]) -> int:
    """Start *command*, report its pid, and return its exit code once it has ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C at the terminal is for the owner to handle
    server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sys.stderr, stderr=sys.stderr)
    os.write(1, b"%d\n" % server.pid)
    os.close(1)

    def end_with_owner() -> None:
        while os.getppid() == owner_pid:
            if select.select([0], [], [], POLL_SECONDS)[0] and not os.read(0, 1):
                break
        server.send_signal(ending)
        try:
            server.wait(timeout=2)
        except subprocess.TimeoutExpired:
            server.kill()

    threading.Thread(target=end_with_owner, daemon=True).start()
    return server.wait()


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]))
