"""Writes expressions.json with the reference implementation (Jinja2 with the settings of Hugging Face transformers).

    python make.py        # with transformers 5.19 and Jinja2 3.1
"""

import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))

VARS = {
    "n": 3, "zero": 0, "s": "Hello World", "u": "héllo 你😀", "list": [1, 2, 3], "d": {"z": 1, "a": "x", "list": [1, 2], "B": None}, "nested": [{"a": 1, "b": {"c": 2}}, {"a": 2}], "null": None, "f": 2.5, "big": 123456789012345678901234567890, "tiny": 1e-7, "huge": 1e16, "ctl": "\x00\x1f\x7f\u2028",
    "messages": [{"role": "user", "content": " hi "}, {"role": "assistant", "content": "there"}],
}


def expressions():
    """Each line of expressions.txt is a template, rendered with VARS; a sign \u23ce in it stands for a line break."""
    sys.modules["torch"] = None  # not needed, and slow to load
    from transformers.utils.chat_template_utils import _compile_jinja_template

    out = []
    text = open(os.path.join(HERE, "expressions.txt"), encoding="utf-8").read()
    for template in text.split("\n"):
        if not template:
            continue
        template = template.replace("\u23ce", "\n")
        try:
            out.append({"template": template, "text": _compile_jinja_template(template).render(**json.loads(json.dumps(VARS)))})
        except Exception as e:
            out.append({"template": template, "error": type(e).__name__ + ": " + str(e)})
    return {"vars": VARS, "cases": out}


if __name__ == "__main__":
    value = expressions()
    with open(os.path.join(HERE, "expressions.json"), "w", encoding="utf-8") as f:
        json.dump(value, f, indent=0)
        f.write("\n")
