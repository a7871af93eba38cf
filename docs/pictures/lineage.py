"""The pictures of the page of the lineage."""

import numpy as np
from docs.diagram import Diagram, Kind

import glassformer as gf
from glassformer.view.heatmap import heatmap

YEAR = 70.0  # pixels from one row to the next
ENCODER = {"hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4, "vocab_size": 8000}
FULL = ENCODER | {"intermediate_size": 1024, "max_position_embeddings": 512}
DISTANCES = {"relative_attention": True, "position_buckets": 256, "pos_att_type": ["c2p", "p2c"]}
DISTANCES |= {"share_att_key": True, "norm_rel_ebd": "layer_norm", "position_biased_input": False}
MODELS = {
    "BERT": ("bert", FULL),
    "RoBERTa": ("roberta", FULL | {"pad_token_id": 1}),
    "ALBERT": ("albert", FULL | {"embedding_size": 64}),
    "ELECTRA": ("electra", FULL | {"embedding_size": 64}),
    "DeBERTa v3": ("deberta-v2", FULL | DISTANCES),
    "ModernBERT": ("modernbert", ENCODER | {"intermediate_size": 384, "max_position_embeddings": 512}),
    "Llama": ("llama", FULL | {"intermediate_size": 688, "num_key_value_heads": 2}),
}


def lineage_tree() -> str:
    """Who came from whom."""
    picture = Diagram(
        "The family: readers, translators, writers",
        "From the Transformer of 2017 come three branches. Encoders: BERT 2018, then RoBERTa and ALBERT 2019, ELECTRA "
        "2020, DeBERTa 2020 and ModernBERT 2024. Both sides: BART and T5 2019, NLLB 2022. Decoders: GPT 2018, GPT-2 "
        "2019, Llama 2023. ModernBERT has its parts from Llama's time.",
    )
    row = {year: YEAR * place for place, year in enumerate((2017, 2018, 2019, 2020, 2022, 2023, 2024))}
    for year, y in row.items():
        picture.word(-160, y, str(year), small=True)
    root = picture.box(240, row[2017], "Transformer", kind="gate")
    bert = picture.box(0, row[2018], "BERT", kind="state")
    modern = picture.box(0, row[2024], "ModernBERT", kind="state")
    nllb = picture.box(240, row[2022], "NLLB")
    gpt = picture.box(430, row[2018], "GPT", kind="data")
    gpt2 = picture.box(430, row[2019], "GPT-2", kind="data")
    llama = picture.box(430, row[2023], "Llama", kind="data")
    picture.arrow(root.left, (0, row[2017]), bert.top)
    picture.arrow(root.right, (430, row[2017]), gpt.top)
    for above, below in ((bert, modern), (root, nllb), (gpt, gpt2), (gpt2, llama)):
        picture.arrow(above.bottom, below.top)
    for name, x, year in (("RoBERTa", -80, 2019), ("ELECTRA", -80, 2020), ("BART", 172, 2019)):
        picture.arrow((240 if x > 0 else 0, row[year]), picture.box(x, row[year], name, kind=_side(x)).right)
    for name, x, year in (("ALBERT", 80, 2019), ("DeBERTa", 80, 2020), ("T5", 308, 2019)):
        picture.arrow((240 if x > 200 else 0, row[year]), picture.box(x, row[year], name, kind=_side(x)).left)
    picture.arrow(llama.bottom, (430, row[2024]), modern.right, dashed=True)
    picture.word(240, row[2024] - 12, "rotary positions, gates, no biases", small=True)
    return picture.svg()


def _side(x: float) -> Kind:
    return "state" if x < 100 else "plain"


def lineage_sizes() -> str:
    """Parameters of the embeddings and of the layers, all of one shape."""
    rows = []
    for kind, settings in MODELS.values():
        model = gf.build(kind, None, **settings)
        parts = [sum(one.numel() for one in part.parameters()) for part in (model.embeddings, model.layers)]
        rows.append([round(count / 1e6, 2) for count in parts])
    return heatmap(
        np.array(rows),
        rows=list(MODELS),
        columns=("tables", "layers"),
        title="Millions of parameters, all of one shape",
        axes=("model", "embedding tables, and layers"),
        form=".2f",
    )
