"""One thread for small work, and the caller's settings afterwards."""

import threading

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from twoaxis.threads import one_thread


def blas():
    pools = threadpool_info()
    return {each["num_threads"] for each in pools if each["user_api"] == "blas"}


def test_settings_come_back_and_are_those_of_the_caller_alone():
    torch = pytest.importorskip("torch")
    inside, leave = threading.Event(), threading.Event()

    def longer():
        with one_thread():
            inside.set()
            leave.wait(10)

    other = threading.Thread(target=longer)
    threads = torch.get_num_threads()
    with threadpool_limits(2):
        torch.set_num_threads(2)
        other.start()
        inside.wait(10)
        with one_thread():
            assert blas() == {1}
            assert torch.get_num_threads() == 1
        leave.set()
        other.join()
        assert blas() == {2}
        assert torch.get_num_threads() == 2
    torch.set_num_threads(threads)
