"""localstripe in a process of its own, on 127.0.0.1 only and without its disk store.

Prints `{"port": N}` as its first line, then serves until its standard input is closed: with its parent, it goes too.
"""

import json
import os
import socket
import sys
import threading

from aiohttp import web
from localstripe import resources, server

resources.Store.dump_to_disk = lambda self: None  # else each write pickles everything to a temporary folder
threading.Thread(target=lambda: (sys.stdin.buffer.read(), os._exit(0)), daemon=True).start()
listening = socket.create_server(("127.0.0.1", 0))
print(json.dumps({"port": listening.getsockname()[1]}), flush=True)
web.run_app(server.app, sock=listening, print=None, access_log=None)
