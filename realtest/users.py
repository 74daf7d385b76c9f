"""Plays what users have against the router, one after the other, and says for each whether it works.

Run by `run.sh users`, or with REAL_ROUTER set: python users.py [a part of a name ...]. Exit code 1 if one failed.
"""

import io
import sys
import time
import unittest

CLIENTS = {
    "openai, Python": "test_clients.Libraries.test_openai_python",
    "openai, Node": "test_clients.Libraries.test_openai_node",
    "openai, Go": "test_clients.Libraries.test_openai_go",
    "anthropic, Python": "test_clients.Libraries.test_anthropic_python",
    "AI SDK, Node": "test_clients.Libraries.test_ai_sdk",
    "OpenAI Agents SDK": "test_clients.Libraries.test_openai_agents",
    "LangChain": "test_clients.Libraries.test_langchain",
    "LiteLLM in front": "test_clients.LiteLLM.test_in_front",
    "LiteLLM behind": "test_clients.LiteLLM.test_behind",
    "Open WebUI's calls": "test_clients.OpenWebUI",
    "Claude Code": "test_clients.Agents.test_claude_code",
    "Codex": "test_clients.Agents.test_codex",
    "aiperf": "test_aiperf.Whole",
    "Prometheus, dashboard, alerts": "test_clients.Watchers.test_prometheus_and_the_dashboard",
    "promtool": "test_clients.Watchers.test_promtool",
    "OpenTelemetry collector": "test_clients.Watchers.test_opentelemetry_collector",
    "systemd": "test_clients.Watchers.test_systemd_unit",
}


def play(name, tests):
    """Runs the tests of one client, prints a line, and returns what went wrong."""
    began = time.monotonic()
    result = unittest.TextTestRunner(stream=io.StringIO(), verbosity=0).run(unittest.defaultTestLoader.loadTestsFromName(tests))
    wrong = [text for _, text in result.errors + result.failures]
    why = ""
    if wrong:
        state, why = "FAILED", wrong[0].strip().splitlines()[-1]
    elif result.skipped:
        state, why = "skipped", result.skipped[0][1]
    else:
        state = "ok"
    print(f"{state:8}{time.monotonic() - began:5.1f} s  {name}{': ' + why[:300] if why else ''}", flush=True)
    return wrong


def main(parts):
    wanted = {name: tests for name, tests in CLIENTS.items() if not parts or any(p.lower() in name.lower() for p in parts)}
    if not wanted:
        sys.exit(f"users: no client is called {' or '.join(parts)}; there are {', '.join(CLIENTS)}")
    failed = {name: wrong for name, tests in wanted.items() if (wrong := play(name, tests))}
    for name, wrong in failed.items():
        print(f"\n{name}:\n" + "\n".join(wrong), file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
