"""Reading small files whole: text, json and toml, with errors that name the file and what is wrong in it."""

import json
import tomllib
from pathlib import Path
from typing import Any, TypeVar, overload

from .schema import conform

T = TypeVar("T")


class JsonFile(dict[str, Any]):
    """The object in a JSON file, which remembers the file for errors about its values."""

    def __init__(self, path: Path) -> None:
        super().__init__(read_json(path))
        self.path = str(path)


def has_file(path: Path) -> bool:
    """Whether a file is there; an error where a folder, a pipe or a device has its name."""
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is {'a folder' if path.is_dir() else 'no regular file'}: a file is needed")
    return path.is_file()


def read_text(path: Path) -> str:
    """The text of a file in UTF-8; a pipe or a folder of that name is refused, not waited for."""
    if not has_file(path):
        raise ValueError(f"{path} is not there: a file is needed")
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path} is not in UTF-8 (byte {error.start} cannot be read): write it again in UTF-8"
        ) from None
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from None


@overload
def read_json(path: Path) -> dict[str, Any]: ...
@overload
def read_json(path: Path, schema: type[T]) -> T: ...
def read_json(path: Path, schema: Any = dict[str, Any]) -> Any:
    """The JSON value in a file, which fits the schema; an empty object where there is no file."""
    if not has_file(path):
        return {}
    value = parse_json(read_text(path), str(path))
    conform(value, schema, str(path))
    return value


def parse_json(text: str, name: str) -> Any:
    """The value of a JSON text that came from `name`."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError(f"{name} is nested too deeply to be read") from None
    except ValueError as error:
        raise ValueError(f"{name} is not valid JSON ({error}): download or write it again") from None


def read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(read_text(path))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path} is not TOML: {error}") from None
    except RecursionError:
        raise ValueError(f"{path} is nested too deeply to be read") from None
