"""mcp_tee.py FILE COMMAND…: runs COMMAND, passes its standard input and output on line by line, and copies each line
to FILE after `> ` or `< `."""

import subprocess
import sys
import threading

lock = threading.Lock()


def pass_on(lines, to, mark, log):
    for line in lines:
        with lock:
            log.write(mark + line)
            log.flush()
        to.write(line)
        to.flush()
    to.close()


with open(sys.argv[1], "wb") as log, subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
    # The server ends once its input does.
    up = threading.Thread(target=pass_on, args=(sys.stdin.buffer, server.stdin, b"> ", log), daemon=True)
    up.start()
    pass_on(server.stdout, sys.stdout.buffer, b"< ", log)
sys.exit(server.returncode)
