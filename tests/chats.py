"""A small Llama with a tokenizer that puts BOS before a text, and chat templates in the styles of several families."""

import json
from pathlib import Path

import tokenizers
from tokenizers import decoders, models, pre_tokenizers, processors

import glassformer as gf
from families import shake

CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + "
    "'\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
LLAMA_2 = """{% if messages[0]['role'] == 'system' %}
    {% set rest = messages[1:] %}
    {% set system = messages[0]['content'] %}
{% else %}
    {% set rest = messages %}
    {% set system = false %}
{% endif %}
{% for message in rest %}
    {% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
        {{- raise_exception('roles must take turns: user, assistant, user, assistant') }}
    {% endif %}
    {% if loop.index0 == 0 and system != false %}
        {% set content = '<<SYS>>\\n' + system + '\\n<</SYS>>\\n\\n' + message['content'] %}
    {% else %}
        {% set content = message['content'] %}
    {% endif %}
    {% if message['role'] == 'user' %}
        {{- bos_token + '[INST] ' + content.strip() + ' [/INST]' }}
    {% elif message['role'] == 'assistant' %}
        {{- ' ' + content.strip() + ' ' + eos_token }}
    {% endif %}
{% endfor %}"""
LLAMA_3 = """{{- bos_token }}
{%- if not date is defined %}{% set date = strftime_now('%Y') %}{% endif %}
{%- for message in messages %}
    {{- '<|start|>' + message['role'] + '<|end|>\\n\\n' + message['content'] | trim + '<|eot|>' }}
{%- endfor %}
{{- '<|start|>system<|end|>' + date if tools is not none }}
{%- if tools is not none %}
    {%- for tool in tools %}
        {{- tool | tojson(indent=4) + '\\n' }}
    {%- endfor %}
{%- endif %}
{%- if add_generation_prompt %}
    {{- '<|start|>assistant<|end|>\\n\\n' }}
{%- endif %}
"""
QWEN = """{%- set ns = namespace(last='') %}
{%- if messages[0].role != 'system' %}
    {{- '<|im_start|>system\\nYou help.<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if message.content is not string %}{% continue %}{% endif %}
    {%- set ns.last = message.role %}
    {{- '<|im_start|>' ~ message.role ~ '\\n' ~ message.content ~ '<|im_end|>\\n' }}
{%- endfor %}
{%- if tools %}
    {{- '<tools>' ~ (tools | tojson) ~ '</tools>' }}
{%- endif %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}"""
MISTRAL = """{{ bos_token }}{% for message in messages %}
{%- if message['role'] == 'user' %}[INST] {{ message['content'] }} [/INST]
{%- else %}{% generation %}{{ message['content'] }}{{ eos_token }}{% endgeneration %}
{%- endif %}{% endfor %}"""
TEMPLATES = {"chatml": CHATML, "llama-2": LLAMA_2, "llama-3": LLAMA_3, "qwen": QWEN, "mistral": MISTRAL}


def tokenizer_folder(folder: Path, *, bos: bool = True, eos: bool = False, **config: object) -> Path:
    """Byte-level tokens; BOS before a text and EOS after it, where asked for."""
    vocab = {token: number for number, token in enumerate(["<pad>", "<s>", "</s>", "<unk>"])}
    for letter in sorted(pre_tokenizers.ByteLevel.alphabet()):
        vocab[letter] = len(vocab)
    rust = tokenizers.Tokenizer(models.BPE(vocab, [], unk_token="<unk>"))
    rust.pre_tokenizer, rust.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    rust.add_special_tokens(["<pad>", "<s>", "</s>", "<unk>", "<|im_start|>", "<|im_end|>"])
    single = " ".join(["<s>"] * bos + ["$A"] + ["</s>"] * eos)
    pair = " ".join(["<s>"] * bos + ["$A", "$B"] + ["</s>"] * eos)
    rust.post_processor = processors.TemplateProcessing(
        single=single, pair=pair, special_tokens=[("<s>", 1), ("</s>", 2)]
    )
    folder.mkdir(parents=True, exist_ok=True)
    rust.save(str(folder / "tokenizer.json"))
    named = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
    stated = {"tokenizer_class": "PreTrainedTokenizerFast", **named, **config}
    (folder / "tokenizer_config.json").write_text(json.dumps(stated), encoding="utf-8")
    return folder


def llama_folder(folder: Path, **config: object) -> Path:
    """A random Llama beside such a tokenizer."""
    tok = gf.load_tokenizer(tokenizer_folder(folder, **config))
    model = gf.build(
        "llama",
        "text-generation",
        vocab_size=len(tok),
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=256,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )
    return gf.save(shake(model), folder)
