"""A page to read: one HTML file, its style, and the rule that nothing else runs in it or comes from elsewhere."""

import re
from base64 import b64encode
from hashlib import sha256

from .colours import variables

STYLE = """
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); line-height: 1.5; -webkit-text-size-adjust: 100%;
  font-family: var(--sans); }
main { max-width: 76rem; margin: 0 auto; padding: clamp(1.5rem, 5vw, 3.5rem) clamp(1rem, 4vw, 2.5rem); }
h1 { margin: 0 0 .4rem; font-size: clamp(1.5rem, 4vw, 2.1rem); line-height: 1.15; letter-spacing: -.02em;
  text-wrap: balance; overflow-wrap: anywhere; }
h2 { margin: 2.75rem 0 .3rem; font-size: 1.2rem; letter-spacing: -.01em; overflow-wrap: anywhere; }
p { margin: 0 0 .9rem; max-width: 60rem; color: var(--soft); overflow-wrap: anywhere; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 14px; padding: 1.1rem 1.3rem;
  overflow-x: auto; }
.card + .card { margin-top: .5rem; }
table { border-spacing: 0; width: 100%; font-variant-numeric: tabular-nums; font-size: .92rem; }
th, td { padding: .42rem .7rem; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; padding-left: 0; font-weight: 600; }
th:last-child, td:last-child { padding-right: 0; }
thead th { color: var(--soft); font-weight: 500; font-size: .82rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .25rem 1rem; margin: 1rem 0 0; color: var(--soft);
  font-size: .85rem; }
dt { color: var(--ink); } dd { margin: 0; max-width: 52rem; overflow-wrap: anywhere; min-width: 0; }
.scroll { overflow-x: auto; padding-bottom: .6rem; }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 3px; }
figure { margin: 1rem 0 0; background: var(--card); border: 1px solid var(--line); border-radius: 14px;
  padding: .4rem .6rem .8rem; break-inside: avoid; }
figure svg { display: block; margin: 0 auto; max-width: max(100%, 36rem); height: auto; }
figcaption { margin: .2rem .7rem 0; text-align: center; color: var(--soft); font-size: .85rem;
  overflow-wrap: anywhere; }
@media (max-width: 40rem) { dl { grid-template-columns: 1fr; gap: 0; } dd { margin-bottom: .5rem; } }
@media print { main { padding: 0; max-width: none; } .card, .scroll { overflow: visible; } }
"""
PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="generator" content="made by glassformer">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<main>
{body}
</main>
{script}</body>
</html>
"""


def document(title: str, body: str, *, style: str, script: str = "", style_attributes: bool = False) -> str:
    """The whole page. `title` and `body` are HTML, every text in them escaped; `style` is added to that of all pages.

    Only this style, those of the pictures in the body, and this script are let run, by their hashes; a page whose
    parts have style attributes allows all styles instead.
    """
    style = variables() + STYLE + style
    sheets = dict.fromkeys([style, *re.findall("<style>(.*?)</style>", body, re.DOTALL)])
    styles = "'unsafe-inline'" if style_attributes else " ".join(map(source_hash, sheets))
    policy = f"default-src 'none'; style-src {styles}; base-uri 'none'; form-action 'none'"
    if script:
        policy += f"; script-src {source_hash(script)}"
        script = f"<script>{script}</script>\n"
    return PAGE.format(title=title, body=body, style=style, policy=policy, script=script)


def figure(svg: str, caption: str) -> str:
    """A picture, and its caption as HTML; one that is wider than the page scrolls by itself."""
    return f'<figure><div class="scroll" tabindex="0">{svg}</div><figcaption>{caption}</figcaption></figure>'


def source_hash(text: str) -> str:
    """A script or a style as a Content-Security-Policy names it."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
