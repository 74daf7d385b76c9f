"""Put a tokenizer where Hugging Face's libraries look for one that they have fetched, so that nothing is fetched.

    python make_tokenizer.py HUB

makes HUB/models--local--tiny, which HF_HOME=(the folder above HUB) and HF_HUB_OFFLINE=1 find as "local/tiny". The tokenizer is
the one of make_model.py.
"""

import hashlib
import pathlib
import shutil
import sys

import make_model


def main():
    repository = pathlib.Path(sys.argv[1]) / "models--local--tiny"
    fresh = repository / "fresh"
    fresh.mkdir(parents=True)
    make_model.write_tokenizer(fresh)
    revision = hashlib.sha1((fresh / "tokenizer.json").read_bytes()).hexdigest()  # any 40 hexadecimal digits do
    snapshot = repository / "snapshots" / revision
    shutil.rmtree(snapshot, ignore_errors=True)
    snapshot.parent.mkdir(exist_ok=True)
    fresh.rename(snapshot)
    (repository / "refs").mkdir(exist_ok=True)
    (repository / "refs" / "main").write_text(revision)


if __name__ == "__main__":
    main()
