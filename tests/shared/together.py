"""Functions that are called at the same moment."""

import threading
from concurrent.futures import ThreadPoolExecutor


def at_once(*calls):
    """Run functions in threads that start together; what one raises is raised here."""
    barrier = threading.Barrier(len(calls))

    def start(call):
        barrier.wait()
        return call()

    with ThreadPoolExecutor(len(calls)) as threads:
        return [each.result() for each in [threads.submit(start, call) for call in calls]]
