"""Starts a server with two workers, asks until both have answered, and terminates it; the arguments: its command."""

import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
command = [word.replace("PORT", str(port)) for word in sys.argv[1:]]
server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
answers, until = {}, time.monotonic() + 120
while len(answers) < 2 and time.monotonic() < until:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=60) as response:
            value, pid = response.read().split()
            answers[pid] = value
    except (urllib.error.URLError, ConnectionError):
        time.sleep(0.2)
time.sleep(0.6)  # what the last quarter of a second did may not be written
server.send_signal(signal.SIGTERM)
print(sorted(answers.values()), "ended with", server.wait(60))
