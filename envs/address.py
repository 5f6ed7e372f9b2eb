"""Addresses within an application as a browser writes them (WHATWG URL standard), so that all drivers ask alike."""

import re
from collections.abc import Mapping
from urllib.parse import quote, urlencode

_PLAIN = re.compile(r"/[A-Za-z0-9_/-]*(\?[A-Za-z0-9_=&+.*-]*)?", re.ASCII)
# What Chromium leaves as it is; letters, digits and "_.-~" always are.
_IN_PATH = "%!$&'()*+,/:;=@[]"
_IN_QUERY = "%!$&()*+,/:;=@[]?\\^`{|}"


def address(text: str) -> str:
    """The address that a browser asks for when it is sent to `text`, which begins with "/".

    What follows "#" is dropped, "." and ".." are resolved, a backslash in the path is a slash, and every character that
    an address cannot hold is percent-encoded in UTF-8.
    """
    if _PLAIN.fullmatch(text):
        return text
    path, mark, query = text.partition("#")[0].partition("?")
    path = quote(path.replace("\\", "/"), _IN_PATH, errors="replace")
    if "." in path or "%2e" in path.lower():
        path = _resolved(path)
    return f"{path}{mark}{quote(query, _IN_QUERY, errors='replace')}"


def _resolved(path: str) -> str:
    parts = path.split("/")[1:]
    kept: list[str] = []
    for place, part in enumerate(parts):
        dots = part.lower().replace("%2e", ".")
        if dots not in (".", ".."):
            kept.append(part)
            continue
        if dots == "..":
            del kept[-1:]
        if place == len(parts) - 1:
            kept.append("")
    return "/" + "/".join(kept)


def form_query(fields: Mapping[str, str]) -> str:
    """Form fields as a browser sends them, in an address or in the body of a request."""
    return urlencode(fields, safe="*").replace("~", "%7E")
