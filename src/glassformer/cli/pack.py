"""`glassformer pack` and `unpack`: a model as one file, for machines without a network, and back."""

from typing import Annotated

import typer

from .output import Force, Json, Name, echo_line, print_json, size


def pack(
    name: Name,
    file: Annotated[str, typer.Argument(metavar="FILE", help="The archive to write: model.gfz.")],
    force: Force = False,
    json: Json = False,
) -> None:
    """Put a model into one file: weights, tokenizer, recipe, card, and answers that are asked again at unpacking.

    The same model gives the same bytes. The sha256 that is printed, told by another way, says that nobody changed it.

    Example: glassformer pack zoo:bert-mini-en-ner ner.gfz
    """
    from glassformer.export.pack import pack

    made = pack(name, file, force=force)
    if json:
        print_json(made)
        return
    echo_line(f"{made['file']}: {size(made['bytes'])}, sha256 {made['sha256']}")


def unpack(
    file: Annotated[str, typer.Argument(metavar="FILE", help="An archive that glassformer pack wrote.")],
    folder: Annotated[str, typer.Argument(metavar="DIR", help="A new folder for the model.")],
    json: Json = False,
) -> None:
    """Take a model out of an archive, check every byte, and ask it again what it answered when it was packed.

    What is wrong is one line and exit code 1, and leaves nothing behind. No code of an archive is run.

    Example: glassformer unpack ner.gfz ./ner
    """
    from glassformer.export.pack import unpack

    made = unpack(file, folder)
    if json:
        print_json(made)
        return
    echo_line(f"{made['folder']}: {len(made['files'])} files; the model answers as when it was packed")
    echo_line(f"largest error {made['error']:.1e}")
