"""A real vLLM with two data-parallel ranks behind one address, with the router in front.

    WARMPATH_REAL=DIR TESTS=test_ranks realtest/run.sh vllm
"""

import json
import unittest

import engines
import fleet
import raw
import router as routers
import test_events

TALKS, TURNS = 6, 4


class Ranked(test_events.Publisher):
    """vLLM takes each rank to its own node of memory; on a machine with one, it must be told that it has several."""

    replay = 5  # each rank publishes at a port of its own, from the first on

    def __init__(self, port, directory, logs):
        super().__init__("vllm", port, directory, logs)
        self.extra = [*self.extra, "--data-parallel-size", 2]
        self.environment = {"VLLM_CPU_SIM_MULTI_NUMA": "1", "VLLM_CPU_OMP_THREADS_BIND": "auto"}


class Ranks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        why = engines.missing("vllm", fleet.DIRECTORY)
        if why or not fleet.ROUTER:
            raise unittest.SkipTest(why or "REAL_ROUTER is not set")
        logs = engines.logs("ranks")
        port, listen, admin = 19700, 19780, 19781
        cls.engine = Ranked(port, fleet.DIRECTORY, logs)
        cls.router = routers.Router(fleet.ROUTER, [], listen, admin, logs)
        cls.router.log.unlink(missing_ok=True)
        cls.router.command += ["--endpoint", cls.engine.url + ",name=e,ranks=2", "--log-format", "json"]
        cls.addClassCleanup(cls.engine.stop)
        cls.addClassCleanup(cls.router.stop)
        engines.start_all([cls.engine])
        cls.router.start()

    def lines(self):
        """The router's lines about requests."""
        told = [json.loads(line) for line in self.router.log.read_text().splitlines() if line.startswith("{")]
        return [line for line in told if line.get("msg") == "request"]

    def computed(self):
        """The tokens of prompts that each rank has had."""
        text = engines.get(self.engine.url + "/metrics", 10)[1]
        lines = [line for line in text.splitlines() if line.startswith("vllm:prompt_tokens_total{")]
        return [sum(engines.parse_metrics("\n".join(line for line in lines if f'engine="{n}"' in line)).values()) for n in range(2)]

    def test_conversations_stay_at_their_rank_whatever_clients_say(self):
        fleet.eventually("the router hears the events of both ranks", lambda: engines.get(
            self.router.admin + "/metrics", 5)[1].count('state="exact"} 1') == 2)
        before = self.computed()
        talks = [[{"role": "system", "content": "you are " + fleet.fresh()}] for _ in range(TALKS)]
        for turn in range(TURNS):
            for n, talk in enumerate(talks):
                talk.append({"role": "user", "content": fleet.words("vllm", 200, f"{n} {turn}")})
                status, _, answer = raw.ask(self.router.url, "/v1/chat/completions", {
                    "model": fleet.MODEL, "messages": talk, "max_tokens": 8, "temperature": 0,
                }, {"X-Session-Id": f"talk{n}", "X-Data-Parallel-Rank": str(7 * turn)})  # 7 is none of its ranks
                self.assertEqual(status, 200, answer)
                talk.append({"role": "assistant", "content": answer["choices"][0]["message"]["content"]})
        lines = fleet.eventually("the log has all", lambda: len(told := self.lines()) == TALKS * TURNS and told)
        ranks = [{line["endpoint"] for line in lines[n::TALKS]} for n in range(TALKS)]
        self.assertEqual([len(r) for r in ranks], [1] * TALKS, "each stays at one rank")
        self.assertEqual(set.union(*ranks), {"e/rank0", "e/rank1"})
        sent = [sum(line["prompt_tokens"] for line in lines if line["endpoint"] == f"e/rank{n}") for n in range(2)]
        self.assertEqual([b - a for a, b in zip(before, self.computed())], sent, "the engine computes where the router says")
        off = [abs(line["predicted_cached_tokens"] - line["cached_tokens"]) for line in lines]
        self.assertLessEqual(max(off), test_events.BLOCK)


if __name__ == "__main__":
    unittest.main(verbosity=2)
