"""What the tests of language models share: small vocabularies, small models, and a loop that trains them."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch

from glassformer.data import microworld
from glassformer.data.batches import Budget, Schedule
from glassformer.hub.registry import build
from glassformer.text.train import train

DROPOUTS = ("hidden_dropout_prob", "attention_probs_dropout_prob")
ROWS = Budget(rows=16)
SIZES = {"character": 200, "bpe": 300, "wordpiece": 150, "unigram": 80}


def tokenizer_of(texts, kind, vocab_size=None):
    with TemporaryDirectory() as folder:
        path = Path(folder) / "corpus.txt"
        path.write_text("\n".join(texts), encoding="utf-8")
        return train([path], kind=kind, vocab_size=vocab_size or SIZES[kind])


def micro_world(kind, vocab_size=400):
    """A vocabulary, and documents to train on and to be judged by."""
    train_documents = microworld.examples("documents", 300, seed=0, language="en")
    dev_documents = microworld.examples("documents", 40, seed=1, language="en")
    return tokenizer_of([one.text for one in train_documents], kind, vocab_size), train_documents, dev_documents


def small_gpt(vocab_size, **options):
    settings = {"n_embd": 24, "n_head": 2, "n_layer": 2, "n_positions": 64, "initializer_range": 0.1}
    torch.manual_seed(0)
    off = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0)
    return build("gpt2", "text-generation", vocab_size=vocab_size, **settings | off | options)


def small_bert(vocab_size, head="fill-mask", kind="bert", **options):
    sizes = {"hidden_size": 32, "num_attention_heads": 2, "num_hidden_layers": 2, "intermediate_size": 64}
    if kind == "distilbert":
        sizes = {"dim": 32, "n_heads": 2, "n_layers": 2, "hidden_dim": 64}
    settings = {"vocab_size": vocab_size, "max_position_embeddings": 64, "initializer_range": 0.1}
    off = ("dropout", "attention_dropout") if kind == "distilbert" else DROPOUTS
    torch.manual_seed(0)
    return build(kind, head, **sizes | settings | dict.fromkeys(off, 0.0) | options)


def gradients(model, task, items, parts, seed):
    """The summed loss over some batches, how many targets they have, and the gradient of every tensor."""
    model.zero_grad()
    batches = [task.batch(items, np.asarray(part), seed) for part in parts]
    loss = sum(task.loss(model, batch) for batch in batches)
    loss.backward()
    found = [torch.zeros_like(p) if p.grad is None else p.grad.clone() for p in model.parameters()]
    return loss.detach(), sum(batch.count for batch in batches), found


def learn(model, task, items, *, steps, lr, rows):
    """A plain loop: batches of `rows`, AdamW, the mean over the targets."""
    torch.manual_seed(0)
    optimiser = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.0)
    rate = torch.optim.lr_scheduler.OneCycleLR(optimiser, lr, total_steps=steps)
    model.train()
    done = 0
    while done < steps:
        for indices in Schedule(items.lengths, Budget(rows=rows), seed=1).epoch(done)[: steps - done]:
            batch = task.batch(items, indices, seed=done + 1)
            optimiser.zero_grad()
            (task.loss(model, batch) / batch.count).backward()
            optimiser.step()
            rate.step()
            done += 1
    return model.eval()


def unigram_entropy(ids):
    """The least loss, in nats, of a model that knows nothing but how often each token comes in this very text."""
    _, counts = np.unique(ids, return_counts=True)
    shares = counts / counts.sum()
    return float(-(shares * np.log(shares)).sum())
