"""The shapes of OpenAI's API: what its requests may hold, and what answers do."""

from typing import Annotated, Any, Literal

from pydantic import Field

from .fields import Count, Flag, Ids, Number, Reply, Seed, Strict, Text


class EmbeddingRequest(Strict):
    input: Text | list[Text] | Ids | list[Ids]
    model: Text
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: Count | None = None
    user: Text | None = None


class StreamOptions(Strict):
    include_usage: Flag | None = None
    include_obfuscation: Flag | None = None


class WritingRequest(Strict):
    """What completions and chat share."""

    model: Text
    n: Count | None = None
    temperature: Number | None = Field(None, ge=0, le=2)
    top_p: Number | None = Field(None, gt=0, le=1)
    presence_penalty: Number | None = Field(None, ge=-2, le=2)
    frequency_penalty: Number | None = Field(None, ge=-2, le=2)
    logit_bias: dict[Text, Annotated[float, Field(ge=-100, le=100)]] | None = None
    stop: Text | list[Text] | None = None
    seed: Seed | None = None
    stream: Flag | None = None
    stream_options: StreamOptions | None = None
    user: Text | None = None


class CompletionRequest(WritingRequest):
    prompt: Text | list[Text] | Ids | list[Ids]
    max_tokens: Count | None = None
    logprobs: Annotated[int, Field(strict=True, ge=0)] | None = None
    echo: Flag | None = None
    best_of: Count | None = None


class ContentPart(Strict):
    type: Literal["text"]
    text: Text


class ChatMessage(Strict):
    role: Text
    content: Text | list[ContentPart] | None = None
    name: Text | None = None


class ResponseFormat(Strict):
    type: Literal["text"]


class ChatRequest(WritingRequest):
    messages: Annotated[list[ChatMessage], Field(min_length=1)]
    max_tokens: Count | None = None
    max_completion_tokens: Count | None = None
    logprobs: Flag | None = None
    top_logprobs: Annotated[int, Field(strict=True, ge=0)] | None = None
    response_format: ResponseFormat | None = None
    metadata: dict[Text, Text] | None = None
    store: Flag | None = None


class ModelCard(Reply):
    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str = "glassformer"
    task: str | None = None


class ModelList(Reply):
    object: Literal["list"] = "list"
    data: list[ModelCard]


class EmbeddingData(Reply):
    object: Literal["embedding"]
    index: int
    embedding: list[float] | str


class EmbeddingUsage(Reply):
    prompt_tokens: int
    total_tokens: int


class EmbeddingReply(Reply):
    object: Literal["list"]
    model: str
    data: list[EmbeddingData]
    usage: EmbeddingUsage


class UsageReply(EmbeddingUsage):
    completion_tokens: int


class CompletionLogprobs(Reply):
    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float]]
    text_offset: list[int]


class CompletionChoice(Reply):
    index: int
    text: str
    logprobs: CompletionLogprobs | None
    finish_reason: Literal["stop", "length"]


class CompletionReply(Reply):
    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: UsageReply


class AnsweredMessage(Reply):
    role: Literal["assistant"]
    content: str
    refusal: None


class ChatChoice(Reply):
    index: int
    message: AnsweredMessage
    logprobs: dict[str, Any] | None
    finish_reason: Literal["stop", "length"]


class ChatReply(Reply):
    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[ChatChoice]
    usage: UsageReply
