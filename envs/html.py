"""A typed page as one HTML document, for a browser and for the drivers that parse it.

One node kind has one shape here, and `envos.envs.drivers.html` reads it back: every line of the observation is
one `h1`, `h2`, `p`, `ul`, `tr`, `div` (of a `dl`), `legend`, `label` or `button`, and the order of the document is
the order of the text. There is no script, nothing is fetched, and every text goes through markupsafe.
"""

from functools import lru_cache
from types import MappingProxyType

from markupsafe import escape

from envos.envs.page import (
    Banner,
    Cell,
    Facts,
    Form,
    Heading,
    Hidden,
    Link,
    Node,
    Page,
    Paragraph,
    Select,
    Table,
    TextField,
    Typed,
    standing,
)

NOTHING: Typed = MappingProxyType({})
"""Nothing was typed."""

STYLE = """
*{box-sizing:border-box}
body{margin:0;background:#f3f5f8;color:#1b2430;font:15px/1.45 system-ui,"Segoe UI","Liberation Sans",sans-serif}
p,td,th,dd,dt,li,label,legend,h1,h2{unicode-bidi:plaintext;overflow-wrap:break-word}
header{display:flex;flex-direction:column-reverse;background:#fff;border-bottom:1px solid #d5dbe3}
h1{margin:0;padding:16px 32px;font-size:22px;font-weight:600}
nav{background:#16324f}
nav ul{display:flex;flex-wrap:wrap;margin:0;padding:0 20px;list-style:none}
nav a{display:block;padding:12px;color:#fff;text-decoration:none}
nav a:hover{background:#27496d}
main{max-width:1280px;padding:20px 32px 40px;overflow-x:auto}
main>*{margin:0 0 18px}
h2{margin:26px 0 10px;font-size:17px;font-weight:600}
main>h2:first-child{margin-top:0}
a{color:#0b57a4}
:focus-visible{outline:3px solid #0b57a4;outline-offset:2px}
nav a:focus-visible{outline-color:#fff;outline-offset:-4px}
table{width:100%;border-collapse:collapse;background:#fff;border:1px solid #d5dbe3;font-variant-numeric:tabular-nums}
th,td{padding:8px 12px;text-align:start;vertical-align:top;border-bottom:1px solid #e4e8ee}
th{background:#e9edf2;color:#3c4857;font-size:13px;font-weight:600}
tbody tr:hover{background:#f4f8fc}
dl{background:#fff;border:1px solid #d5dbe3;padding:6px 16px}
dl div{display:flex;gap:16px;padding:6px 0}
dt{flex:0 0 170px;color:#4d5967}
dd{margin:0}
[role=status]{padding:10px 14px;background:#fff6dd;border-left:4px solid #9a6700}
form{display:flex;flex-wrap:wrap;gap:14px 20px;align-items:flex-end}
label{display:grid;gap:4px}
label span{font-weight:600;font-size:14px}
fieldset{flex:1 0 100%;margin:0;padding:8px 16px;background:#fff;border:1px solid #d5dbe3}
legend{font-weight:600;font-size:14px}
fieldset label{display:flex;align-items:center;gap:8px;padding:4px 0}
fieldset span{font-weight:400}
input,select,button{font:inherit;min-height:36px;padding:5px 10px;border-radius:4px}
input,select{accent-color:#0b57a4;min-width:240px;background:#fff;color:inherit;border:1px solid #6b7785}
fieldset input{min-width:0;min-height:0;width:18px;height:18px;margin:3px}
button{padding:5px 18px;background:#0b57a4;color:#fff;border:1px solid #0b57a4;font-weight:600;cursor:pointer}
button:hover{background:#084380}
dialog{position:fixed;inset:0;z-index:1;width:520px;max-width:90vw;height:fit-content;max-height:80vh;margin:auto;
padding:24px;overflow:auto;background:#fff;color:inherit;border:0;border-radius:6px;box-shadow:0 0 0 100vmax #101c2aa6}
dialog h2{margin:0 0 10px}
"""


def render(page: Page, typed: Typed = NOTHING) -> str:
    """The page as a self-contained HTML5 document, in the state that `typed` leaves it in."""
    writer = _Writer(typed)
    out = writer.out
    title = _safe(page.title)
    out.append(
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>'
        f'{title}</title><meta name="viewport" content="width=device-width,initial-scale=1">'
        f'<link rel="icon" href="data:,"><style>{STYLE}</style></head>\n<body>'
    )
    inert = ""
    if page.modal is not None:
        inert = " inert"
        out.append(
            '\n<dialog open role="alertdialog" aria-modal="true" aria-labelledby="title" aria-describedby="text">'
            f'<h2 id="title">{_safe(page.modal.title)}</h2><p id="text">{_safe(page.modal.text)}</p>'
        )
        writer.form(page.modal.form, " autofocus")
        out.append("</dialog>")
    out.append(f"\n<header{inert}><h1>{title}</h1>")
    if page.navigation:
        links = "</li><li>".join(map(_cell, page.navigation))
        out.append(f'<nav aria-label="Main"><ul><li>{links}</li></ul></nav>')
    out.append(f"</header>\n<main{inert}>")
    for node in page.body:
        writer.node(node)
    out.append("\n</main></body></html>\n")
    return "".join(out)


class _Writer:
    """Collects the pieces of a document; `typed` is looked up by the number of the form."""

    __slots__ = ("forms", "out", "typed")

    def __init__(self, typed: Typed) -> None:
        self.out: list[str] = []
        self.forms = 0
        self.typed = typed

    def node(self, node: Node) -> None:
        out = self.out
        if isinstance(node, Table):
            self.table(node)
        elif isinstance(node, Paragraph):
            out.append(f"\n<p>{' '.join(map(_cell, node.parts))}</p>")
        elif isinstance(node, Banner):
            out.append(f'\n<p role="status">{" ".join(map(_cell, node.parts))}</p>')
        elif isinstance(node, Facts):
            out.append("\n<dl>")
            for label, cell in node.items:
                out.append(f"\n<div><dt>{_safe(label)}</dt><dd>{_cell(cell)}</dd></div>")
            out.append("</dl>")
        elif isinstance(node, Heading):
            out.append(f"\n<h2>{_safe(node.text)}</h2>")
        else:
            self.form(node)

    def table(self, node: Table) -> None:
        out = self.out
        columns = '</th><th scope="col">'.join(map(_safe, node.columns))
        out.append(f'\n<table><thead><tr><th scope="col">{columns}</th></tr></thead><tbody>')
        for row in node.rows:
            out.append(f"\n<tr><td>{'</td><td>'.join(map(_cell, row))}</td></tr>")
        if not node.rows:
            out.append(f'\n<tr><td colspan="{max(1, len(node.columns))}">{_safe(node.empty)}</td></tr>')
        out.append("</tbody></table>")

    def form(self, node: Form, focus: str = "") -> None:
        out, number = self.out, self.forms
        self.forms += 1
        out.append(f'\n<form method="{_safe(node.method)}" action="{_safe(node.action)}" autocomplete="off">')
        for given in node.fields:
            field = standing(given, self.typed.get((number, given.name)))
            name, value = _safe(field.name), field.value
            if isinstance(field, Hidden):
                out.append(f'<input type="hidden" name="{name}" value="{_safe(value)}">')
                continue
            label = _safe(field.label)
            if isinstance(field, TextField):
                out.append(f'\n<label><span>{label}</span><input name="{name}" value="{_safe(value)}"></label>')
            elif isinstance(field, Select):
                out.append(f'\n<label><span>{label}</span><select name="{name}">')
                for choice, text in field.options:
                    on = " selected" if choice == value else ""
                    out.append(f'<option value="{_safe(choice)}"{on}>{_safe(text)}</option>')
                out.append("</select></label>")
            else:
                out.append(f'\n<fieldset name="{name}"><legend>{label}</legend>')
                for choice, text in field.options:
                    on = " checked" if choice == value else ""
                    out.append(
                        f'\n<label><input type="radio" name="{name}" value="{_safe(choice)}"{on}>'
                        f"<span>{_safe(text)}</span></label>"
                    )
                out.append("</fieldset>")
        out.append(f"\n<button{focus}>{_safe(node.submit)}</button></form>")


@lru_cache(maxsize=4096)
def _safe(text: str) -> str:
    # Pages repeat their texts, and a look-up costs a tenth of `escape`, which makes an object of its own each time.
    return str(escape(text))


def _cell(cell: Cell) -> str:
    if isinstance(cell, str):
        return _safe(cell)
    if isinstance(cell, Link):
        return f'<a href="{_safe(cell.href)}">{_safe(cell.label)}</a>'
    return _safe(cell.text)
