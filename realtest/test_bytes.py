"""What an engine answers through the router is, byte for byte, what it answers when it is asked directly.

TESTS=test_bytes run.sh llama (or vllm, sglang, ollama). Ids, times and speeds differ from answer to answer and are not compared.
"""

import re
import unittest

import raw
from doors import WEATHER
from fleet import MODEL, Fleet, fresh, saw

CHANGING = [
    (rb'"(id|item_id|call_id|request_id|rid)": ?"[^"]*"', rb'"\1":""'),
    (rb'"(created\w*|completed_at|\w*_ts|\w*_time|\w*latency|\w*duration|\w*_ms|\w*_per_second|\w*throughput)": ?("[^"]*"|[\d.e+-]+)', rb'"\1":0'),
    # In vLLM's stream it is in the chunk of usage, which the router takes out where no client asked for usage.
    (rb'"system_fingerprint": ?"[^"]*",?', b""),
    (rb'"id_slot": ?\d+', b'"id_slot":0'),
]
ASKED = {"model": MODEL, "max_tokens": 8, "temperature": 0, "seed": 1}
CHAT = ASKED | {"messages": [{"role": "user", "content": "hello there"}]}
USAGE = {"stream": True, "stream_options": {"include_usage": True}}
TOO_LONG = "value1 = 2 " * 20000


def requests(kind):
    """Name, path and body of every request. vLLM gives two answers only where it samples, and SGLang samples what it likes."""
    two = {"n": 2, "temperature": 1 if kind == "vllm" else 0}
    for name, path, body in (("chat", "/v1/chat/completions", CHAT), ("completion", "/v1/completions", ASKED | {"prompt": "hello there"})):
        long = {"messages": [{"role": "user", "content": TOO_LONG}]} if name == "chat" else {"prompt": TOO_LONG}
        for more in (
            {}, {"stream": True}, USAGE, two, two | USAGE, {"stop": ["a"]}, {"user": "\u00e9", "other": [None, 1.0]},
            {"logprobs": True, "top_logprobs": 2} if name == "chat" else {"logprobs": 2}, {"temperature": -3}, {"max_tokens": "x"}, {"cache_salt": "s"},
        ):
            yield f"{name} {more}", path, body | more
        yield f"{name}, too long", path, body | long
        yield f"{name}, too long, stream", path, body | long | {"stream": True}
    tools = {"tools": [{"type": "function", "function": WEATHER}]}
    yield "tools", "/v1/chat/completions", CHAT | tools
    yield "a call that is forced", "/v1/chat/completions", CHAT | tools | {"max_tokens": 60, "tool_choice": {"type": "function", "function": {"name": "get_weather"}}}
    yield "prompts", "/v1/completions", ASKED | {"prompt": ["hello there", "one two"]}
    if kind == "vllm":
        yield from requests_of_vllm()
    yield "several conversations", "/v1/chat/completions/batch", CHAT | {"messages": [CHAT["messages"]] * 2}
    for more in ({}, {"stream": True}, {"temperature": -3}):
        yield f"responses {more}", "/v1/responses", {"model": MODEL, "input": "hello", "max_output_tokens": 8, "temperature": 0, **more}
        yield f"messages {more}", "/v1/messages", CHAT | more
    for path in ("/v1/embeddings", "/v1/rerank", "/v1/score", "/tokenize", "/v1/messages/count_tokens", "/generate", "/completion"):
        yield path, path, CHAT | {"input": "a", "prompt": "a", "content": "a", "text": "a", "query": "a", "documents": ["b"], "text_1": "a", "text_2": "b",
                                  "n_predict": 4, "sampling_params": {"max_new_tokens": 4, "temperature": 0}}


def requests_of_vllm():
    """What vLLM has beside OpenAI's fields, right and wrong."""
    half = {"messages": CHAT["messages"] + [{"role": "assistant", "content": "I am"}], "continue_final_message": True}
    stream = {"stream": True}
    for more in (
        {"n": 3}, {"prompt_logprobs": 1}, {"prompt_logprobs": 1, "stream": True}, {"echo": True}, half | {"add_generation_prompt": False}, half,
        {"return_token_ids": True}, {"return_token_ids": True, "stream": True}, {"structured_outputs": {"choice": ["yes", "no"]}},
        {"structured_outputs": {"regex": "[a-c]{3}"}, "stream": True}, {"response_format": {"type": "json_schema", "json_schema": {"name": "x"}}},
        {"kv_transfer_params": {"do_remote_decode": True}}, {"min_tokens": 4, "stop_token_ids": [5]}, {"max_tokens": 0}, {"max_tokens": 99999},
        {"messages": []}, {"cache_salt": ""}, {"logit_bias": {"99999": 1}}, {"priority": 5}, {"tool_choice": "f"},
        stream | {"stream_options": {"include_usage": True, "continuous_usage_stats": True}}, stream | {"stream_options": {"include_usage": False}},
        stream | {"stream_options": {}}, stream | {"stream_options": None}, {"stream_options": {"include_usage": True}}, {"stream": None},
    ):
        yield f"chat of vLLM {more}", "/v1/chat/completions", CHAT | more
    for more in (
        {"prompt": list(range(40, 48))}, {"prompt": [[40, 41], [42, 43]]}, {"prompt": [[40, 41], [42, 43]], "max_tokens": 1, "stream": True},
        {"prompt": ""}, {"prompt": []}, {}, {"prompt": "a b", "echo": True, "logprobs": 1}, {"prompt": "a b", "echo": True, "max_tokens": 0},
        {"prompt": "a b", "prompt_logprobs": 0}, {"prompt": "a b", "suffix": "x"}, {"prompt": "a b c d", "truncate_prompt_tokens": 2},
    ):
        yield f"completion of vLLM {more}", "/v1/completions", ASKED | more
    yield "detokenize", "/detokenize", {"model": MODEL, "tokens": [40, 41]}
    yield "an earlier response that is unknown", "/v1/responses", {"model": MODEL, "input": "x", "previous_response_id": "resp_none"}


def bytes_of(url, path, body, headers):
    """Status, content type and bytes of an answer, and the engine that the router names."""
    stream = raw.post(url, path, body, headers, timeout=300)
    try:
        data = stream.answer.read()
    finally:
        stream.close()
    for pattern, instead in CHANGING:
        data = re.sub(pattern, instead, data)
    if body.get("n") == 2 and body.get("stream"):
        data = b"\n".join(sorted(data.split(b"\n")))  # which of the answers goes on first is chance
    return (stream.status, stream.headers["Content-Type"], data), stream.headers["X-Warmpath-Endpoint"]


class Bytes(Fleet):
    """Each request goes to the router twice, so that all of it is cached, and then to the engine that answered."""

    def test_the_same_bytes(self):
        self.need_router()
        alike = absent = 0
        for name, path, body in requests(self.kind):
            if self.kind == "ollama" and name.startswith("completion, too long"):
                continue  # it cuts the prompt to 32768 tokens and computes them
            headers = {"X-Session-Id": fresh(), "X-Warmpath-Explain": "1"}
            with self.subTest(name):
                bytes_of(self.url, path, body, headers)
                routed, direct = set(), set()
                for _ in range(20):  # engines put two tokens into one event now and then, and on busy cores often
                    got, engine = bytes_of(self.url, path, body, headers)
                    want, _ = bytes_of(f"http://{engine}" if engine else self.engines[0].url, path, body, {})
                    routed.add(got)
                    direct.add(want)
                    if both := routed & direct:
                        got = want = both.pop()
                    if got == want or got[0] == want[0] == 404:
                        break
                if want[0] == got[0] == 404:
                    absent += 1
                    continue  # the router says in its own words what engines do not have
                self.assertEqual(got, want)
                alike += 1
        saw(self.kind, f"{alike} requests are answered with the same bytes, {absent} are for paths that this engine lacks")


class LlamaTest(Bytes):
    kind = "llama"


class OllamaTest(Bytes):
    kind = "ollama"


class SGLangTest(Bytes):
    kind = "sglang"


class VLLMTest(Bytes):
    kind = "vllm"


if __name__ == "__main__":
    unittest.main(verbosity=2)
