"""Several ways to do one job, side by side: experiments that are grids of runs, finished runs, and ways to decode."""

EXPERIMENTS = {
    "ladder": "From a bag of words to a fine-tuned BERT, with 100, 1000, 10000… of your examples.",
    "positions": "Sinusoidal, learned, rotary, relative or no positions: losses at the trained length and beyond it.",
    "recurrence": "RNN, GRU, LSTM and Transformer: gradients by distance; parity, copy and adding by length.",
    "scaling": "Time and memory of one layer of each kind by the length of the text, with fitted exponents.",
    "scratch-vs-finetune": "One shape of model from random weights, fine-tuned, and with its body frozen.",
    "layers-heads": "Transformers of several depths, heads and widths: score, cost, and heads that can be ablated.",
    "attention": "Translation by an RNN without attention, with Bahdanau's and Luong's, and by a Transformer.",
    "pooling": "One vector a text, by first token, pooler, mean, maximum, and from each layer, on pairs with scores.",
    "tokenizers": "Characters, WordPiece, BPE and unigram at several sizes, each under a small language model.",
    "pretraining": "Masked words, next sentences, replaced tokens, next words…: what each is worth after fine-tuning.",
    "optimisers": "AdamW, Adam, SGD, Adafactor and Muon, each at its best rate of a few, with their loss curves.",
    "schedules": "Constant, linear, cosine and other learning rates, with and without warm-up.",
}
"""What each experiment compares. It stands in compare/experiments, in a file and a class of its name."""
