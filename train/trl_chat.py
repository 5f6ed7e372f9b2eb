"""A tokenizer made ready for tool calls, with a test of itself, and conversations as the tokens of a rollout."""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from transformers.utils import get_json_schema
from trl.chat_template_utils import (
    is_chat_template_prefix_preserving,
    parse_response,
    qwen3_instruct_2507_chat_template,
    qwen3_template,
    supports_tool_calling,
)

from envos.envs.result import Size
from envos.errors import UsageError
from envos.train.trl_env import ToolEnvironment

END = "<|im_end|>"
_ONE_CALL = r"</tool_call>(?s:.*)"
"""Ends a tool call, and takes all that comes after it: what a second call of one turn is answered with would have been
delivered only after that call."""
_SAMPLE = {"text": 'A "quoted" name, Élan {1}\nsecond line', "number": 7}


def prepare_tokenizer(tokenizer: Any) -> Any:
    """The tokenizer with a template for tool calls that TRL can train on, padding, and one call for each turn.

    It is changed in place. For tokenizers with the ChatML tokens (Qwen, SmolLM2 and many more). Raises UsageError for
    any other, and where a call that is written by the template is not read back as it was.
    """
    for name in ("<|im_start|>", END):
        if len(tokenizer(name, add_special_tokens=False)["input_ids"]) != 1:
            raise UsageError(f"the tokenizer has no token {name}: only ChatML tokenizers are prepared")
    tokenizer.chat_template = qwen3_instruct_2507_chat_template
    template: dict[str, Any] = copy.deepcopy(qwen3_template)
    template["fields"]["tool_calls"]["close_pattern"] = _ONE_CALL
    tokenizer.response_template = template
    tokenizer.eos_token = END
    tokenizer.padding_side = "left"
    if tokenizer.pad_token is None or tokenizer.pad_token == END:
        # Padding must not look like the end of a turn.
        tokenizer.pad_token = next((name for name in ("<|endoftext|>",) if name in tokenizer.get_vocab()), END)
    check_tokenizer(tokenizer)
    return tokenizer


def check_tokenizer(tokenizer: Any) -> None:
    """Write a call and its answer by the template, read the call back, and compare. Raises UsageError."""
    function = {"name": "note_down", "arguments": _SAMPLE}
    asked = [{"role": "user", "content": "Please."}]
    said = {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": function}]}
    answered = {"role": "tool", "name": "note_down", "content": "noted"}
    if not supports_tool_calling(tokenizer) or not is_chat_template_prefix_preserving(tokenizer):
        raise UsageError("the chat template does not write tool calls so that a rollout can go on from its tokens")
    start, *rest = pieces(tokenizer, [*asked, said, answered, {"role": "assistant", "content": "Done."}], [])
    whole = tokenizer.apply_chat_template([*asked, said, answered], tokenize=False, add_generation_prompt=True)
    if tokenizer.decode([*start, *rest[0], *rest[1]]) != whole:
        raise UsageError("the tokenizer does not give back the text that it was given")
    again = '\n<tool_call>\n{"name": "again", "arguments": {}}\n</tool_call>'
    for more in ("", again):
        tail = tokenizer(more, add_special_tokens=False)["input_ids"]
        found = parse_response(tokenizer, [*rest[0][:-1], *tail, rest[0][-1]], prefix=start)
        if found.get("tool_calls") != [{"type": "function", "function": function}]:
            raise UsageError(f"a tool call was not read back as it was written: {found}")


def counted(tokenizer: Any) -> Size:
    """How many tokens a text has."""

    def count(text: str) -> int:
        return len(tokenizer(text, add_special_tokens=False)["input_ids"])

    return count


def pieces(
    tokenizer: Any, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]
) -> list[list[int]]:
    """A conversation as token lists by turns: the prompt; then in turn what the model says and what it is answered.

    They are the tokens that a rollout with the same words has: what the model says ends with the end of its turn, and
    the answer begins with the line break after it. The conversation ends with what the model says.
    """

    def written(count: int, asks: bool) -> str:
        text: str = tokenizer.apply_chat_template(
            list(messages[:count]), tools=list(tools) or None, tokenize=False, add_generation_prompt=asks
        )
        return text

    def tokens(text: str) -> list[int]:
        found: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
        return found

    first = next(place for place, message in enumerate(messages) if message["role"] == "assistant")
    before = written(first, asks=True)
    found = [tokens(before)]
    for place in range(first, len(messages), 2):
        after = written(place + 1, asks=False).removesuffix("\n")
        found.append(tokens(after[len(before) :]))
        if place + 2 < len(messages):
            before = written(place + 2, asks=True)
            found.append(tokens(before[len(after) :]))
    return found


def schemas_of(factory: type[ToolEnvironment]) -> list[dict[str, Any]]:
    """The schemas of a class's tools as TRL writes them into the prompt: made of the methods, by name."""
    return [get_json_schema(getattr(factory, name)) for name in sorted(factory._setup.tools)]


def prompt_tokens(
    tokenizer: Any, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]
) -> list[int]:
    """The tokens of a conversation after which the model speaks."""
    text = tokenizer.apply_chat_template(
        list(messages), tools=list(tools) or None, tokenize=False, add_generation_prompt=True
    )
    found: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
    return found


def answered(tokenizer: Any, name: str, content: str) -> list[int]:
    """The tokens between a turn that called a tool and the next turn."""
    function = {"name": name, "arguments": {}}
    said = {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": function}]}
    told = {"role": "tool", "name": name, "content": content}
    return pieces(tokenizer, [{"role": "user", "content": ""}, said, told, {"role": "assistant", "content": ""}], [])[2]


def labelled(parts: Sequence[Sequence[int]], most: int) -> tuple[list[int], list[bool]]:
    """The first tokens of a conversation in one list, at most so many, and which of them the model says."""
    ids = [token for part in parts for token in part]
    said = [place % 2 == 1 for place, part in enumerate(parts) for _ in part]
    return ids[:most], said[:most]
