"""The stack of another thread: as it stands, and without harm to the program whatever its finalizers do meanwhile."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading

import pytest

from coldstep_collectors.process.thread_stack import line_of, stack_of

FINALIZERS = """
import gc, random, threading, time
from coldstep_collectors.process.thread_stack import stack_of

class Node:
    def __init__(self):
        self.itself = self

    def __del__(self):
        time.sleep(0.0005)  # lets other threads run while the garbage collector does

functions = []
for number in range(12):  # frames of many sizes, so that none stands where another one did
    names = globals().copy()
    locals_ = "".join(f"; local{each} = depth" for each in range(number * 3))
    exec(f'''
def function{number}(depth):
    a = depth{locals_}
    if depth:
        random.choice(functions)(depth - 1)
    else:
        Node()
        time.sleep(0.0003)
''', names)
    functions.append(names[f"function{number}"])

home, collected, read = threading.get_ident(), set(), []

def look():
    while not done.wait(0.0002):
        read.append(len(stack_of(home)))

gc.callbacks.append(lambda *_: collected.add(threading.get_ident()))
gc.set_threshold(20)
done = threading.Event()
looker = threading.Thread(target=look)
looker.start()
end = time.monotonic() + 3
while time.monotonic() < end:
    functions[0](random.randrange(5, 40))
done.set()
looker.join()
assert looker.ident in collected, "the garbage collector never ran on the thread that looks"
assert max(read) > 20, read
"""


def parked(depth: int, stands: threading.Event, go: threading.Event) -> None:
    if depth:
        parked(depth - 1, stands, go)
    else:
        stands.set()
        go.wait()


def test_each_frame_is_there_innermost_first() -> None:
    stands, go = threading.Event(), threading.Event()
    thread = threading.Thread(target=parked, args=(3, stands, go))
    thread.start()
    assert thread.ident is not None
    assert stands.wait(10)
    stack = [(code.co_name, line_of(code, at)) for code, at in stack_of(thread.ident)]
    go.set()
    thread.join()
    first = parked.__code__.co_firstlineno
    ours = [place for place in stack if place[0] == "parked"]
    assert ours == [("parked", first + 5)] + 3 * [("parked", first + 2)]
    assert stack[-1][0] == "_bootstrap"
    assert stack[0][0] != "parked"
    assert stack_of(thread.ident) == []


@pytest.mark.parametrize("enabled", [True, False])
def test_the_garbage_collector_stays_as_the_program_has_it(enabled: bool) -> None:
    before = gc.isenabled()
    (gc.enable if enabled else gc.disable)()
    try:
        assert stack_of(threading.get_ident())
        assert gc.isenabled() is enabled
    finally:
        (gc.enable if before else gc.disable)()


def test_finalizers_that_run_meanwhile_do_no_harm() -> None:
    done = subprocess.run([sys.executable, "-X", "faulthandler", "-c", FINALIZERS], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
