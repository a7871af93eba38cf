"""One server for all tests of this folder, with a model for every task."""

from collections.abc import Iterator

import pytest

from serve.cases import ZOO, Running, chat_folder, nli_folder, running


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("served")
    own = [chat_folder(folder / "chat"), nli_folder(folder / "nli")]
    with running([*(f"zoo:{name}" for name in ZOO), *own], rows=4) as one:
        yield one
