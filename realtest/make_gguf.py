"""Make a tiny llama model with random weights in one GGUF file, with Python's standard library alone.

    python make_gguf.py FILE

The format is GGUF version 3 as ggml's docs/gguf.md describes it: a header, key-value pairs, tensor descriptions with the
dimensions written innermost first, and the data, each tensor on a 32-byte boundary. The tokenizer has one piece a byte,
so a prompt of n bytes has about n tokens. Weights come from a fixed seed; the answers are noise, and never end by themselves: one
number of the hidden state is the same all the way and makes control tokens improbable. Ollama has no field that ignores their end.
"""

import array
import random
import struct
import sys

HIDDEN = 192
LAYERS = 4
HEADS = 6
KV_HEADS = 2
FEED_FORWARD = 512
CONTEXT = 65536
ALIGN = 32
CONTROLS = 3  # tokens at the beginning of the vocabulary that are no text

# Value types of GGUF and the tensor type F32.
U32, F32, BOOL, STRING, ARRAY, I32 = 4, 6, 7, 8, 9, 5
TENSOR_F32 = 0

# Kinds of token in tokenizer.ggml.token_type.
NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6

CHAT_TEMPLATE = (
    "{% if tools %}tools: {{ tools | tojson }}\n{% endif %}"
    "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)


def string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def value(kind, v):
    """One typed value without its type tag."""
    if kind == STRING:
        return string(v)
    return struct.pack({U32: "<I", F32: "<f", BOOL: "<?", I32: "<i"}[kind], v)


def pair(key, kind, v):
    return string(key) + struct.pack("<I", kind) + value(kind, v)


def pairs(key, kind, items):
    head = string(key) + struct.pack("<IIQ", ARRAY, kind, len(items))
    return head + b"".join(value(kind, v) for v in items)


def metadata():
    """The encoded key-value pairs, and how many tokens the vocabulary has."""
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)] + ["\u2581"]
    kinds = [UNKNOWN, CONTROL, CONTROL] + [BYTE] * 256 + [NORMAL]
    m = [
        pair("general.architecture", STRING, "llama"),
        pair("general.name", STRING, "tiny"),
        pair("general.file_type", U32, 0),
        pair("llama.context_length", U32, CONTEXT),
        pair("llama.embedding_length", U32, HIDDEN),
        pair("llama.block_count", U32, LAYERS),
        pair("llama.feed_forward_length", U32, FEED_FORWARD),
        pair("llama.attention.head_count", U32, HEADS),
        pair("llama.attention.head_count_kv", U32, KV_HEADS),
        pair("llama.attention.layer_norm_rms_epsilon", F32, 1e-5),
        pair("llama.rope.dimension_count", U32, HIDDEN // HEADS),
        pair("llama.vocab_size", U32, len(tokens)),
        pair("tokenizer.ggml.model", STRING, "llama"),
        pairs("tokenizer.ggml.tokens", STRING, tokens),
        pairs("tokenizer.ggml.scores", F32, [0.0] * len(tokens)),
        pairs("tokenizer.ggml.token_type", I32, kinds),
        pair("tokenizer.ggml.unknown_token_id", U32, 0),
        pair("tokenizer.ggml.bos_token_id", U32, 1),
        pair("tokenizer.ggml.eos_token_id", U32, 2),
        pair("tokenizer.ggml.add_bos_token", BOOL, True),
        pair("tokenizer.ggml.add_space_prefix", BOOL, False),
        pair("tokenizer.chat_template", STRING, CHAT_TEMPLATE),
    ]
    return m, len(tokens)


def tensors(vocab):
    """Names and dimensions, innermost first; one dimension is a norm."""
    kv = HIDDEN // HEADS * KV_HEADS
    yield "token_embd.weight", (HIDDEN, vocab)
    for n in range(LAYERS):
        yield f"blk.{n}.attn_norm.weight", (HIDDEN,)
        yield f"blk.{n}.attn_q.weight", (HIDDEN, HIDDEN)
        yield f"blk.{n}.attn_k.weight", (HIDDEN, kv)
        yield f"blk.{n}.attn_v.weight", (HIDDEN, kv)
        yield f"blk.{n}.attn_output.weight", (HIDDEN, HIDDEN)
        yield f"blk.{n}.ffn_norm.weight", (HIDDEN,)
        yield f"blk.{n}.ffn_gate.weight", (HIDDEN, FEED_FORWARD)
        yield f"blk.{n}.ffn_up.weight", (HIDDEN, FEED_FORWARD)
        yield f"blk.{n}.ffn_down.weight", (FEED_FORWARD, HIDDEN)
    yield "output_norm.weight", (HIDDEN,)
    yield "output.weight", (HIDDEN, vocab)


def numbers(rng, name, dims):
    """The tensor's bytes: ones for a norm, small random numbers otherwise. The first number of the hidden state stays what it is."""
    if len(dims) == 1:
        return array.array("f", [1.0]) * dims[0]
    values = array.array("f", (rng.uniform(-0.08, 0.08) for _ in range(dims[0] * dims[1])))
    if name == "token_embd.weight":
        values[:: dims[0]] = array.array("f", [0.3]) * dims[1]
    elif name.endswith(("attn_output.weight", "ffn_down.weight")):
        values[: dims[0]] = array.array("f", [0.0]) * dims[0]
    elif name == "output.weight":
        values[:: dims[0]] = array.array("f", [-50.0] * CONTROLS + [0.0] * (dims[1] - CONTROLS))
    return values


def main():
    keys, vocab = metadata()
    rng = random.Random(3)
    described, data = [], bytearray()
    for name, dims in tensors(vocab):
        described.append(string(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, TENSOR_F32, len(data)))
        values = numbers(rng, name, dims)
        if sys.byteorder == "big":
            values.byteswap()
        data += values.tobytes()
        data += bytes(-len(data) % ALIGN)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(described), len(keys)) + b"".join(keys) + b"".join(described)
    with open(sys.argv[1], "wb") as out:
        out.write(head + bytes(-len(head) % ALIGN) + data)


if __name__ == "__main__":
    main()
