"""Bag of words: logistic regression on the counts of tokens, written as one score for each token and class.

B batch, T length, C classes. Σ_t E[token t] + b is W · counts + b, with W the transpose of the table E (V, C).
"""

from dataclasses import dataclass, field

from torch import Tensor, nn

from glassformer.blocks.embeddings import TokenEmbeddings, check_length
from glassformer.blocks.masks import as_keep
from glassformer.blocks.output import Bias
from glassformer.blocks.point import FeaturePoint
from glassformer.blocks.pooling import SumPooling
from glassformer.files.schema import NotNegative, Size, TokenId

from . import config as hf
from .architecture import Architecture, Head
from .outputs import Logits
from .pretrained import PreTrainedModel


@dataclass(frozen=True, kw_only=True)
class BowConfig(hf.BaseConfig):
    """What a Bow is built from."""

    model_type: str = "glassformer-bow"
    vocab_size: Size
    initializer_range: NotNegative = 0.0  # the problem is convex: no symmetry needs breaking
    pad_token_id: TokenId | None = 0
    bos_token_id: TokenId | None = None
    eos_token_id: TokenId | list[TokenId] | None = None
    problem_type: hf.ProblemType | None = None
    id2label: dict[int, str] = field(default_factory=lambda: {0: "LABEL_0", 1: "LABEL_1"})

    max_positions = None


class Bow(PreTrainedModel):
    """A text classifier that knows how often each token occurs, and nothing of their order."""

    is_causal = False

    def __init__(self, config: BowConfig, head: str | None = "text-classification") -> None:
        super().__init__()
        self.config, self.head_name = config, head
        classes = len(config.id2label)
        self.embeddings = TokenEmbeddings(
            config.vocab_size, classes, dropout=nn.Dropout(0.0), std=config.initializer_range
        )
        self.features = FeaturePoint(classes)  # what each token says for each class
        self.pooling = SumPooling()
        self.head = Bias(classes)

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Logits:
        """attention_mask (B, T): 1 = keep; padding may stand anywhere."""
        return Logits(self.head(self.pooling(self.hidden(input_ids, attention_mask))))  # (B, C)

    def hidden(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """The scores of every token (B, T, C), zero at padding."""
        check_length(input_ids.shape[1], None)
        scores, keep = self.embeddings(input_ids), as_keep(attention_mask, input_ids)
        shown = scores if keep is None else scores.masked_fill(~keep[..., None], 0.0)
        return self.features(shown)


ARCHITECTURE = Architecture(
    model_type="glassformer-bow",
    config=BowConfig,
    build=Bow,
    small={"initializer_range": 0.0},
    heads={"text-classification": Head("BowForSequenceClassification")},
)
