"""Make a tiny causal language model with random weights: the files an engine expects of a model folder.

    python make_model.py FOLDER

A byte-level BPE tokenizer is trained on the source text of this Python's own standard library, and the weights come from
a fixed seed, so the same Python always makes the same model and nothing is downloaded. Its answers are noise. What it is
for is everything around the answer: headers, streams, usage, caching, and ends.

Head size 32 because vLLM's CPU attention takes 32, 64, 80, ... and no less (vLLM 0.32.0).
"""

import json
import pathlib
import sys
import sysconfig

VOCAB = 4096
HIDDEN = 128
LAYERS = 2
HEADS = 4
KV_HEADS = 2
CONTEXT = 32768
END_OF_TEXT, TURN_START, TURN_END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"

# Tools are rendered into the first turn, so that a request's tools change its prompt (and so its cached prefix).
CHAT_TEMPLATE = (
    "{% if tools %}<|im_start|>tools\n{{ tools | tojson }}<|im_end|>\n{% endif %}"
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{{ message['content'] or '' }}"
    "{% if message.tool_calls %}{{ message.tool_calls | tojson }}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def training_text(limit=3_000_000):
    """Yields source files of the standard library until `limit` characters are out."""
    seen = 0
    for path in sorted(pathlib.Path(sysconfig.get_paths()["stdlib"]).glob("*.py")):
        text = path.read_text(encoding="utf-8", errors="replace")
        yield text
        seen += len(text)
        if seen > limit:
            return


def write_tokenizer(folder):
    """Trains and writes the tokenizer; returns its size and the ids of the end of a turn and of a text."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(
        training_text(),
        trainers.BpeTrainer(
            vocab_size=VOCAB,
            special_tokens=[END_OF_TEXT, TURN_START, TURN_END],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    write_json(folder / "tokenizer_config.json", {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": CONTEXT,
        "eos_token": TURN_END,
        "pad_token": END_OF_TEXT,
        "chat_template": CHAT_TEMPLATE,
    })
    return tokenizer.get_vocab_size(), tokenizer.token_to_id(TURN_END), tokenizer.token_to_id(END_OF_TEXT)


def write_config(folder, vocab, turn_end, text_end):
    """Writes the configuration of a small Qwen2 model."""
    ids = {"bos_token_id": text_end, "eos_token_id": turn_end, "pad_token_id": text_end}
    write_json(folder / "generation_config.json", ids)
    write_json(folder / "config.json", ids | {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "vocab_size": vocab,
        "hidden_size": HIDDEN,
        "intermediate_size": 4 * HIDDEN,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HIDDEN // HEADS,
        "hidden_act": "silu",
        "max_position_embeddings": CONTEXT,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1e6,
        "tie_word_embeddings": False,
        "use_sliding_window": False,
        "initializer_range": 0.02,
        "torch_dtype": "bfloat16",
    })


def write_weights(folder, vocab):
    """Writes weights drawn from a fixed seed; norms are one."""
    import numpy
    from safetensors.numpy import save_file

    random = numpy.random.default_rng(3)
    kv = HIDDEN // HEADS * KV_HEADS
    shapes = {"model.embed_tokens.weight": (vocab, HIDDEN), "lm_head.weight": (vocab, HIDDEN)}
    norms = ["model.norm.weight"]
    for n in range(LAYERS):
        layer = f"model.layers.{n}."
        for name, rows in (("q", HIDDEN), ("k", kv), ("v", kv)):
            shapes[f"{layer}self_attn.{name}_proj.weight"] = (rows, HIDDEN)
            shapes[f"{layer}self_attn.{name}_proj.bias"] = (rows,)
        shapes[f"{layer}self_attn.o_proj.weight"] = (HIDDEN, HIDDEN)
        shapes[f"{layer}mlp.gate_proj.weight"] = (4 * HIDDEN, HIDDEN)
        shapes[f"{layer}mlp.up_proj.weight"] = (4 * HIDDEN, HIDDEN)
        shapes[f"{layer}mlp.down_proj.weight"] = (HIDDEN, 4 * HIDDEN)
        norms += [f"{layer}input_layernorm.weight", f"{layer}post_attention_layernorm.weight"]
    tensors = {name: numpy.float32(0.05) * random.standard_normal(shape, dtype=numpy.float32)
               for name, shape in shapes.items()}
    tensors |= {name: numpy.ones(HIDDEN, numpy.float32) for name in norms}
    save_file(tensors, str(folder / "model.safetensors"), metadata={"format": "pt"})


def write_json(path, value):
    path.write_text(json.dumps(value, indent=1) + "\n")


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    vocab, turn_end, text_end = write_tokenizer(folder)
    write_config(folder, vocab, turn_end, text_end)
    write_weights(folder, vocab)


if __name__ == "__main__":
    main()
