"""Makes a site of the pages: site.py DIRECTORY.

The pages are those of the repository, with the layout of the repository, and every file that they
link to; mkdocs makes HTML of them in DIRECTORY/html, with a search, and fails for a link that leads
nowhere. The navigation is docs/README.md: a section for each heading, a page for each link."""
import json
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGES = ["*.md", "docs/*.md", "docs/api/*.md", "docs/hacking/*.md", "examples/*.md"]
LINK = re.compile(r"\[([^]]*)\]\(([^)#\s]+)(?:#[^)]*)?\)")

SETTINGS = """\
site_name: Rota
docs_dir: pages
site_dir: html
use_directory_urls: false
theme:
  name: material
  custom_dir: theme
  font: false
  features: [navigation.top, search.highlight]
  palette:
    - media: "(prefers-color-scheme: light)"
      scheme: default
      toggle: {{icon: material/weather-night, name: Dark mode}}
    - media: "(prefers-color-scheme: dark)"
      scheme: slate
      toggle: {{icon: material/weather-sunny, name: Light mode}}
extra: {{generator: false}}
plugins: [search]
markdown_extensions:
  - tables
  - md_in_html
  - pymdownx.superfences
  - pymdownx.magiclink
  - toc:
      permalink: true
      slugify: !!python/name:pymdownx.slugs.gfm
nav:
{nav}
"""

# A browser reads neither an index nor a worker from a file: URL, but scripts.
THEME = """\
{% extends "base.html" %}
{% block config %}{{ super() }}
<script>
if (location.protocol === "file:")
    document.write('<script src="{{ "search/offline.js" | url }}"></' + 'script>');
</script>
{% endblock %}
"""
OFFLINE = """\
var __search = {{index: Promise.resolve({index}),
                worker: URL.createObjectURL(new Blob([{worker}], {{type: "text/javascript"}}))}};
"""


def links_of(page):
    """The files that it links to, and what the links say."""
    prose = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    for text, link in LINK.findall(prose):
        if "://" not in link:
            yield text, (page.parent / link).resolve()


def copy(path, folder):
    target = folder / path.relative_to(ROOT)
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(path, target)


def stage(folder):
    """The pages, and what they link to."""
    pages = [path for pattern in PAGES for path in sorted(ROOT.glob(pattern))]
    for page in pages:
        copy(page, folder)
        for _, path in links_of(page):
            if path.is_file() and path not in pages:
                copy(path, folder)


def title_of(page):
    return re.search(r"^# (.*)$", page.read_text(), re.MULTILINE)[1].replace("`", "")


def nav():
    lines, seen = ["  - Rota: README.md"], set()
    index = ROOT / "docs" / "README.md"
    section = None
    for line in index.read_text().splitlines():
        if line.startswith("## "):
            section = line[3:]
        for _, link in LINK.findall(line):
            path = (index.parent / link).resolve()
            if path.suffix == ".md" and path not in seen:
                if section:
                    lines.append(f'  - "{section}":')
                    section = None
                seen.add(path)
                lines.append(f'      - "{title_of(path)}": {path.relative_to(ROOT)}')
    lines.append('  - "C library":')
    lines += [f'      - "{title_of(path)}": {path.relative_to(ROOT)}'
              for path in sorted((ROOT / "docs" / "api").glob("*.md")) if path not in seen]
    return "\n".join(lines)


def write_offline_search(html):
    worker, = html.glob("assets/javascripts/workers/search.*.js")
    script = OFFLINE.format(index=(html / "search" / "search_index.json").read_text(),
                            worker=json.dumps(worker.read_text()))
    (html / "search" / "offline.js").write_text(script)


def main():
    folder = pathlib.Path(sys.argv[1]).resolve()
    shutil.rmtree(folder, ignore_errors=True)
    stage(folder / "pages")
    (folder / "theme").mkdir()
    (folder / "theme" / "main.html").write_text(THEME)
    settings = folder / "mkdocs.yml"
    settings.write_text(SETTINGS.format(nav=nav()))
    if subprocess.run(["mkdocs", "build", "--quiet", "--strict", "--config-file", settings]).returncode:
        return 1
    for unused in [*folder.glob("html/**/*.map"), *folder.glob("html/sitemap.xml*")]:
        unused.unlink()
    write_offline_search(folder / "html")
    print(folder / "html" / "index.html")
    return 0


if __name__ == "__main__":
    sys.exit(main())
