"""Files: json and toml checked against what they may hold, all written whole or not at all, and C compiled once."""

from .reading import JsonFile, has_file, parse_json, read_json, read_text, read_toml
from .schema import conform, shown
from .writing import replacing, write_atomically, write_bytes, write_json, write_text

__all__ = [
    "JsonFile",
    "conform",
    "has_file",
    "parse_json",
    "read_json",
    "read_text",
    "read_toml",
    "replacing",
    "shown",
    "write_atomically",
    "write_bytes",
    "write_json",
    "write_text",
]
