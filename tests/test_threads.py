"""One thread for small work, and the caller's settings afterwards."""

import threading

import pytest
from threadpoolctl import threadpool_info

from twoaxis.threads import one_thread


def blas():
    pools = threadpool_info()
    return [each["num_threads"] for each in pools if each["user_api"] == "blas"]


def test_settings_come_back_after_several_callers():
    torch = pytest.importorskip("torch")
    torch.set_num_threads(2)
    before = blas()
    inside, leave = threading.Event(), threading.Event()

    def longer():
        with one_thread():
            inside.set()
            leave.wait(10)

    other = threading.Thread(target=longer)
    with one_thread():
        other.start()
        inside.wait(10)
        assert set(blas()) == {1}
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 2
    assert set(blas()) == {1}  # the other is still at work
    leave.set()
    other.join()
    assert blas() == before
