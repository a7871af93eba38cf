"""The convolutional text classifier (Kim, 2014): embeddings, filters of several widths, the largest over time, a head.

B batch, T length, D embedding width, F filters of one width, N widths, C classes.
"""

from dataclasses import dataclass, field

from torch import Tensor, nn

from glassformer.blocks.convolution import Convolution
from glassformer.blocks.embeddings import TokenEmbeddings, check_length
from glassformer.blocks.masks import as_keep
from glassformer.blocks.point import FeaturePoint
from glassformer.blocks.pooling import MaxPooling
from glassformer.files.schema import NotNegative, Probability, Size, TokenId

from . import config as hf
from .architecture import Architecture, Head
from .outputs import Logits
from .pretrained import PreTrainedModel


@dataclass(frozen=True, kw_only=True)
class CnnConfig(hf.BaseConfig):
    """What a Cnn is built from."""

    model_type: str = "glassformer-cnn"
    vocab_size: Size
    embedding_size: Size = 300
    filter_widths: list[Size] = field(default_factory=lambda: [3, 4, 5])  # tokens that a filter sees
    num_filters: Size = 100  # of each width
    dropout: Probability = 0.5
    initializer_range: NotNegative = 0.1
    pad_token_id: TokenId | None = 0
    bos_token_id: TokenId | None = None
    eos_token_id: TokenId | list[TokenId] | None = None
    problem_type: hf.ProblemType | None = None
    id2label: dict[int, str] = field(default_factory=lambda: {0: "LABEL_0", 1: "LABEL_1"})

    max_positions = None


class Cnn(PreTrainedModel):
    """A text classifier. A filter's feature at a token is of the window around it, and the text's is the largest."""

    is_causal = False

    def __init__(self, config: CnnConfig, head: str | None = "text-classification") -> None:
        super().__init__()
        if not config.filter_widths:
            raise ValueError("filter_widths is empty; give at least one width, such as [3, 4, 5]")
        self.config, self.head_name = config, head
        self.embeddings = TokenEmbeddings(
            config.vocab_size, config.embedding_size, dropout=nn.Dropout(0.0), std=config.initializer_range
        )
        self.convolution = Convolution(config.embedding_size, config.num_filters, config.filter_widths)
        self.features = FeaturePoint(width := config.num_filters * len(config.filter_widths))
        self.pooling = MaxPooling()
        self.dropout = nn.Dropout(config.dropout)
        self.head = nn.Linear(width, len(config.id2label))

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Logits:
        """attention_mask (B, T): 1 = keep; padding may stand left, right or in between."""
        features = self.pooling(self.hidden(input_ids, attention_mask))  # (B, F·N)
        return Logits(self.head(self.dropout(features)))  # (B, C)

    def hidden(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """The features of every token (B, T, F·N), zero at padding."""
        check_length(input_ids.shape[1], None)
        x = self.convolution(self.embeddings(input_ids), as_keep(attention_mask, input_ids))
        return self.features(x)


ARCHITECTURE = Architecture(
    model_type="glassformer-cnn",
    config=CnnConfig,
    build=Cnn,
    small={"embedding_size": 128, "num_filters": 100, "dropout": 0.5},
    heads={"text-classification": Head("CnnForSequenceClassification")},
)
