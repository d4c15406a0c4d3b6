"""`landed COMMAND` that ends when its standard input is closed: with its parent, however that ended, it goes too."""

import os
import signal
import threading
import time

from landed_services.cli import main


def _end_with_parent() -> None:
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(10)  # for the work at hand
    os._exit(1)


if __name__ == "__main__":
    threading.Thread(target=_end_with_parent, daemon=True).start()
    main()
