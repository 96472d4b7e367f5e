"""What all tests share: a real browser to look at pages with, and a Ctrl-C that works."""

import os
import shutil
import signal

import pytest

# Started in the background, a shell's child ignores Ctrl-C, and so would every command that a
# test starts and interrupts. A handler of ours is not handed down; the default is.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="module")  # while it is open, no other event loop can run
def chromium():
    sync_playwright = pytest.importorskip("playwright.sync_api").sync_playwright
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        absent = pytest.fail if os.environ.get("TWOAXIS_REQUIRE_ALL") else pytest.skip
        absent("no chromium on the PATH to open the page in: apt install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()
