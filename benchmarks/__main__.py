"""Run every benchmark, print one table and write benchmarks/results/latest.json."""

import json
import platform
import sys
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from . import continuous, corpus, decode, encoder, llama_cpp, recording, serve, startup, studio, tokenize, training

PARTS = (
    startup,
    recording,
    encoder,
    decode,
    continuous,
    serve,
    llama_cpp,
    tokenize,
    corpus,
    training,
    studio,
)  # llama_cpp where it is installed

RESULTS = Path(__file__).parent / "results" / "latest.json"


def main() -> None:
    torch.set_num_threads(2)
    rows = [line for part in PARTS for line in part.run()]
    table = Table("work", "ours", "peer", "", "times the peer", box=None)
    for line in rows:
        ours, peer = (f"{line[who]:.4g} {line['unit']}" for who in ("ours", "peer"))
        table.add_row(line["name"], ours, peer, line["peer_name"], f"{line['ratio']:.2f}")
    Console(width=None if sys.stdout.isatty() else 200).print(table)
    RESULTS.parent.mkdir(exist_ok=True)
    machine = {"cpu": torch.backends.cpu.get_cpu_capability(), "threads": 2, "torch": torch.__version__}
    machine |= {"python": platform.python_version()}
    RESULTS.write_text(json.dumps({"machine": machine, "rows": rows}, indent=2))
    print(f"written to {RESULTS}")


if __name__ == "__main__":
    main()
