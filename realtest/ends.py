"""What must hold when an engine, or the router, ends in the middle of its work.

Without the router the same tests check what the engines themselves do, which is what the router has to cope with.
"""

import concurrent.futures
import threading
import time

import openai

import engines
import raw
from fleet import MODEL, chat, eventually, fresh, saw, words

SECONDS_OF_WORK = 3000  # tokens: an answer that takes several seconds


class Ends:
    """Mixed into a Fleet; every test brings back what it ended."""

    def bring_back(self):
        """Starts again every engine that was ended, and waits for the router to see them all."""
        gone = [engine for engine in self.engines if engine.ending()]
        for engine in gone:
            engine.stop(grace=1)
            engine.start()
        for engine in gone:
            saw(self.kind, f"an engine is back {engine.wait():.0f} s after its start")
        if self.router:
            began = time.monotonic()
            eventually("the router sees every engine", lambda: self.states() == ["up"] * len(self.engines), 60)
            if gone:
                saw(self.kind, f"the router sees it {time.monotonic() - began:.1f} s after its first good health check")

    def states(self):
        return [endpoint["state"] for endpoint in self.router.endpoints()["endpoints"]]

    def short(self, timeout=60):
        """One short request in a conversation of its own, through the openai client, which does not retry."""
        client = self.openai.with_options(timeout=timeout)
        answer = client.chat.completions.create(
            model=MODEL, messages=[{"role": "user", "content": fresh()}], max_tokens=8,
            extra_headers={"X-Session-Id": fresh()}, extra_body={"ignore_eos": True})
        self.assertEqual(answer.usage.completion_tokens, 8)
        return answer

    def many(self, count=12):
        """Short requests, all of which must be answered: one after the other, then side by side. The longest, in seconds."""
        def timed(_):
            began = time.monotonic()
            self.short()
            return time.monotonic() - began

        alone = [timed(n) for n in range(count)]
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            return max(alone + list(pool.map(timed, range(count))))

    def takes_traffic(self, engine):
        """Asks until the engine computes something again."""
        before = engine.figure("prompt_tokens")

        def used():
            self.short()
            return engine.figure("prompt_tokens") > before

        eventually("the engine takes traffic again", used, limit=60)

    def two_on_one_engine(self):
        """An endless stream and a plain request on the same engine: (the stream, a future of the plain one, the engine)."""
        session = {"X-Session-Id": fresh()}
        stream = self.endless(session)
        engine = self.engines[self.busy_engine()]
        tries = 4
        pool = concurrent.futures.ThreadPoolExecutor(tries)
        self.addCleanup(pool.shutdown)
        for left in reversed(range(tries)):
            plain = pool.submit(
                raw.ask, self.url, "/v1/chat/completions", chat(fresh(), SECONDS_OF_WORK), session, 600)
            try:
                eventually("both are computed", lambda: engine.figure("running") >= 2, limit=10)
                break
            except AssertionError:  # the router found the other engine free; now that one is busy too
                if not left:
                    raise
        return stream, plain, engine

    def ended(self, stream, what):
        """Reads the stream to its end; returns the seconds that took since now."""
        began = time.monotonic()
        stream.drain()
        seconds = time.monotonic() - began
        saw(self.kind, f"{what}: the stream's end is {stream.end!r} after {seconds:.1f} s, error events {stream.errors}")
        return seconds

    def client_can_tell(self, stream):
        """An answer that was cut must not look like one that is complete."""
        self.assertIn(stream.end, ("done", "closed", "broken"), "the stream ends by itself")
        self.assertTrue(stream.errors or stream.end == "broken" or "abort" in stream.reasons, f"a cut stream ended as if whole: {stream.end}")

    def cut_and_asked_elsewhere(self, stream, plain, what):
        """An engine has ended: the client of its stream can tell, and its request without an answer is asked elsewhere."""
        self.client_can_tell(stream)
        status = plain.result(600)[0]
        saw(self.kind, f"{what}: the plain request got {status}")
        self.assertEqual(status, 200, "nothing of the answer had come, so it is asked elsewhere")

    def test_nothing_is_lost_while_an_engine_is_gone_and_it_works_again_when_it_is_back(self):
        self.need_router()
        self.addCleanup(self.bring_back)
        victim = self.engines[0]
        victim.kill_all()
        saw(self.kind, f"an engine was killed between requests: the longest of 24 requests took {self.many():.2f} s")
        self.bring_back()
        began = time.monotonic()
        self.takes_traffic(victim)
        saw(self.kind, f"it computes again {time.monotonic() - began:.1f} s after the router saw it")

    def test_nothing_is_lost_while_an_engine_stands_still_and_it_works_again_when_it_goes_on(self):
        """Of vLLM and SGLang the health checks stay good then; of llama-server they hang."""
        self.need_router()
        self.many()  # from which the router learns how long answers take
        victim = self.engines[0]
        with victim.standing_still():
            took = self.many()
            saw(self.kind, f"an engine stands still: the longest of 24 requests took {took:.1f} s, the router calls the engines {self.states()}")
            if self.kind == "vllm":
                self.assertEqual(status_of(victim, "/health"), 200)
        began = time.monotonic()
        eventually("the router sees every engine", lambda: self.states() == ["up"] * len(self.engines), 60)
        self.takes_traffic(victim)
        saw(self.kind, f"it computes again {time.monotonic() - began:.1f} s after it went on")

    def test_a_router_that_is_told_to_end_finishes_its_streams(self):
        self.need_router()
        self.addCleanup(self.start_router)
        stream = raw.post(self.url, "/v1/chat/completions", chat(fresh(), SECONDS_OF_WORK, stream=True))
        self.addCleanup(stream.close)
        stream.take(3)
        self.router.process.terminate()
        time.sleep(0.5)  # a moment for the signal to arrive
        with self.assertRaises((openai.APIConnectionError, openai.InternalServerError)):
            self.short(timeout=5)
        stream.drain()
        self.assertEqual((stream.end, stream.errors), ("done", []))
        stream.close()
        self.assertEqual(self.router.process.wait(20), 0)


class VLLMEnds:
    """vLLM 0.32.0."""

    def test_the_engine_core_is_killed(self):
        """vLLM tells it in an error event with [DONE] after it, and answers plain requests with 500."""
        self.addCleanup(self.bring_back)
        stream, plain, engine = self.two_on_one_engine()
        engine.kill_compute()
        self.ended(stream, "kill -9 of the engine core")
        self.assertEqual((stream.end, len(stream.errors)), ("done", 1))
        status = plain.result(600)[0]
        saw(self.kind, f"kill -9 of the engine core: the plain request got {status}")
        self.assertEqual(status, 200 if self.router else 500)
        if self.router:
            self.many()

    def test_sigterm_with_open_requests(self):
        """vLLM refuses connections at once and leaves open requests hanging until their clients go away, or ends them with the reason abort."""
        self.addCleanup(self.bring_back)
        stream, plain, engine = self.two_on_one_engine()
        stream.connection.sock and stream.connection.sock.settimeout(12 if not self.router else 60)
        engine.terminate()
        if self.router:
            saw(self.kind, f"after SIGTERM to an engine the longest of 24 requests took {self.many():.2f} s")
        self.ended(stream, "SIGTERM")
        if self.router:
            self.cut_and_asked_elsewhere(stream, plain, "SIGTERM")
        else:
            self.assertEqual(stream.end, "silent")
            self.assertFalse(plain.done())
            self.engines[0].stop(grace=1)  # ends the plain request


    def test_an_engine_that_computes_slowly_keeps_its_requests(self):
        """Each step takes a second on a machine that is busy with others. The figures in its metrics move with each."""
        self.need_router()
        self.addCleanup(self.start_anew)  # the router now takes the engine that was asked for one that is slow
        for _ in range(6):  # the router learns how fast it is by itself
            raw.ask(self.url, "/v1/chat/completions", chat(words(self.kind, 4000, fresh()), stream=True))
        stop, threads = threading.Event(), []
        for engine in self.engines:
            threads.append(threading.Thread(target=engine.compute_slowly, args=(stop,)))
            threads[-1].start()
        try:
            began = time.monotonic()
            with concurrent.futures.ThreadPoolExecutor(2) as pool:
                long = [pool.submit(raw.ask, self.url, "/v1/chat/completions", chat(words(self.kind, 12000, fresh()), stream=True), None, 300)
                        for _ in range(2)]
                states = set()
                while not all(f.done() for f in long):
                    states.update(self.states())
                    time.sleep(0.5)
            took = time.monotonic() - began
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        self.assertEqual([f.result()[0] for f in long], [200, 200])
        saw(self.kind, f"engines that compute in a twentieth of the time: two prompts of 12000 tokens after {took:.1f} s, the engines were {states}")
        self.assertEqual(states, {"up"})


class SGLangEnds:
    """SGLang 0.5.23."""

    def test_health_costs_a_second_and_the_router_does_not_use_it(self):
        """Each GET /health runs a generation of one token."""
        engine = self.engines[0]
        began = time.monotonic()
        self.assertEqual(status_of(engine, "/health"), 200)
        saw(self.kind, f"one /health took {time.monotonic() - began:.2f} s")
        asked = engine.log.read_text(errors="replace").count('"GET /health')
        self.assertGreater(asked, 0, "the engine's log tells who asks")
        if self.router:
            time.sleep(8)  # several rounds of probes
            self.assertEqual(engine.log.read_text(errors="replace").count('"GET /health'), asked)

    def test_the_scheduler_is_killed(self):
        """SGLang notices nothing for seconds, then its streams end without [DONE] and without an error."""
        self.addCleanup(self.bring_back)
        stream, plain, engine = self.two_on_one_engine()
        engine.kill_compute()
        if self.router:
            saw(self.kind, f"after kill -9 of a scheduler the longest of 24 requests took {self.many():.2f} s")
        self.ended(stream, "kill -9 of the scheduler")
        if self.router:
            self.cut_and_asked_elsewhere(stream, plain, "kill -9 of the scheduler")
        else:
            self.assertNotEqual(stream.end, "done")
            self.assertEqual(stream.errors, [])
            plain.exception(60)

    def test_sigterm_with_open_requests(self):
        """SGLang finishes what runs."""
        self.addCleanup(self.bring_back)
        stream = raw.post(self.url, "/v1/chat/completions", chat(fresh(), SECONDS_OF_WORK, stream=True))
        self.addCleanup(stream.close)
        self.assertEqual(len(stream.take(3)), 3)
        self.engines[self.busy_engine()].terminate()
        if self.router:
            saw(self.kind, f"after SIGTERM to an engine the longest of 24 requests took {self.many():.2f} s")
        self.ended(stream, "SIGTERM")
        self.assertEqual((stream.end, stream.errors), ("done", []))


class OllamaEnds:
    """Ollama 0.33.0-rc2, whose models are computed by a process of their own each."""

    def test_the_process_of_the_model_is_killed(self):
        """Ollama tells it in its own API only, and starts the process anew for the next request."""
        self.addCleanup(self.bring_back)
        for path in ("/api/chat", "/api/generate", "/v1/chat/completions", "/v1/messages", "/v1/responses"):
            stream = raw.post(self.url, path, long_answer(path, SECONDS_OF_WORK, True))
            self.addCleanup(stream.close)
            self.assertEqual(len(stream.text(6)), 6)
            self.engines[self.busy_engine()].kill_compute()
            last = stream.text()[-1]
            saw(self.kind, f"{path}, the process of the model is killed: {last[:200]}")
            if self.router:
                self.assertIn('"error"', last)
            elif not path.startswith("/api"):
                self.assertNotIn('"error"', last)
            self.all_compute()
            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                plain = pool.submit(raw.ask, self.url, path, long_answer(path, SECONDS_OF_WORK, False))
                self.engines[self.busy_engine()].kill_compute()
                status, _, answer = plain.result(60)
            self.assertEqual(status, 200 if self.router else 500, f"{path}: {answer}")
            self.all_compute()

    def all_compute(self):
        """Has every Ollama notice that its model's process is gone, and start it again."""
        for engine in self.engines:
            eventually("the model computes again", lambda e=engine: raw.ask(e.url, "/api/generate", long_answer("/api/generate", 1, False))[0] == 200)

    def test_sigterm_with_open_requests(self):
        """Ollama cuts what runs, at once."""
        self.addCleanup(self.bring_back)
        stream, plain, engine = self.two_on_one_engine()
        engine.terminate()
        if self.router:
            saw(self.kind, f"after SIGTERM to an engine the longest of 24 requests took {self.many():.2f} s")
        self.ended(stream, "SIGTERM")
        if self.router:
            self.cut_and_asked_elsewhere(stream, plain, "SIGTERM")
        else:
            self.assertNotEqual(stream.end, "done")
            plain.exception(60)


def long_answer(path, tokens, stream):
    """A request for so many tokens, in the form of that path of Ollama. A model that repeats itself would end it early."""
    if path == "/v1/responses":
        return {"model": MODEL, "input": fresh(), "max_output_tokens": tokens, "stream": stream}
    messages = {"messages": [{"role": "user", "content": fresh()}]}
    if path.startswith("/v1/"):
        return {"model": MODEL, **messages, "max_tokens": tokens, "stream": stream}
    prompt = {"prompt": fresh()} if path == "/api/generate" else messages
    return {"model": MODEL, **prompt, "options": {"num_predict": tokens, "temperature": 1}, "stream": stream}


class LlamaEnds:
    """llama-server 0.7.0."""

    def test_the_server_is_killed(self):
        """The connection is simply gone."""
        self.addCleanup(self.bring_back)
        stream, plain, engine = self.two_on_one_engine()
        engine.kill_compute()
        self.ended(stream, "kill -9")
        if self.router:
            self.cut_and_asked_elsewhere(stream, plain, "kill -9")
            self.many()
        else:
            self.assertEqual(stream.end, "broken")
            self.assertIsInstance(plain.exception(60), OSError)

    def test_sigterm_with_open_requests(self):
        """llama-server leaves plain requests hanging, and streams until it would send its next comment line. Now and then it
        only stops computing, and its health check and the comment lines go on."""
        self.addCleanup(self.bring_back)
        if self.router:
            self.many()  # from which the router learns how long answers take, and so when nothing comes
        stream, plain, engine = self.two_on_one_engine()
        engine.terminate()
        if self.router:
            saw(self.kind, f"after SIGTERM to an engine the longest of 24 requests took {self.many():.2f} s")
        self.ended(stream, "SIGTERM")
        if self.router:
            self.cut_and_asked_elsewhere(stream, plain, "SIGTERM")
        else:
            saw(self.kind, f"SIGTERM: the plain request {'has ended' if plain.done() else 'hangs'} then")
            engine.kill_all()

    def test_without_any_engine_there_is_a_503_that_says_when_to_come_back(self):
        self.need_router()
        self.addCleanup(self.bring_back)
        for engine in self.engines:
            engine.kill_all()

        def refused():
            status, headers, body = raw.ask(self.url, "/v1/chat/completions", chat("hello"))
            self.assertGreaterEqual(status, 500)
            return (headers, body) if status == 503 else None

        headers, body = eventually("503", refused, limit=30)
        self.assertGreaterEqual(int(headers["Retry-After"]), 1)
        self.assertIn("message", body["error"])
        # A request that an engine broke off says nothing of the engine yet: the probe that follows does.
        eventually("not ready", lambda: status_of(self.router, "/readyz") == 503, limit=5)
        self.bring_back()
        eventually("requests are answered again", lambda: raw.ask(
            self.url, "/v1/chat/completions", chat("hello"))[0] == 200, limit=30)


def status_of(of, path):
    """The status of a GET from an engine or the router."""
    return engines.get(of.url + path, timeout=15)[0]
