"""Makes one site of pages that live where GitHub's readers expect them: README.md and its like become pages, and links between them, to
files of the repository and to decisions are fitted. Links that lead nowhere stay as they are, so that the strict build names them."""

import os
import posixpath
import re
import subprocess

from mkdocs.structure.files import File

ROOT = posixpath.dirname(posixpath.dirname(posixpath.abspath(__file__)))
CODE = "https://github.com/warmpath/warmpath/"
# Pages beside docs/, and where the site has them.
BESIDE = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "reporting.md",
}
PLACE = {page: source for source, page in BESIDE.items()}
# Generated pages have tables and headings made of code; what is between backquotes is not a link.
LINK = re.compile(r"(`+[^`]*`+)|(\]\()([^()\s#]*)(#[^()\s]*)?(\))")


def on_config(config):
    for section in config.nav:
        for entry in section.values():
            if isinstance(entry, list):
                for item in entry:
                    for name, where in item.items():
                        if where.endswith("/"):
                            folder = posixpath.join(ROOT, "docs", where)
                            item[name] = [where + page for page in sorted(os.listdir(folder), key=lambda p: (p != "README.md", p)) if page.endswith(".md")]
    return config


def on_files(files, config):
    for source, page in BESIDE.items():
        with open(posixpath.join(ROOT, source), encoding="utf-8") as f:
            files.append(File.generated(config, page, content=f.read()))
    return files


def on_page_markdown(markdown, page, config, files):
    place = page.file.src_uri
    if place == "index.md":
        page.meta["hide"] = ["navigation"]
    source = PLACE.get(place, "docs/" + place)  # where the page is in the repository

    def fit(m):
        code, opening, path, anchor, closing = m.groups()
        if code or not path or ":" in path:
            return m.group(0)
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        if target in BESIDE:
            to = BESIDE[target]
        elif target.startswith("docs/") and posixpath.isfile(posixpath.join(ROOT, target)):
            to = target.removeprefix("docs/")
        elif tracked(target):
            kind = "tree" if posixpath.isdir(posixpath.join(ROOT, target)) else "blob"
            return f"{opening}{CODE}{kind}/main/{target}{anchor or ''}{closing}"
        else:
            return m.group(0)
        return f"{opening}{posixpath.relpath(to, posixpath.dirname(place) or '.')}{anchor or ''}{closing}"

    out, fenced = [], False
    for line in markdown.split("\n"):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        out.append(line if fenced else LINK.sub(fit, line))
    return "\n".join(out)


def tracked(target):
    """Says whether the repository has a file or folder, and not only this machine."""
    return subprocess.run(["git", "ls-files", "--error-unmatch", target], cwd=ROOT, capture_output=True, check=False).returncode == 0
