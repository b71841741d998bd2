"""The clocks of the tests: processor time, which no other program adds to, and waiting for what others do.

No test asserts on what the clock on the wall says: on a busy machine that is about the other programs.
"""

import time

PATIENCE = 300.0  # seconds for another process or a browser, far above what it takes


def processor_time(call, times=1):
    """Return the least processor seconds that some calls took, of all threads of this process."""
    taken = []
    for _ in range(times):
        started = time.process_time()
        call()
        taken.append(time.process_time() - started)
    return min(taken)


def cost(call, times=5):
    """Return what a call takes, in loops of 100,000 additions (some 5 ms), the least of both timed in turns."""
    pairs = [(processor_time(call), processor_time(_loop)) for _ in range(times)]
    return min(taken for taken, _ in pairs) / min(loop for _, loop in pairs)


def _loop():
    total = 0
    for number in range(100_000):
        total += number
    return total


def wait_until(true, most=PATIENCE, every=0.1):
    """Return what a function returns as soon as that is true; after `most` seconds, what it returns then."""
    end = time.monotonic() + most
    while not (found := true()) and time.monotonic() < end:
        time.sleep(every)
    return found
