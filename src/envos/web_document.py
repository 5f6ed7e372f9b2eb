"""One self-contained HTML document: data that is never markup, and one script and one sheet of ours, told by digest.

The content security policy lets nothing else run, load or be sent, also when the document is opened as a file.
"""

import base64
import hashlib
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from markupsafe import escape

from envos.envs.html import STYLE

_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}
"""What could end the element that holds the data, or begin another one."""


def document(title: str, script: str, found: Mapping[str, Any]) -> tuple[str, str]:
    """The document that shows some JSON data by a script of ours ("view" or "play"), and its policy."""
    code, style = _asset("web.js") + _asset(f"{script}.js"), _asset("web.css")
    policy = content_policy(code, style)
    held = json.dumps(found, allow_nan=False)
    for char, other in _ESCAPES.items():
        held = held.replace(char, other)
    body = (
        f"<noscript><p>This page needs its own script.</p></noscript>"
        f'<script type="application/json" id="data">{held}</script><script>{code}</script>'
    )
    return _page(title, style, policy, body), policy


def plain(title: str, body: str) -> tuple[str, str]:
    """A document without a script, and its policy; `body` is markup, with all texts escaped."""
    style = _asset("web.css")
    policy = f"default-src 'none'; style-src {_digest(style)}; img-src data:; base-uri 'none'; form-action 'self'"
    return _page(title, style, policy, body), policy


def content_policy(code: str, style: str) -> str:
    """Nothing but this script and these sheets; a shown page brings its own sheet along, and may send nothing."""
    styles = f"{_digest(style)} {_digest(STYLE)}"
    return (
        f"default-src 'none'; script-src {_digest(code)}; style-src {styles}; img-src data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'"
    )


def _page(title: str, style: str, policy: str, body: str) -> str:
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        '<meta name="referrer" content="no-referrer">'
        f'<title>{escape(title)}</title><link rel="icon" href="data:,"><style>{style}</style></head>\n'
        f"<body>{body}</body></html>\n"
    )


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@cache
def _asset(name: str) -> str:
    return Path(__file__).with_name(name).read_text("utf-8")
