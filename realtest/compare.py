"""Compares real engines with the simulator: two vLLM processes, the router in front of them, four policies, and the same in virtual time.

    python compare.py [--dir DIR] [--ports 19000,19010]

starts the engines, lets `go test ./cmd/warmpath -run TestCompareWithEngines` record some traffic, fit to it how fast they are, play generated
workloads through the router under each policy and simulate them, and ends them. Policies must rank alike by the median time to first token. Python's
standard library only; needs go. It takes about eight minutes on two cores that have nothing else to do, and on busy ones says little.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

import engines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dir", type=pathlib.Path, default=engines.default_dir())
    parser.add_argument("--ports", default="19000,19010")
    args = parser.parse_args()
    why = engines.missing("vllm", args.dir)
    if why:
        sys.exit(why)
    logs = pathlib.Path(tempfile.mkdtemp(prefix="warmpath-compare-"))
    fleet = [engines.Engine("vllm", int(port), args.dir, logs) for port in args.ports.split(",")]
    try:
        for engine in fleet:
            engine.start()
        for engine in fleet:
            engine.wait()
        env = os.environ | {"WARMPATH_COMPARE_ENGINES": ",".join(e.url for e in fleet), "WARMPATH_COMPARE_MODEL": engines.MODEL}
        command = ["go", "test", "./cmd/warmpath", "-run", "TestCompareWithEngines", "-v", "-count=1", "-timeout", "20m"]
        return subprocess.run(command, cwd=engines.HERE.parent, env=env, check=False).returncode
    finally:
        for engine in fleet:
            engine.stop()


if __name__ == "__main__":
    sys.exit(main())
