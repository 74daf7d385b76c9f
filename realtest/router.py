"""Starts, watches and ends the router in front of engines.

    python router.py vllm|sglang|llama|ollama [--ports 19000,19010] [--apart] [--router warmpath] [--dir DIR]

starts the engines too, runs until Ctrl-C or SIGTERM, and leaves no process behind. Python's standard library only.
"""

import argparse
import http.client
import json
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
import time

import engines


class Router:
    """One `warmpath serve` process."""

    def __init__(self, binary, fleet, listen, admin, logs):
        self.url, self.admin = f"http://127.0.0.1:{listen}", f"http://127.0.0.1:{admin}"
        self.log = logs / "router.log"
        self.command = [str(binary), "serve", "--listen", f"127.0.0.1:{listen}", "--admin", f"127.0.0.1:{admin}",
                        "--log-requests"]
        for engine in fleet:
            self.command += ["--endpoint", engine.url]
        self.process = None

    def start(self, limit=20):
        """Starts the router and returns when it is ready, that is when it has a usable endpoint."""
        env = {k: v for k, v in os.environ.items() if not k.startswith("WARMPATH_")}  # it takes those for settings
        env["WARMPATH_TIMEOUTS_DRAIN"] = "10m"  # how long seconds of work take on busy cores, nobody knows
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(self.command, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            start_new_session=True)
        began = time.monotonic()
        while time.monotonic() - began < limit:
            if self.process.poll() is not None:
                raise engines.Failed(f"the router ended with code {self.process.returncode}: {self.tail()}")
            try:
                if engines.get(self.url + "/readyz", timeout=2)[0] == 200:
                    return self
            except (OSError, http.client.HTTPException):
                pass
            time.sleep(0.05)
        raise engines.Failed(f"the router was not ready after {limit} s: {self.tail()}")

    def tail(self):
        """The last lines of the router's log."""
        return self.log.read_text(errors="replace")[-1500:] if self.log.exists() else "(no log)"

    def endpoints(self):
        """What GET /admin/endpoints says."""
        status, text = engines.get(self.admin + "/admin/endpoints", timeout=5)
        if status != 200:
            raise engines.Failed(f"/admin/endpoints answered {status}: {text}")
        return json.loads(text)

    def metrics(self):
        """The router's own counters and gauges, summed over their labels."""
        return engines.parse_metrics(engines.get(self.admin + "/metrics", timeout=5)[1])

    def stop(self, grace=15):
        """SIGTERM, then SIGKILL; returns the exit code and the seconds it took."""
        if self.process is None:
            return None
        began = time.monotonic()
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(grace)
            except subprocess.TimeoutExpired:
                pass
        engines.end_group(self.process)
        return self.process.returncode, time.monotonic() - began


def main():
    p = argparse.ArgumentParser(description="Run real engines, and the router in front of them, until Ctrl-C.")
    p.add_argument("kind", choices=engines.KINDS)
    p.add_argument("--ports", default="19000,19010", help="one engine on each (default: %(default)s)")
    p.add_argument("--apart", action="store_true", help="each engine on a processor of its own: they do not slow each other down")
    p.add_argument("--extra", type=shlex.split, default=[], metavar="ARGUMENTS",
                   help="further ones of each engine, in one word: --extra='--num-gpu-blocks-override 4480'")
    p.add_argument("--dir", type=pathlib.Path, default=engines.default_dir(), help="where install.sh put them (default: %(default)s)")
    p.add_argument("--logs", type=pathlib.Path, help="default: DIR/logs")
    p.add_argument("--router", help="the warmpath program; left out, no router is started")
    p.add_argument("--listen", type=int, default=8080, help="the router's port (default: %(default)s)")
    p.add_argument("--admin", type=int, default=9190, help="the router's admin port (default: %(default)s)")
    args = p.parse_args()
    why = engines.missing(args.kind, args.dir)
    if why:
        sys.exit(why)
    ports, processors = [int(port) for port in args.ports.split(",")], sorted(os.sched_getaffinity(0))
    if args.apart and len(ports) > len(processors):
        sys.exit(f"--apart: {len(ports)} engines, and this machine has {len(processors)} processors")
    logs = args.logs or args.dir / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    fleet = [engines.Engine(args.kind, port, args.dir, logs) for port in ports]
    for engine, processor in zip(fleet, processors if args.apart else [None] * len(fleet)):
        engine.extra, engine.processor = args.extra, processor
    router = None
    try:
        print(f"starting {len(fleet)} x {args.kind}, logs in {logs}", flush=True)
        print(f"ready after {engines.start_all(fleet):.0f} s: {' '.join(e.url for e in fleet)}", flush=True)
        if args.router:
            router = Router(shutil.which(args.router) or args.router, fleet, args.listen, args.admin, logs).start()
            print(f"router: {router.url}  admin and metrics: {router.admin}  model: {engines.MODEL}", flush=True)
        while not any(engine.exited() for engine in fleet) and not (router and router.process.poll() is not None):
            time.sleep(0.5)
        sys.exit("one of the processes ended; see the logs")
    except KeyboardInterrupt:
        pass
    except engines.Failed as failed:
        sys.exit(str(failed))
    finally:
        for again in (signal.SIGINT, signal.SIGTERM):  # a second one would leave engines behind
            signal.signal(again, signal.SIG_IGN)
        if router:
            router.stop()
        for engine in fleet:
            engine.stop()


if __name__ == "__main__":
    main()
