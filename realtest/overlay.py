"""overlay.py WHEEL: puts the Python files of a vLLM wheel in the place of those that are installed here, and leaves what is compiled."""

import pathlib
import sysconfig
import sys
import zipfile

place = pathlib.Path(sysconfig.get_paths()["purelib"])
for old in (place / "vllm").rglob("*.py"):
    old.unlink()
with zipfile.ZipFile(sys.argv[1]) as wheel:
    for name in wheel.namelist():
        if name.startswith("vllm/") and not name.endswith((".so", "/vllm-rs")):
            wheel.extract(name, place)
