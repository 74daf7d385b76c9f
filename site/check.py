"""Checks a built site: every page is valid HTML with a title and one first heading, every link and anchor within the site leads somewhere,
every picture has a description, and a browser would load nothing from elsewhere. Prints each fault and exits with 1 if there is one."""

import os
import posixpath
import sys
from urllib.parse import unquote, urljoin, urlsplit

import html5lib

ALLOWED = {"unexpected-char-in-comment"}  # two hyphens in a comment: a fault of HTML once, no longer
LOADED = {("script", "src"), ("img", "src"), ("iframe", "src"), ("source", "src"), ("video", "src"), ("audio", "src")}
LOADED_RELS = {"stylesheet", "icon", "preload", "prefetch", "preconnect", "dns-prefetch", "modulepreload", "manifest"}


def read(path):
    with open(path, encoding="utf-8") as f:
        parser = html5lib.HTMLParser(tree=html5lib.getTreeBuilder("etree"), namespaceHTMLElements=False)
        root = parser.parse(f.read())
    return root, [(line, html5lib.constants.E[code] % args) for (line, _), code, args in parser.errors if code not in ALLOWED]


def check(folder):
    faults, pages = [], {}
    for top, _, names in os.walk(folder):
        for name in names:
            if name.endswith(".html"):
                path = posixpath.join(top, name)
                pages[posixpath.relpath(path, folder)] = read(path)
    ids = {}
    for page, (root, errors) in pages.items():
        fault = lambda text, page=page: faults.append(f"{page}: {text}")
        for line, error in errors:
            fault(f"line {line}: {error}")
        ids[page] = set()
        for node in root.iter():
            if not isinstance(node.tag, str):
                continue
            id = node.get("id")
            if id is not None:
                if id in ids[page]:
                    fault(f"two elements have the id {id}")
                ids[page].add(id)
        if not (root.findtext("head/title") or "").strip():
            fault("no title")
        if (n := len(list(root.iter("h1")))) != 1:
            fault(f"{n} first headings")
    links = 0
    for page, (root, _) in pages.items():
        fault = lambda text, page=page: faults.append(f"{page}: {text}")
        if page == "404.html":
            continue  # its links are absolute: it is shown at any address
        for node in root.iter():
            if node.tag == "img" and not (node.get("alt") or node.get("aria-hidden") == "true") and "logo" not in (node.get("src") or ""):
                fault(f"the picture {node.get('src')} has no description")
            for attribute in ("href", "src"):
                to = node.get(attribute) if isinstance(node.tag, str) else None
                if to is None:
                    continue
                url = urlsplit(to)
                loads = (node.tag, attribute) in LOADED or node.tag == "link" and LOADED_RELS & set((node.get("rel") or "").split())
                if url.scheme or url.netloc:
                    if loads and url.scheme != "data":
                        fault(f"a browser would load {to}")
                    continue
                links += 1
                target = unquote(urlsplit(urljoin("/" + page, to)).path).lstrip("/")
                if target == "" or target.endswith("/"):
                    target += "index.html"
                if not posixpath.isfile(posixpath.join(folder, target)):
                    fault(f"the link {to} leads nowhere")
                elif url.fragment and target in ids and unquote(url.fragment) not in ids[target]:
                    fault(f"the link {to}: {target} has no such anchor")
    for name in sorted(os.listdir(posixpath.join(folder, "assets", "stylesheets"))):
        with open(posixpath.join(folder, "assets", "stylesheets", name), encoding="utf-8") as f:
            if name.endswith(".css") and ("url(http" in (css := f.read()) or "@import" in css):
                faults.append(f"{name}: a browser would load something from elsewhere")
    return len(pages), links, faults


if __name__ == "__main__":
    pages, links, faults = check(sys.argv[1])
    for fault in faults:
        print(fault)
    print(f"{pages} pages, {links} links within the site, {len(faults)} faults")
    sys.exit(1 if faults or pages < 20 else 0)
