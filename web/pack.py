"""Writes the pages as a C file: pack.py OUT FILE... Each file is a constant of the program, with
its type and a name for its content (an ETag)."""
import hashlib
import pathlib
import sys

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".json": "application/json",
}
SIZE_MAX = 300_000  # of all pages together, without the description of the API


def main():
    out, *names = sys.argv[1:]
    files = sorted(pathlib.Path(name) for name in names)
    contents = [file.read_bytes() for file in files]
    total = sum(len(content) for file, content in zip(files, contents) if file.name != "openapi.json")
    if total > SIZE_MAX:
        sys.exit(f"the pages have {total} bytes, more than {SIZE_MAX}")
    lines = ["/* Made by web/pack.py. */", '#include "node/api/pages.h"', ""]
    for number, content in enumerate(contents):
        rows = [", ".join(map(str, content[i:i + 24])) for i in range(0, len(content), 24)]
        lines += [f"static const unsigned char PAGE_{number}[] = {{", *(f"    {row}," for row in rows), "};", ""]
    lines.append("const struct rota_page rota_pages[] = {")
    for number, (file, content) in enumerate(zip(files, contents)):
        tag = hashlib.sha256(content).hexdigest()[:16]
        path = "/" if file.name == "index.html" else f"/{file.name}"
        lines.append(f'    {{"{path}", "{TYPES[file.suffix]}", "\\"{tag}\\"", PAGE_{number}, sizeof PAGE_{number}}},')
    lines += ["};", f"const size_t rota_n_pages = {len(files)};", ""]
    pathlib.Path(out).write_text("\n".join(lines), encoding="utf-8")


main()
