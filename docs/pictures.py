"""Take pictures of the pages that the getting-started guides write.

``python docs/pictures.py`` runs the guides, opens what they write in Chromium and puts the upper
part of each into ``_static/pages``. The pictures are kept in the repository, so that the
documentation can be built where there is no browser. Take them again when the page has changed.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import snippets
from playwright.sync_api import sync_playwright

DOCS = Path(__file__).parent
GUIDES = (
    "trained-elsewhere",
    "data-and-simulator",
    "no-truth",
    "no-solver",
    "boundary-parameter",
    "quickstart",
)
PICTURES = DOCS / "_static" / "pages"
WIDTH, HEIGHT = 1040, 900


def main() -> None:
    """Run every guide and photograph its page."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        window = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        for guide in GUIDES:
            snippets.run(DOCS / "start" / f"{guide}.md", Path(folder))
        pages = {written.stem: written for written in Path(folder).glob("*.html")}
        pages["reproduction"] = DOCS.parent / "results" / "reproduction" / "index.html"
        for name, page in pages.items():
            window.goto(page.as_uri())
            window.screenshot(path=PICTURES / f"{name}.png")
            if name == "tea":  # for the front page, the verdict alone
                head = {"x": 24, "y": 24, "width": WIDTH - 48, "height": 330}
                window.screenshot(path=PICTURES / "verdict.png", clip=head)
        browser.close()


if __name__ == "__main__":
    main()
