"""Several ways to do one job, side by side: experiments that are grids of runs, finished runs, and ways to decode."""

EXPERIMENTS = {
    "ladder": "From a bag of words to a fine-tuned BERT, with 100, 1000, 10000… of your examples.",
    "scratch-vs-finetune": "One shape of model from random weights, fine-tuned, and with its body frozen.",
    "pooling": "One vector a text, by first token, pooler, mean, maximum, and from each layer, on pairs with scores.",
    "tokenizers": "Characters, WordPiece, BPE and unigram at several sizes, each under a small language model.",
    "optimisers": "AdamW, Adam, SGD, Adafactor and Muon, each at its best rate of a few, with their loss curves.",
    "schedules": "Constant, linear, cosine and other learning rates, with and without warm-up.",
}
"""What each experiment compares. It stands in compare/experiments, in a file and a class of its name."""
