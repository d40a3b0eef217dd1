"""The files of the view: served unchanged, or combined into one page for an exported history."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Final, NamedTuple

from barnabas.web.history import SeenHistory

INDEX: Final = "index.html"
TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
MODULES: Final = ("facts.js", "decode.js", "draw.js", "picture.js", "pages.js", "view.js")
"""Each module imports only from those before it, and no two define the same name: so together they form one script."""
PROTECTION: Final = (
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
)

_IMPORT: Final = re.compile(r"^import [^;]*;\n", re.M)
_EXPORT: Final = re.compile(r"^export ", re.M)


class Asset(NamedTuple):
    data: bytes
    content_type: str


def asset(name: str) -> Asset | None:
    """A file of the view by its name; None if there is none."""
    return _assets().get(name or INDEX)


@cache
def _assets() -> dict[str, Asset]:
    """All files of the view. They are small, and no request can read any other file."""
    return {
        file.name: Asset(file.read_bytes(), TYPES[file.name.rpartition(".")[2]])
        for file in files("barnabas.web").joinpath("static").iterdir()
        if file.name.rpartition(".")[2] in TYPES
    }


def exported(history: SeenHistory) -> Iterator[bytes]:
    """A self-contained HTML file with the view and `history`."""
    assets = _assets()
    page = assets[INDEX].data.decode()
    style = assets["view.css"].data.decode()
    script = "\n".join(_EXPORT.sub("", _IMPORT.sub("", assets[name].data.decode())) for name in MODULES)
    before, link, page = page.partition('<link rel="stylesheet" href="view.css">')
    middle, loading, after = page.partition('<script type="module" src="view.js"></script>')
    assert link, "the page has its style"
    assert loading, "the page has its script"
    yield f'{before}<style>{style}</style>{middle}<script type="application/json" id="history">'.encode()
    for piece in history.pieces():
        # `<` occurs in strings only. Escaped, no text can end the script element early or keep it open beyond its end.
        yield piece.replace(b"<", b"\\u003c")
    yield f'</script><script type="module">{script}</script>{after}'.encode()
