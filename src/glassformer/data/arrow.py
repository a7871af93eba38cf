"""Rows out of parquet files and hub data sets, with the names of classes in place of their numbers."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from glassformer.data.source import DataSource, HubName, extra

Cells = dict[str, Any]


def read_parquet(source: DataSource) -> tuple[list[str], Iterator[Cells]]:
    """The columns and rows of a parquet file, a batch at a time."""
    parquet = extra("pyarrow.parquet", source.name)
    errors = extra("pyarrow", source.name).ArrowException
    try:
        if source.path is None:
            with source.opened() as waiting:
                file = parquet.ParquetFile(extra("pyarrow", source.name).BufferReader(waiting.read()))
        else:
            file = parquet.ParquetFile(source.path)
    except (errors, OSError) as error:
        raise ValueError(f"{source.name} is not a parquet file ({one_line(error)}): is it whole?") from None
    written = (file.schema_arrow.metadata or {}).get(b"huggingface", b"{}")
    features = json.loads(written).get("info", {}).get("features") or {}

    def rows() -> Iterator[Cells]:
        try:
            with file:
                for batch in file.iter_batches():
                    yield from batch.to_pylist()
        except (errors, OSError) as error:  # its end was there, and what stands before it is not
            raise ValueError(f"{source.name} cannot be read to its end ({one_line(error)}): is it whole?") from None

    return list(file.schema_arrow.names), with_class_names(rows(), features)


def parquet_schema(path: Path) -> Any:
    """The kinds of a parquet file's columns, as arrow has them."""
    return extra("pyarrow.parquet", str(path)).read_schema(path)


def read_hub(source: DataSource) -> tuple[list[str], Iterator[Cells]]:
    """The columns and rows of a hub data set, from its cache where it is there."""
    assert source.hub is not None
    datasets = extra("datasets", source.name)
    try:
        found = load(datasets, source.hub)
    except Exception as error:  # of many kinds: no network, no such name, config or split, a file that is broken
        raise ValueError(f"{source.name} cannot be loaded: {one_line(error)}") from None
    batches = found.with_format("arrow").iter(batch_size=1000)
    rows = (row for batch in batches for row in batch.to_pylist())
    return list(found.column_names), with_class_names(rows, found.features.to_dict())


def load(datasets: Any, hub: HubName) -> Any:
    """A split of a data set; a folder may hold its files, or what `save_to_disk` wrote."""
    folder = Path(hub.name).expanduser()
    if (folder / "dataset_dict.json").is_file():
        return datasets.load_from_disk(str(folder))[hub.split]
    if (folder / "state.json").is_file():
        return datasets.load_from_disk(str(folder))
    name = str(folder) if folder.is_dir() else hub.name
    return datasets.load_dataset(name, hub.config, split=hub.split)


def with_class_names(rows: Iterator[Cells], features: dict[str, Any]) -> Iterator[Cells]:
    """Rows in which the numbers of classes are their names, if the data say what they are called."""
    spell = {column: speller for column, feature in features.items() if (speller := speller_of(feature))}
    for row in rows:
        yield row | {column: speller(row[column]) for column, speller in spell.items()}


def speller_of(feature: Any) -> Callable[[Any], Any] | None:
    """What turns a cell of numbered classes into names; None for a column of another kind."""
    if isinstance(feature, list):  # as older versions wrote a column of lists
        feature = {"feature": feature[0]}
    if isinstance(inner := feature.get("feature"), dict):
        each = speller_of(inner)
        return each and (lambda cell: None if cell is None else [each(one) for one in cell])
    names = feature.get("names")
    if feature.get("_type") != "ClassLabel" or not names:
        return None
    return lambda cell: names[cell] if isinstance(cell, int) and 0 <= cell < len(names) else None


def one_line(error: Exception) -> str:
    """The first line of an error's message."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
