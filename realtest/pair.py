"""Two real engines that hand KV cache over, one computing prompts, one answering, with the router in front, for the tests of each kind."""

import http.client
import json
import random
import socket
import time
import unittest

import engines
import fleet
import router

WORDS = "string parse buffer index thread name error socket module path class token print list range stream file option".split()


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


def ask(url, path, body):
    """Status, headers and bytes of an answer, as text."""
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=120)
    try:
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json", "X-Warmpath-Explain": "1"})
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read().decode()
    finally:
        connection.close()


def post(url, path, body):
    """Status, headers and text of an answer."""
    status, headers, raw = ask(url, path, body)
    return status, headers, text(raw) if status == 200 else raw


def documents(raw):
    """The documents of an answer: one, or those of a stream."""
    if not raw.startswith("data:"):
        return [json.loads(raw)]
    return [json.loads(line[6:]) for line in raw.split("\n") if line.startswith("data: ") and line != "data: [DONE]"]


def text(raw):
    """What a model said in an answer, streamed or not."""
    said = ""
    for document in documents(raw):
        for choice in document["choices"]:
            said += choice.get("text") or (choice.get("delta") or choice.get("message") or {}).get("content") or ""
    return said


class PairTest(unittest.TestCase):
    """Starts the engines and the router once for a class of tests."""

    kind = ""
    addon = ""  # what install.sh must have added to the kind

    @classmethod
    def halves(cls, ports, logs):
        """The prefiller, the decoder, and what else is to be started; four ports are free."""
        raise NotImplementedError

    @classmethod
    def setUpClass(cls):
        why = engines.missing(cls.kind, fleet.DIRECTORY)
        if not why and not (fleet.DIRECTORY / f"venv-{cls.kind}/nixl").exists():
            why = f"nixl is not installed in {fleet.DIRECTORY}: run realtest/install.sh {cls.addon} {fleet.DIRECTORY}"
        if why or not fleet.ROUTER:
            raise unittest.SkipTest(why or "REAL_ROUTER is not set")
        logs = engines.logs("disagg")
        ports = fleet.free_ports(6)
        cls.engines = cls.halves(ports[:4], logs)
        cls.prefiller, cls.decoder = cls.engines[:2]
        cls.pair = Pair(fleet.ROUTER, cls.prefiller, cls.decoder, *ports[4:], logs)
        cls.addClassCleanup(cls.stop_all)
        engines.start_all(cls.engines)
        cls.pair.start()
        fleet.eventually("the router knows both", lambda: all(e["state"] == "up" for e in cls.pair.endpoints()["endpoints"]))

    @classmethod
    def stop_all(cls):
        cls.pair.stop()
        for engine in cls.engines:
            engine.stop()

    def leases(self):
        return self.pair.metrics().get("warmpath_leases", 0)

    def same(self, seed, chat, stream, want_split=True):
        """Asks through both engines; path and body of the request, and the text."""
        path, body = request(seed, chat, stream)
        status, headers, got = post(self.pair.url, path, body)
        self.assertEqual(status, 200, got)
        if want_split:
            self.assertEqual((headers["X-Warmpath-Prefill"], headers["X-Warmpath-Endpoint"]), ("p", "d"))
        return path, body, got

    def leave(self, after, tokens):
        """Asks for a long answer, and leaves after so many seconds."""
        body = json.dumps({"model": engines.MODEL, "max_tokens": 4000, "ignore_eos": True, "stream": True, "prompt": prompt(tokens, tokens)}).encode()
        host, port = self.pair.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as client:
            client.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            time.sleep(after)

    def assert_decoder_uncharged(self):
        """Asserts, after the prefiller's end, that the decoder was not charged for it and no reservation is left open."""
        states = {e["name"]: e["state"] for e in self.pair.endpoints()["endpoints"]}
        self.assertEqual(states["d"], "up", "the decoder was charged for the prefiller's end")
        fleet.eventually("no reservation is open", lambda: self.leases() == 0)
