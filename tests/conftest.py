"""A real browser, to look at pages with."""

import shutil

import pytest


@pytest.fixture(scope="module")  # while it is open, no other event loop can run
def chromium():
    from playwright.sync_api import sync_playwright

    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.fail(
            "the page is tested in a real browser: install Chromium, as with apt install chromium"
        )
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()
