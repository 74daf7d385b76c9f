"""Two engines of one kind with the router in front of them, for the tests, and what the tests ask of them."""

import atexit
import contextlib
import http.client
import os
import random
import socket
import sys
import time
import unittest
import uuid

import anthropic
import openai

import engines
import raw
import router

DIRECTORY = engines.default_dir()
ROUTER = os.environ.get("REAL_ROUTER", "")  # the router's program; without it the tests talk to one engine directly
KINDS = os.environ.get("REAL_KINDS", " ".join(engines.KINDS)).replace(",", " ").split()
MODEL = engines.MODEL
FOREVER = 12000  # tokens of an answer that is not meant to end by itself


def free_ports(count):
    """Ports that nobody has now, below those that the system gives to outgoing connections, since a restart needs them again."""
    found = []
    for port in random.sample(range(20000, 30000), 1000):
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            found.append(port)
        if len(found) == count:
            return found
    raise engines.Failed("no free ports between 20000 and 30000")


def saw(kind, fact):
    """Prints a fact for README.md; no test depends on it."""
    print(f"  saw {kind}: {fact}", file=sys.stderr, flush=True)


def eventually(what, condition, limit=20.0, every=0.1):
    """Waits until condition() is true and returns its value; fails after `limit` seconds."""
    end = time.monotonic() + limit
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {limit:g} s: {what}")
        time.sleep(every)


def words(kind, count, seed=""):
    """Text of about `count` tokens, different from the first word on for each seed. In make_gguf.py's model a byte is a token."""
    text = seed + " " + " ".join(f"value{n % 97} = {n}" for n in range(count // 7))
    return text[:count] if kind in ("llama", "ollama") else text


def chat(text, tokens=8, **fields):
    """A chat request of one turn whose answer has exactly `tokens` tokens."""
    return {"model": MODEL, "messages": [{"role": "user", "content": text}], "max_tokens": tokens,
            "temperature": 0, "ignore_eos": True, **fields}


def fresh():
    """An id that nobody has used."""
    return uuid.uuid4().hex


class Fleet(unittest.TestCase):
    """Starts the engines and the router once for a class; every test leaves all of them running."""

    kind = ""

    @classmethod
    def setUpClass(cls):
        if not cls.kind:
            raise unittest.SkipTest("only its kinds are run")
        if cls.kind not in KINDS:
            raise unittest.SkipTest(f"{cls.kind} is not among REAL_KINDS={' '.join(KINDS)}")
        why = engines.missing(cls.kind, DIRECTORY)
        if why:
            raise unittest.SkipTest(why)
        cls.logs = engines.logs("real")
        count = 2 if ROUTER else 1
        cls.engines = [engines.Engine(cls.kind, port, DIRECTORY, cls.logs) for port in free_ports(count)]
        for engine in cls.engines:
            atexit.register(engine.stop, 1)  # also when the run is broken off
        cls.router = None
        saw(cls.kind, f"{count} ready after {engines.start_all(cls.engines):.0f} s; logs in {cls.logs}")
        try:
            cls.url = cls.start_router() if ROUTER else cls.engines[0].url
        except BaseException:
            cls.tearDownClass()
            raise
        cls.openai = openai.OpenAI(base_url=cls.url + "/v1", api_key="none", max_retries=0, timeout=60)
        cls.anthropic = anthropic.Anthropic(base_url=cls.url, api_key="none", max_retries=0, timeout=60)

    @classmethod
    def start_router(cls):
        """Starts the router, the first time or again on the same ports; returns its address."""
        if not cls.router:
            cls.router = router.Router(ROUTER, cls.engines, *free_ports(2), cls.logs)
            atexit.register(cls.router.stop, 1)
        return cls.router.start().url

    @classmethod
    def start_anew(cls):
        """A router that has learnt nothing of the engines."""
        cls.router.stop()
        cls.start_router()

    @classmethod
    def tearDownClass(cls):
        if cls.router:
            cls.router.stop()
        for engine in cls.engines:
            engine.stop()

    def need_router(self):
        if not self.router:
            self.skipTest("talks to one engine directly: REAL_ROUTER is not set")

    def figures(self, name):
        """One figure of every engine, in order; 0 for one that does not answer, since it is gone or going."""
        found = []
        for engine in self.engines:
            try:
                found.append(0.0 if engine.exited() else engine.figure(name))
            except (OSError, http.client.HTTPException):
                found.append(0.0)
        return found

    def idle(self):
        """Waits until no engine computes anything."""
        eventually("no engine has a running request", lambda: not any(self.figures("running")), limit=60)

    def assert_freed(self, before):
        """Asserts that the engines stopped early: they computed less than half of an endless answer since `before`."""
        self.idle()
        generated = sum(self.figures("generated")) - before
        self.assertLess(generated, FOREVER / 2, "the engine went on for nobody")

    def user_of(self, action):
        """Runs action and returns its result with the indexes of the engines that computed a prompt for it."""
        before = self.figures("prompt_tokens")
        result = action()

        def grown():
            return [n for n, (a, b) in enumerate(zip(before, self.figures("prompt_tokens"))) if b > a]

        return result, eventually("an engine counts the prompt", grown)

    def busy_engine(self):
        """Waits for exactly one engine to have a running request; returns its index."""
        def one():
            running = self.figures("running")
            return [n for n, r in enumerate(running) if r] if sum(map(bool, running)) == 1 else None

        return eventually("one engine has a running request", one)[0]

    def endless(self, headers=None, timeout=60, **fields):
        """Opens a stream that would go on for seconds, and reads its first three events."""
        body = chat(fresh(), FOREVER, stream=True, **fields)
        stream = raw.post(self.url, "/v1/chat/completions", body, headers, timeout)
        self.addCleanup(stream.close)
        self.assertEqual(len(stream.take(3)), 3, f"the stream ended at once: {stream.end} {stream.errors}")
        return stream
