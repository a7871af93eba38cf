"""Changes of a model's folder."""

import json

from safetensors.torch import load_file, save_file


def rewrite(folder, change):
    """Change the tensors of a folder's file."""
    tensors = load_file(folder / "model.safetensors")
    save_file(change(tensors), folder / "model.safetensors")


def edit_config(folder, **changes):
    raw = json.loads((folder / "config.json").read_text())
    raw = {key: value for key, value in {**raw, **changes}.items() if value != "REMOVE"}
    (folder / "config.json").write_text(json.dumps(raw))
