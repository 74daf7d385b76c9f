"""Two real vLLM engines that hand KV cache over (NixlConnector), one computing prompts, one answering, with the router in front.

Needs what install.sh nixl adds to vLLM. Settings are those of test_real.py; without REAL_ROUTER there is nothing to test.
"""

import concurrent.futures
import http.client
import json
import os
import pathlib
import random
import socket
import tempfile
import threading
import time
import unittest

import engines
import fleet
import router

WORDS = "string parse buffer index thread name error socket module path class token print list range stream file option".split()
LEASE = 8  # seconds that a prefiller keeps what no decoder fetches


class Half(engines.Engine):
    """One vLLM engine that can be either side of a hand-over."""

    def __init__(self, port, side, first_ucx, directory, logs):
        super().__init__("vllm", port, directory, logs)
        self.environment = {
            "VLLM_NIXL_SIDE_CHANNEL_HOST": "127.0.0.1", "VLLM_NIXL_SIDE_CHANNEL_PORT": str(side),
            "UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "lo", "UCX_TCP_PORT_RANGE": f"{first_ucx}-{first_ucx + 19}",
            "NIXL_PTHR_DELAY_US": "1000", "VLLM_YIELD_SLEEP_S": "0.0003",  # see install.sh: no polling
        }
        self.extra = ("--kv-transfer-config", json.dumps({
            "kv_connector": "NixlConnector", "kv_role": "kv_both", "kv_buffer_device": "cpu", "kv_load_failure_policy": "fail",
            "kv_connector_extra_config": {"kv_lease_duration": LEASE},
        }))

    def start(self):
        os.environ.update(self.environment)
        return super().start()


class Pair(router.Router):
    """A router that splits every request that can be."""

    def __init__(self, binary, prefiller, decoder, listen, admin, logs):
        super().__init__(binary, [], listen, admin, logs)
        self.command += ["--prefill", prefiller.url + ",name=p", "--decode", decoder.url + ",name=d", "--disagg-when", "always"]


def prompt(seed, count=300):
    chance = random.Random(seed)
    return " ".join(chance.choice(WORDS) for _ in range(count))


def request(seed, chat, stream):
    """Path and body of a request whose answer is always the same."""
    body = {"model": engines.MODEL, "max_tokens": 24, "temperature": 0, "ignore_eos": True}
    if chat:
        body["messages"] = [{"role": "user", "content": prompt(seed)}]
    else:
        body["prompt"] = prompt(seed)
    if stream:
        body["stream"] = True
    return "/v1/chat/completions" if chat else "/v1/completions", body


def post(url, path, body):
    """Status, headers and text of an answer."""
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=120)
    try:
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json", "X-Warmpath-Explain": "1"})
        answer = connection.getresponse()
        raw = answer.read().decode()
        return answer.status, answer.headers, text(raw) if answer.status == 200 else raw
    finally:
        connection.close()


def text(raw):
    """What a model said in an answer, streamed or not."""
    documents = [raw]
    if raw.startswith("data:"):
        documents = [line[6:] for line in raw.split("\n") if line.startswith("data: ") and line != "data: [DONE]"]
    said = ""
    for document in documents:
        for choice in json.loads(document)["choices"]:
            said += choice.get("text") or (choice.get("delta") or choice.get("message") or {}).get("content") or ""
    return said


class Disaggregated(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        why = engines.missing("vllm", fleet.DIRECTORY)
        if not why and not (fleet.DIRECTORY / "venv-vllm/nixl").exists():
            why = f"nixl is not installed in {fleet.DIRECTORY}: run realtest/install.sh nixl {fleet.DIRECTORY}"
        if why or not fleet.ROUTER:
            raise unittest.SkipTest(why or "REAL_ROUTER is not set")
        logs = pathlib.Path(os.environ.get("REAL_LOGS") or tempfile.mkdtemp(prefix="warmpath-disagg-"))
        ports = fleet.free_ports(6)
        cls.prefiller = Half(ports[0], ports[1], 31000, fleet.DIRECTORY, logs)
        cls.decoder = Half(ports[2], ports[3], 31020, fleet.DIRECTORY, logs)
        cls.pair = Pair(fleet.ROUTER, cls.prefiller, cls.decoder, ports[4], ports[5], logs)
        cls.addClassCleanup(cls.stop_all)
        engines.start_all([cls.prefiller, cls.decoder])
        cls.pair.start()

    @classmethod
    def stop_all(cls):
        cls.pair.stop()
        for engine in (cls.prefiller, cls.decoder):
            engine.stop()

    def leases(self):
        return self.pair.metrics().get("warmpath_leases", 0)

    def same(self, seed, chat, stream, want_split=True):
        path, body = request(seed, chat, stream)
        status, headers, got = post(self.pair.url, path, body)
        self.assertEqual(status, 200, got)
        if want_split:
            self.assertEqual((headers["X-Warmpath-Prefill"], headers["X-Warmpath-Endpoint"]), ("p", "d"))
        return path, body, got

    def test_1_the_text_of_one_engine(self):
        moved = "vllm:external_prefix_cache_hits_total"
        before = self.decoder.metrics().get(moved, 0)
        for n, (chat, stream) in enumerate([(c, s) for c in (False, True) for s in (False, True)]):
            path, body, got = self.same(n, chat, stream)
            self.assertEqual(got, post(self.prefiller.url, path, body)[2])
        self.assertGreaterEqual(self.decoder.metrics().get(moved, 0) - before, 4 * 288)

    def test_2_twelve_at_once(self):
        with concurrent.futures.ThreadPoolExecutor(12) as many:
            results = list(many.map(lambda n: self.same(100 + n, n % 2 == 0, n // 2 % 2 == 0), range(24)))
        for path, body, got in results:
            self.assertEqual(got, post(self.prefiller.url, path, body)[2])
        self.assertEqual(self.leases(), 0)

    def test_3_a_client_that_leaves(self):
        for after, tokens in ((0.2, 9000), (1.5, 300)):
            body = json.dumps({"model": engines.MODEL, "max_tokens": 4000, "ignore_eos": True, "stream": True, "prompt": prompt(tokens, tokens)}).encode()
            host, port = self.pair.url.removeprefix("http://").split(":")
            with socket.create_connection((host, int(port))) as client:
                client.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
                time.sleep(after)
            fleet.eventually("both engines are idle and hold nothing", lambda: all(
                engine.figure("running") == 0 and engine.metrics().get("vllm:kv_cache_usage_perc", 0) == 0 for engine in (self.prefiller, self.decoder)))
            fleet.eventually("no reservation is open", lambda: self.leases() == 0)
        self.assertEqual(self.prefiller.metrics().get("vllm:nixl_num_kv_expired_reqs_total", 0), 0)

    def test_4_the_prefiller_is_killed(self):
        want = [post(self.decoder.url, *request(300 + n, n % 2 == 0, False))[2] for n in range(12)]
        kill = threading.Timer(0.3, self.prefiller.kill_all)
        kill.start()
        with concurrent.futures.ThreadPoolExecutor(6) as many:
            results = list(many.map(lambda n: self.same(300 + n, n % 2 == 0, n // 2 % 2 == 0, want_split=False), range(12)))
        kill.join()
        self.assertEqual([got for _, _, got in results], want)
        states = {e["name"]: e["state"] for e in self.pair.endpoints()["endpoints"]}
        self.assertEqual(states["d"], "up", "the decoder was charged for the prefiller's end")
        fleet.eventually("no reservation is open", lambda: self.leases() == 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
