"""The picture of the page about many machines."""

from docs.diagram import Diagram

WIDTH, GAP, HIGH = 74.0, 14.0, 60.0
LAYOUTS = {
    "ddp": ("the whole model on each GPU", ["all of it"] * 8),
    "fsdp": ("an eighth of it on each", [f"{number}/8" for number in range(1, 9)]),
    "hsdp": ("a quarter on each, once in each machine", [f"{number}/4" for number in range(1, 5)] * 2),
}


def scale_layouts() -> str:
    """Where the weights are, on two machines with four GPUs each."""
    picture = Diagram(
        "Two machines of four GPUs: where the weights are",
        "ddp: the whole model on each of eight GPUs. fsdp: each holds an eighth of it. hsdp: each holds a quarter, and "
        "each of the two machines has all of it; gradients are summed between the machines.",
    )
    for row, (name, (meaning, parts)) in enumerate(LAYOUTS.items()):
        top = row * (HIGH + 62)
        picture.word(-16, top, name, anchor="end")
        for machine in range(2):
            left = machine * (4 * (WIDTH + GAP) + 2 * GAP)
            picture.frame(left - GAP, top - 36, left + 4 * (WIDTH + GAP), top + 36, f"machine {machine + 1}")
            for place, part in enumerate(parts[4 * machine : 4 * machine + 4]):
                kind = "data" if name == "ddp" else "state"
                picture.box(left + place * (WIDTH + GAP) + WIDTH / 2, top + 6, part, kind=kind, width=WIDTH)
        picture.word(0, top + 52, meaning, small=True, anchor="start")
    return picture.svg()
