"""Pages as tests look at them: as text, and in a browser with everything else cut off."""

from contextlib import contextmanager
from html.parser import HTMLParser

ADDRESS = "http://page.test/index.html"


class Reader(HTMLParser):
    """What the file holds: tags with attributes, and the words between them."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.tags, self.words, self.inside = [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.inside.append(tag)

    def handle_endtag(self, tag):
        while self.inside and self.inside.pop() != tag:
            pass

    def handle_data(self, data):
        if "style" not in self.inside[-1:]:
            self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())

    def all(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]


@contextmanager
def opened(chromium, html, width=1100, scheme="light", **options):
    """Open a page with everything else cut off, and check afterwards that it wanted nothing."""
    context = chromium.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, **options
    )
    page = context.new_page()
    wanted, told = [], []

    def answer(route):
        if route.request.url == ADDRESS:
            route.fulfill(body=html, content_type="text/html; charset=utf-8")
        else:
            wanted.append(route.request.url)
            route.abort()

    page.route("**/*", answer)
    page.on("console", lambda message: told.append(message.text))
    page.on("pageerror", lambda error: told.append(str(error)))
    page.on("dialog", lambda dialog: (told.append(dialog.message), dialog.dismiss()))
    page.goto(ADDRESS)
    yield page
    context.close()
    assert wanted == []
    assert told == []


# The texts of every picture with their boxes, to be given the pictures.
TEXTS = """
all => all.map(svg => {
  const frame = svg.getBoundingClientRect();
  const boxes = [...svg.querySelectorAll('text')].filter(t => t.textContent.trim()).map(t => {
    const b = t.getBoundingClientRect();
    return {words: t.textContent, x: b.left, y: b.top, w: b.width, h: b.height};
  });
  return {name: svg.getAttribute('aria-label'), boxes,
          frame: {x: frame.left, y: frame.top, w: frame.width, h: frame.height}};
})
"""

# The contrast of every text with what lies behind it.
CONTRAST = """
() => {
  const rgba = text => {
    const n = text.match(/[\\d.]+/g).map(Number);
    return n.length < 4 ? [...n, 1] : n;
  };
  const light = c => {
    const linear = v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
    const [r, g, b] = c.map(v => linear(v / 255));
    return .2126 * r + .7152 * g + .0722 * b;
  };
  const ground = e => {
    for (; e; e = e.parentElement) {
      const c = rgba(getComputedStyle(e).backgroundColor);
      if (c[3] === 1) return c;
    }
    return [255, 255, 255, 1];
  };
  const found = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const e = walk.currentNode.parentElement;
    if (!walk.currentNode.textContent.trim() || e.closest('style')) continue;
    const style = getComputedStyle(e);
    const ink = rgba(e.closest('svg') ? style.fill : style.color);
    const a = light(ink.slice(0, 3)), b = light(ground(e).slice(0, 3));
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    found.push([walk.currentNode.textContent.trim().slice(0, 40), ratio]);
  }
  return found;
}
"""
