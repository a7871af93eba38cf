"""The keyword arguments of gf.train as editors and type checkers see them: a recipe's, the loop's and every task's.

What each means, and may be, stands where it is carried out (recipe.py, train/plan.py, the task's file): `make docs`
copies the meanings here, and a test holds names and types to those there.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Required, TypedDict

from glassformer.data.documents import Unit
from glassformer.data.rows import Format
from glassformer.models.contract import ProblemType
from glassformer.tasks.pooling import Mode
from glassformer.train.optimiser import OptimiserName
from glassformer.train.plan import Precision
from glassformer.train.schedule import ScheduleName

Files = str | Path | Sequence[str | Path]


class RunSettings(TypedDict, total=False):
    """What to train, on what, and where to put it."""

    task: Required[str]
    """What is learnt, by Hugging Face's name where it has one."""
    out: Required[str | Path]
    """The run folder: the model, its scores, curves, recipe and checkpoints."""
    data: Files
    """Training files, globs, - for stdin, hub:NAME, or microworld for made-up examples."""
    weights: Sequence[float] | None
    """Of several folders of shards in data: how much of what is learnt is from each; by default as they are large."""
    dev: Files
    """Files that choose the best weights; without any, a tenth of the data is held out."""
    test: Files
    """Files that are scored once, at the end."""
    columns: Mapping[str, str]
    """Which column is what, as text=review; by default found by the columns' names."""
    limit: int | None
    """Training examples at most, drawn so that no label is left out: for a quick try."""
    model: str | Path | None
    """A folder, zoo:NAME or hub name to fine-tune. Give model or arch."""
    arch: str | None
    """A kind of model to train from nothing: rnn, gru, lstm, seq2seq, transformer, bert, gpt2, …"""
    config: Mapping[str, Any]
    """Settings of the model, one by one as config.NAME: sizes of a fresh one, dropout of any."""
    tokenizer: str | Path | None
    """A folder, a hub name, or a vocabulary to learn: wordpiece, bpe, unigram, word (between blanks), wordpunct
        (words and punctuation) or character.
    """
    vocab_size: int | None
    """Tokens of a vocabulary that is learnt, at most; by default 8000, of words 30000."""
    lowercase: bool
    """Whether a vocabulary that is learnt folds capitals (wordpiece: accents too)."""
    freeze: str | None
    """Parts not to train, as 'embeddings,layers.0-5'; '!head' trains the head alone."""
    lora: int | None
    """Rank of LoRA adapters that are trained in the place of the layers, as 8: less memory."""
    lora_targets: str
    """Linear layers that get an adapter, in the patterns of freeze."""
    device: str
    """Where to train: auto (a GPU if there is one), cpu, cuda, cuda:1 or mps."""
    tensorboard: bool
    """Also write curves for TensorBoard."""


class LoopSettings(TypedDict, total=False):
    """How to train."""

    epochs: float | None
    """Passes over the training data; 0.5 is half of one. Give epochs or steps."""
    steps: int | None
    """Updates of the weights, in the place of epochs."""
    batch_size: int | None
    """Examples an update sees, over all processes. Larger is steadier, and wants a higher lr."""
    batch_tokens: int | None
    """Tokens an update sees, padding counted, in the place of batch_size: for texts of unlike length."""
    shuffle_window: int
    """Tokens among which examples are mixed; more are mixed part by part, so that remote shards are fetched once."""
    accumulate: int
    """Micro-batches each batch is cut into, on each process: less memory, the same result."""
    lr: float
    """Peak learning rate: lower it when the loss jumps or a fine-tuned model forgets."""
    schedule: ScheduleName
    """How the learning rate falls after the warm-up; plateau halves it when dev scores stop improving."""
    warmup: float
    """Steps over which the rate rises from 0; below 1, that share of all steps."""
    final_lr: float
    """Share of lr that is left at the end, of the schedules linear and cosine."""
    optimiser: OptimiserName
    """What takes the step; muon steps hidden matrices and leaves the rest to adamw."""
    weight_decay: float
    """Pull of matrices towards 0; biases and norms are never decayed. More against overfitting."""
    beta1: float
    """Decay of Adam's mean of gradients."""
    beta2: float
    """Decay of Adam's mean of squared gradients; 0.98 or 0.99 follows large changes sooner."""
    eps: float
    """What Adam adds to its denominator."""
    momentum: float
    """Momentum of sgd; other optimisers have none."""
    clip: float | None
    """Largest norm of the gradient; a larger one is scaled down to it. 0 for no limit."""
    layer_decay: float
    """Each layer learns at this share of the rate above it; 0.9 keeps lower layers as pretrained."""
    precision: Precision
    """What the forward pass computes in; weights stay fp32. bf16 on a recent GPU, fp16 on an older one."""
    compile: bool
    """Compile the layers with torch.compile: slow to start, then faster on a GPU."""
    checkpointing: bool
    """Forget activations and compute them again in the backward pass: less memory, more time."""
    parallel: Literal["ddp", "fsdp", "hsdp"]
    """Under torchrun: the whole model on each process, shards of it over all, or a whole one in each group of them."""
    shard_size: int | None
    """Processes of a group of hsdp; by default those of a machine."""
    tensor_parallel: int
    """Under torchrun: processes that compute one model together, each some of its heads, neurons and words."""
    context_parallel: int
    """Under torchrun: processes that read each text together, each some of its positions: for long ones."""
    min_num_params: int
    """With fsdp, gather layers together until they have so many parameters: calls cost more than to keep small ones."""
    reshard: bool
    """With fsdp, free a layer after its forward pass and gather it again: less memory, more exchange."""
    offload: bool
    """With fsdp, keep shards and the optimiser's state in the memory of the CPU."""
    deadline: float
    """Minutes to wait for a process that does not answer; then the run stops and names it."""
    ema: float | None
    """Decay of a moving average of the weights, as 0.999; the average is scored and kept."""
    average: int
    """Checkpoints whose weights are averaged at the end: the last so many. 1 for none."""
    eval_every: int | None
    """Steps between evaluations on dev; by default every epoch, and at the end."""
    save_every: int | None
    """Steps between checkpoints; by default one after each evaluation."""
    save_minutes: float
    """Minutes after which a checkpoint is written between those as well; 0 for never."""
    log_every: int
    """Steps between the lines that tell the loss."""
    metric: str | None
    """Score that tells the best weights, with - before it where less is better; by default the task's own."""
    patience: int | None
    """Stop after so many evaluations without a better one; by default never."""
    keep: Literal["best", "last"]
    """Which weights the run folder ends with: of the best evaluation, or the last."""
    seed: int
    """Seed of initial weights, order, dropout and masks: the same seed gives the same run."""


class TaskSettings(TypedDict, total=False):
    """What the tasks can be told; which task takes which is checked when a run begins."""

    bleu: bool
    """Measure BLEU at every evaluation, and keep the best by it; else only at the end."""
    bleu_lowercase: bool
    """Compare lowercased in BLEU and chrF; bleu_cased and chrf_cased stand beside them."""
    bleu_tokenize: str | None
    """sacreBLEU's tokenizer, as 13a or zh; by default by the references' language."""
    block_size: int | None
    """text-generation: Tokens of a block, what the model sees at once. By default what it reads, 256 without a
        limit.
    span-corruption: Tokens of a block. By default what the model reads, up to 512.
    """
    bpe_dropout: float
    """Share of BPE merges left out in training, anew each epoch; 0.1 helps with little data."""
    carry_state: bool
    """RNNs: go on from the state after the block before (truncated backpropagation through time)."""
    chunk: int | None
    """Places whose scores are made at a time, and twice: less memory with a large vocabulary."""
    column: int
    """Of a CoNLL file: the column of tags, from 0; -1 is the last."""
    conditions: Sequence[str]
    """Kinds of text to learn, in this order; by default the labels of the data."""
    context: int
    """Sentences before and after that are read around each, as far as they fit; 0 for none."""
    copies: int
    """Times that pairs are made from the documents, each time others; 10 for a small text."""
    detection_weight: float
    """Weight of the model's loss beside the generator's."""
    doc_stride: int
    """Tokens that two windows of a long context share, so that no answer is cut in both."""
    exact_match: bool
    """Measure the share of texts that are right from end to end, and keep the best by it."""
    file_format: Format | None
    """How files are written, where their names do not tell; first-word: a label, then the text."""
    generate: Mapping[str, Any] | None
    """Settings of generation that texts are scored with, as generate.num_beams=4; the folder keeps them."""
    generator_size: float
    """Share of the model's width and heads that the generator has; the paper's 0.25 to 0.5."""
    head: str
    """text2text-generation, text-generation or, of parity and adding, text-classification. By default what suits
        the arch.
    """
    header: bool | None
    """Whether the first line of a csv or tsv names the columns; by default found out."""
    label_smoothing: float
    """Share of the target spread over all classes or tokens; 0.1 makes a model less sure."""
    labels: str | Sequence[str] | None
    """Names of classes: negative,positive for 0 and 1; 1=bad,2=good; or a file with a name a line."""
    length: int | None
    """Digits of made-up examples: in training at most, in dev and test exactly. Files have their own."""
    loss: Literal["cosine", "contrastive"]
    """cosine: pairs with scores; contrastive: pairs that belong together, against the others of the batch."""
    mask_rate: float
    """Share of the tokens that are to be guessed. By default the paper's: 0.15, ModernBERT 0.3."""
    max_answer_length: int
    """Tokens of an answer at most."""
    max_length: int | None
    """text-classification, zero-shot-classification, sentence-similarity, feature-extraction, sentence-
        embedding: Tokens of an example at most; a longer one is cut. By default what the model reads, up to
        1024.
    token-classification: Tokens of a window; a longer sentence has several. By default what the model reads,
        up to 1024.
    question-answering: Tokens of a window: question, context, special. By default what the model reads, up to
        384.
    fill-mask, pretraining, sentence-order-prediction, replaced-token-detection: Tokens of an example at most.
        By default what the model reads, up to 128.
    translation, text2text-generation: Tokens of a source and of a target at most. By default what the model
        reads, up to 1024.
    """
    max_question_length: int
    """Tokens of a question at most; a longer one is cut, a context never."""
    max_source_length: int | None
    """Tokens of a text at most. By default what the model reads, up to 1024."""
    max_target_length: int | None
    """Tokens of a summary at most. By default what the model can write."""
    mean_noise_span_length: float
    """Tokens of a stretch that is taken out, on average."""
    ngrams: int
    """Longest run of words that one mask hides; n words with a chance in proportion to 1/n."""
    noise_density: float
    """Share of the tokens that are taken out."""
    normalize: bool
    """Whether vectors have the length 1."""
    null_threshold: float
    """How much higher no answer must score than the best one to be chosen."""
    packing: bool
    """fill-mask, replaced-token-detection: Join all documents and cut them into full blocks; else each line is
        an example, cut to max_length.
    text-generation: Join all documents and cut them into full blocks; else each document is a row, cut to
        block_size.
    """
    pooling: Mode
    """How the vectors of tokens become one of the text."""
    prefix: str
    """translation, text2text-generation: What is put before every source, as T5 is told what to do: "translate
        English to German: ".
    summarization: What is put before every text, as T5 is told what to do: "summarize: ".
    """
    problem_type: ProblemType
    """One class a text, any number of classes, or a score (regression)."""
    r_drop: float
    """text-classification, zero-shot-classification: Weight (alpha) of how far two passes with different dropout
        differ; 1 is usual, for twice the time.
    translation, text2text-generation: Weight (alpha) of how far two passes with different dropout differ; 5
        is usual, for twice the time.
    """
    random_windows: bool
    """Take training blocks from anywhere in the text, in the place of the same cuts each epoch."""
    rouge: bool
    """Measure ROUGE at every evaluation, and keep the best by it; else only at the end."""
    scale: float
    """What cosines are multiplied by in the contrastive loss (1 / temperature)."""
    score_range: tuple[float, float]
    """The least and the highest score that a pair can have. By default those of the data."""
    shards: bool | None
    """Stream the text through files on disk, for more than memory; by default from 256 MB on."""
    src_lang: str | None
    """Code of the sources' language, for a multilingual tokenizer (NLLB, M2M-100, mBART)."""
    static_masks: int
    """Choices of masks an epoch draws from, as 10 (BERT's); 0 for new ones in every epoch."""
    stride: int | None
    """Tokens a window moves on: each token has block_size - stride before it. By default block_size."""
    tgt_lang: str | None
    """Code of the targets' language, for a multilingual tokenizer."""
    unit: Unit | None
    """fill-mask, replaced-token-detection, text-generation, span-corruption: What is a document: a file, an
        article (WikiText's headings), a block between blank lines, a line.
    pretraining, sentence-order-prediction: What is a document; by default an article or file or, if there is
        only one, a block.
    """
    whole_words: bool
    """Choose all tokens of a word or none: harder guesses."""
    word_column: int
    """Of a CoNLL file: the column of words, from 0."""


class TrainSettings(RunSettings, LoopSettings, TaskSettings, total=False):
    """All of them."""
