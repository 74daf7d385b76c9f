"""Two llama-servers without --parallel, whose four slots share one context, with the router in front.

    WARMPATH_REAL=DIR TESTS=test_shared realtest/run.sh llama

Such a server fails all requests that it has once together they need more than its context. Each alone fits. The router
may not know that when the first come, nor how many tokens their texts have: in this model each byte is one.
"""

import concurrent.futures
import time
import unittest

import engines
import fleet
import raw

CONTEXT, PROMPT, ANSWER = 4096, 2300, 64


class Shared(engines.Engine):
    """A llama-server with its defaults, and a context that holds one of the requests."""

    without = ("--parallel", "4")
    extra = ("--ctx-size", CONTEXT)


class SharedContext(fleet.Fleet):
    kind = "llama"

    @classmethod
    def setUpClass(cls):
        real, engines.Engine = engines.Engine, Shared
        try:
            super().setUpClass()
        finally:
            engines.Engine = real

    def all_at_once(self, stream, prompt=PROMPT):
        """Asks for eight answers at once, and returns how each ended."""
        def one(n):
            body = fleet.chat(fleet.words("llama", prompt, f"{fleet.fresh()} {n}"), ANSWER, stream=stream)
            if not stream:
                status, _, answer = raw.ask(self.url, "/v1/chat/completions", body, timeout=120)
                return "answered" if status == 200 else f"{status} {answer}"
            answer = raw.post(self.url, "/v1/chat/completions", body, timeout=120)
            answer.drain()
            answer.close()
            return "answered" if answer.reasons == ["length"] and answer.end == "done" else f"{answer.end} {answer.errors}"

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            return list(pool.map(one, range(8)))

    def test_a_router_that_has_seen_slots_emptied_lets_requests_wait(self):
        """/slots tells it: a slot is emptied when a request begins in another one."""
        self.need_router()
        for n in range(40):  # from which the router also learns how many tokens a text has
            raw.ask(self.url, "/v1/chat/completions", fleet.chat(fleet.words("llama", 600, f"{fleet.fresh()} {n}"), 8), timeout=120)
        fleet.eventually("it is seen at both engines", self.each_seen, limit=60)
        ends = self.all_at_once(True, 3500)
        self.assertEqual(ends.count("answered"), 8, ends)
        for engine in self.engines:
            self.assertNotIn("Context size has been exceeded", engine.log.read_text(errors="replace"))

    def each_seen(self):
        """Whether it is; if not, two more requests are asked, with time in between for /slots."""
        told = [e["engine"] for e in self.router.endpoints()["endpoints"]]
        if all(e.get("slot_cache") == "cleared" and e["cache_tokens"] == CONTEXT for e in told):
            return True
        for _ in range(2):
            raw.ask(self.url, "/v1/chat/completions", fleet.chat(fleet.words("llama", 300, fleet.fresh()), 8), timeout=120)
            time.sleep(1.5)
        return False

    def test_all_are_answered(self):
        for stream in False, True:
            ends = self.all_at_once(stream)
            answered = ends.count("answered")
            fleet.saw("llama", f"{'streams' if stream else 'plain'}: {answered} of 8 answered where two do not fit")
            if self.router:
                self.assertEqual(answered, 8, ends)
                self.assertEqual([e["state"] for e in self.router.endpoints()["endpoints"]], ["up", "up"])
            else:
                self.assertEqual(answered, 0, ends)


if __name__ == "__main__":
    unittest.main(verbosity=2)
