"""The tokenizer: a call that is written is read back, one for each turn, on the tokens of a rollout."""

import copy
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl")
tokenizers = pytest.importorskip("tokenizers")
transformers = pytest.importorskip("transformers")

from trl.chat_template_utils import qwen3_template  # noqa: E402

from envos.errors import UsageError  # noqa: E402
from envos.train.trl_chat import (  # noqa: E402
    answered,
    check_tokenizer,
    counted,
    labelled,
    pieces,
    prepare_tokenizer,
    prompt_tokens,
    schemas_of,
)
from envos.train.trl_data import Told, demonstrate, examples  # noqa: E402
from envos.train.trl_env import tool_environment  # noqa: E402

CLAIMS = "EnvOS/ClaimsStale-v0"


def byte_level(special: list[str]) -> Any:
    """A tokenizer of single bytes and some special tokens."""
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=300, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    made.train_from_iterator(["a tool call"], trainer)
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made)


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return prepare_tokenizer(byte_level(["<|endoftext|>", "<|im_start|>", "<|im_end|>"]))


def test_a_prepared_tokenizer_ends_turns_and_pads_otherwise(tokenizer: Any) -> None:
    assert (tokenizer.eos_token, tokenizer.pad_token, tokenizer.padding_side) == ("<|im_end|>", "<|endoftext|>", "left")
    assert counted(tokenizer)("abc") == 3


def test_a_tokenizer_without_turns_is_refused() -> None:
    with pytest.raises(UsageError, match="only ChatML"):
        prepare_tokenizer(byte_level(["<|endoftext|>"]))


def test_the_test_of_itself_finds_what_is_wrong(tokenizer: Any) -> None:
    """As TRL reads it both calls of a turn are carried out, the second before the first one's result was seen."""
    broken = copy.deepcopy(tokenizer)
    broken.response_template = qwen3_template
    with pytest.raises(UsageError, match="not read back"):
        check_tokenizer(broken)
    broken = copy.deepcopy(tokenizer)
    broken.chat_template = "{% for message in messages %}{{ message.content }}{% endfor %}"
    with pytest.raises(UsageError, match="does not write tool calls"):
        check_tokenizer(broken)


def test_a_demonstration_has_the_tokens_of_a_rollout(tokenizer: Any, tmp_path: Path) -> None:
    """Put together the pieces are the template's text; prompt and answers are what a rollout is given."""
    told = Told(CLAIMS)
    (one,) = examples(demonstrate(told, (1,), "train", ("L0",), "any", tmp_path), told, {})
    schemas = schemas_of(tool_environment(CLAIMS))
    parts = pieces(tokenizer, one.messages, schemas)
    ids, said = labelled(parts, 10**6)
    whole = tokenizer.apply_chat_template(one.messages, tools=schemas, tokenize=False)
    assert tokenizer.decode(ids) == whole.removesuffix("\n")
    assert parts[0] == prompt_tokens(tokenizer, one.messages[:2], schemas)
    for place, message in enumerate(one.messages[3::2]):
        if message["role"] == "tool":
            assert parts[2 + 2 * place] == answered(tokenizer, message["name"], message["content"])
    spoken = tokenizer.decode([token for token, own in zip(ids, said, strict=True) if own])
    assert spoken.startswith(
        '<tool_call>\n{"name": "list_claims", "arguments": {"status": "open"}}\n</tool_call><|im_end|>'
    )
    assert spoken.endswith("Done.<|im_end|>")
    assert spoken.count("<|im_end|>") == len(one.messages[2::2])
    assert labelled(parts, 10) == (ids[:10], said[:10])


def test_the_schemas_are_those_that_trl_shows() -> None:
    """By name, as TRL lists the methods of a class."""
    names = [schema["function"]["name"] for schema in schemas_of(tool_environment(CLAIMS, tools=("report", "memo")))]
    assert names == ["memo", "report"]
