"""/docs: every route of /openapi.json on one page, which loads nothing and runs nothing."""

from html import escape
from typing import Any

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
  color-scheme: light dark }
h2 { margin: 2.5rem 0 .5rem } h3 { font-size: 1rem; margin: 1.5rem 0 .25rem } p { margin: .25rem 0 }
code { font: 14px/1.5 ui-monospace, monospace }
table { border-collapse: collapse; margin: .5rem 0 }
td, th { text-align: left; padding: .15rem 1rem .15rem 0; vertical-align: top }
"""
POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'"


def docs_page(schema: dict[str, Any]) -> str:
    """A page of HTML for an OpenAPI document."""
    groups: dict[str, list[str]] = {}
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            section = _operation(schema, path, method, operation)
            groups.setdefault(operation.get("tags", ["other"])[0], []).append(section)
    parts = [f"<h2>{escape(name)}</h2>{''.join(operations)}" for name, operations in groups.items()]
    title = escape(f"{schema['info']['title']} {schema['info']['version']}")
    head = f'<meta charset="utf-8"><title>{title}</title><style>{STYLE}</style>'
    about = (
        '<p>The same for machines: <a href="openapi.json">/openapi.json</a>. Errors are JSON with <code>error</code>, '
        "and every answer has an <code>X-Request-Id</code>.</p>"
    )
    body = f"<h1>{title}</h1>{about}{''.join(parts)}"
    return f'<!doctype html><html lang="en"><head>{head}</head><body>{body}</body></html>'


def _operation(schema: dict[str, Any], path: str, method: str, operation: dict[str, Any]) -> str:
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    fields = "" if body is None else _fields(schema, _resolved(schema, body))
    description = escape(operation.get("description") or operation.get("summary", ""))
    return f"<h3><code>{method.upper()} {escape(path)}</code></h3><p>{description}</p>{fields}"


def _fields(schema: dict[str, Any], body: dict[str, Any]) -> str:
    needed = body.get("required", ())
    rows = [
        f"<tr><td><code>{escape(name)}</code>{' *' if name in needed else ''}</td><td>{escape(kind(schema, one))}</td>"
        f"<td>{escape(one.get('description', ''))}</td></tr>"
        for name, one in body.get("properties", {}).items()
    ]
    return f"<table><tr><th>field</th><th>type</th><th></th></tr>{''.join(rows)}</table>"


def kind(schema: dict[str, Any], value: dict[str, Any]) -> str:
    """A schema in a few words."""
    if "$ref" in value:
        properties = _resolved(schema, value).get("properties", {})
        return f"{{{', '.join(properties)}}}"
    if "anyOf" in value:
        some = [kind(schema, one) for one in value["anyOf"] if one.get("type") != "null"]
        return " or ".join(dict.fromkeys(some))
    if "enum" in value or "const" in value:
        return " or ".join(map(repr, value.get("enum", [value.get("const")])))
    if value.get("type") == "array":
        return f"list of {kind(schema, value['items'])}"
    bounds = [f"{sign} {value[name]}" for name, sign in BOUNDS.items() if name in value]
    return " ".join([str(value.get("type", "any")), *bounds])


BOUNDS = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}


def _resolved(schema: dict[str, Any], value: dict[str, Any]) -> dict[str, Any]:
    if "$ref" not in value:
        return value
    name = value["$ref"].rpartition("/")[2]
    return schema["components"]["schemas"][name]  # type: ignore[no-any-return]
