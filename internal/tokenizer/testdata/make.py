"""Writes the fixtures of this folder with the reference implementation (tokenizers and transformers of Hugging Face).

    python make.py        # with tokenizers 0.23 and transformers 5.19

model.json     a byte-level BPE of a few hundred merges, trained without splitting, so that its merges reach over the borders of words and a wrong border is seen
variants.json  what stands around it in a tokenizer.json: normalizer, pre-tokenizer, post-processor, added tokens, and tokenizer_config.json
golden.json    the token ids of texts, per variant, and the pieces of texts, per pattern
chat.json      chats and what transformers' apply_chat_template makes of them with the templates in templates/, whose words are our own
"""

import json
import os
import random
import sys
import tempfile

from tokenizers import Regex, Tokenizer, models, pre_tokenizers, processors, trainers

HERE = os.path.dirname(os.path.abspath(__file__))

WORDS = """the router keeps a conversation where its cache is warm and moves it when waiting there would cost more than computing it again somewhere else
it's we're they've I'm you'll he'd don't can't IT'S WE'RE THEY'VE I'M YOU'LL HE'D o'clock 'quoted' HTTPServer parseJSON camelCase SNAKE_CASE iPhone McDonald
def main(): return {"key": [1, 22, 333, 4444], 'other': None}  # comment
func (r *Router) Pick(ctx context.Context) (int, error) { if err != nil { return 0, err } }
for i := 0; i < 100; i++ { x += i*2 } /* block */ // line
https://example.org/a/b?c=d&e=f#g <html><body class="x">&amp;</body></html>
Größe Straße naïve café façade Ångström señor Žluťoučký kůň İstanbul ΑΒΓ αβγ Привет мир ПРИВЕТ
你好 世界 我们 在 这里 学习 机器 东京 は 日本 の 首都 です カタカナ ひらがな 한국어 안녕하세요
नमस्ते दुनिया สวัสดีชาวโลก مرحبا بالعالم שלום עולם
😀 😃 👍🏽 👩‍👩‍👧‍👦 🇩🇪 ✓ → ∑ ≠ ½ Ⅷ ٣ ६ ² ①
"""

TEXTS = [
    "", " ", "  ", "   ", "\n", "\n\n", "\r\n", "\r\n\r\n", "\t", " \n", "\n ", " \n ", "  \n\n  ", "\n\t\n", " \t \n x", "a\n\n\nb", "a  \n  b", "x   ", "   x", "x \n", "\u00a0x", " \u00a0 x", "\u3000你好\u3000",
    "\u2028x\u2029y", "\u0085x", "\u200bzero\u200bwidth", "\ufeffbom", "hello", " hello", "Hello world", "hello  world", "hello   world", "hello\tworld", "hello\t\tworld",
    "it's", "IT'S", "It'S we'RE they'Ve i'm YOU'LL he'd don't", "'s", " 's", "''s", "'ll'll", "x'", "'", "''", "'x", "o'clock", "d'accord", "'\u017fx", "it'\u017f", "it’s", "rock'n'roll", "HTTP'Server'Ve",
    "1", "12", "123", "1234", "12345678901", " 1", " 12 345", "3.14159", "1,000,000", "x1y22z333", "½ ²³ ①② Ⅷ ٣٤٥٦ ६७८९", "v1.2.3-rc4",
    "HTTPServer", "parseJSONFile", "camelCase", "SNAKE_CASE_NAME", "iPhone", "McDonald", "ABCdefGHI", "aB", "Ab", "AB", "ab", "ǅungla ǆungla ǄUNGLA", "ʰello ªº", "XMLʰttp", "ÉCOLE école École",
    "Größe Straße", "naïve café", "e\u0301te\u0301", "E\u0301TE\u0301", "\u0301x", " \u0301x", "a\u0301\u0302b", "1\u0301", "!\u0301a", "A\u0301bC\u0301", "n\u0303o\u0303", "\u0301A", "\u0301AB\u0301c", "x\u0301\u0301 \u0301",
    "你好，世界！", "今天天气很好。", "東京は日本の首都です。カタカナ、ひらがな", "한국어 문장입니다.", "漢字とkanaとLatin", "中文123中文", "\u4e00\u9fa5\u9fa6\u3040\u30ff\u3100",
    "नमस्ते दुनिया", "สวัสดีชาวโลก", "مرحبا بالعالم", "שָׁלוֹם", "😀", "😀😃 👍🏽", "👩‍👩‍👧‍👦🇩🇪", " 😀", "a😀b", "→ ≠ ∑", "©®™",
    "...", "!!!", "?!\n", "?!\r\n\r\n x", ");\n}\n", "//\n", "a/b/c", "//comment\n//more", "a/\n/b", "#include <stdio.h>\n", "if (x) {\n\treturn y;\n}\n", "x = [1, 2, 3]  # list\n\n\ny = 2", "    indented\n        more\n",
    "<div class=\"a\">text</div>", "foo_bar-baz+qux", "a.b.c()", "$100 €200", "100%", "@user #tag", "C:\\path\\to", "`code`", "```go\nfmt.Println(\"hi\")\n```\n", "{\"a\": {\"b\": [null, true, 1e-5]}}",
    "\x00", "a\x00b", "\x01\x02", "\x7f", "\x1b[31mred\x1b[0m", "\x1c\x1d", "x\x0by\x0cz", "\x0b\x0c", "_", "__init__", "_a", " _a", "-a", "(a", "[a]", "{a}", "~a", "é́", "a" * 70, "ab" * 60, " " * 70 + "x", "=" * 100, "\n" * 40, "the " * 30,
    "<|end|>", "a<|end|>b", "a <|end|> b", "<|end|><|end|>", "<|end|", "<|start|>user\nhi<|end|>\n", "xNORMx", "x NORM y", "NORM", "a TRIM b", "a  TRIM  b", "TRIMTRIM", " TRIM TRIM ", "word", "a word b", "words", "a-word-b", "sword word", "caféX", "cafe\u0301X", "<|a|><|a|>b", "<|a|>b<|a|>",
    "\U0001d400\U0001d41a\U0001d7ce", "\U0002a6d6\U0002a6d7", "\ue000x", "\uffffx", "\U000e0001", "x\u200dy", "ﬁﬂ", "ﬆ'ﬆ", "'S'T'RE'VE'M'LL'D", "'L'l 'lL 'r 'v 'R 'V 're", " \r \n \r\n ", "\r", "\rx", "a\r\rb", "\u180e x", "a\u180eb", "\u1680x",
    "Ω ohm Å K kelvin", "ı I İ i", "ß ẞ", "日本語ABCひらがなdef", "a\u0300\u0301\u0302\u0303\u0304", "٠١٢٣", "ⅣⅤ", "x²+y²=z²", "１２３４", "ＡＢＣａｂｃ", "ｶﾀｶﾅ", "·middle·dot", "«quote» „low“", "—dash—", "…", "a…\nb",
]

PATTERNS = {
    "gpt2": r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+""",
    "cl100k": r"""(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+""",
    "qwen2": r"""(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+""",
    "qwen35": r"""(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+""",
    "o200k": r"""[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+""",
    "tekken": r"""[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+""",
    "three": r"\p{N}{1,3}",
    "cjk": "[一-龥぀-ゟ゠-ヿ]+",
    "deepseek": "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
}


def split(name, behavior="Isolated", invert=False):
    return {"type": "Split", "pattern": {"Regex": PATTERNS[name]}, "behavior": behavior, "invert": invert}


def level(use_regex=False, add_prefix_space=False):
    return {"type": "ByteLevel", "add_prefix_space": add_prefix_space, "trim_offsets": True, "use_regex": use_regex}


def seq(*parts):
    return {"type": "Sequence", "pretokenizers": list(parts)}


def token(id, content, **flags):
    return {"id": id, "content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True} | flags


def train():
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    lines = WORDS.splitlines()
    rng = random.Random(7)
    pieces = [w for line in lines for w in line.split(" ")]
    for _ in range(400):
        n = rng.randint(2, 9)
        lines.append("".join(rng.choice(pieces) + rng.choice([" ", " ", " ", "  ", "\n", "\n\n", "", "'s ", ", ", "    ", "/", "123", "\r\n"]) for _ in range(n)))
    trainer = trainers.BpeTrainer(vocab_size=1000, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tok.train_from_iterator(lines, trainer)
    return json.loads(tok.to_str())["model"]


def variants(n):
    added = [
        token(n, "<|start|>"), token(n + 1, "<|end|>"), token(n + 2, "NORM", special=False, normalized=True), token(n + 3, "TRIM", lstrip=True, rstrip=True),
        token(n + 4, "word", special=False, single_word=True), token(n + 5, "caf\u00e9X", special=False, normalized=True), token(n + 6, "<|a|>"), token(n + 7, "<|a|>b", special=False), token(n + 8, "TRIMT", special=False),
    ]
    bos = {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "<|start|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"SpecialToken": {"id": "<|start|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"<|start|>": {"id": "<|start|>", "ids": [n], "tokens": ["<|start|>"]}},
    }
    both = {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "<|start|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "<|end|>", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"<|start|>": {"id": "<|start|>", "ids": [n], "tokens": ["<|start|>"]}, "<|end|>": {"id": "<|end|>", "ids": [n + 1], "tokens": ["<|end|>"]}},
    }
    nfc = {"type": "NFC"}
    out = {
        "gpt2": {"pre_tokenizer": level(use_regex=True)},
        "gpt2_prefix_space": {"pre_tokenizer": level(use_regex=True, add_prefix_space=True), "post_processor": level(add_prefix_space=True)},
        "llama3": {"pre_tokenizer": seq(split("cl100k"), level()), "post_processor": {"type": "Sequence", "processors": [level(add_prefix_space=True), bos]}, "ignore_merges": True},
        "qwen2": {"normalizer": nfc, "pre_tokenizer": seq(split("qwen2"), level()), "post_processor": level(), "config": {"tokenizer_class": "Qwen2TokenizerFast", "add_bos_token": False}},
        "qwen35": {"normalizer": nfc, "pre_tokenizer": seq(split("qwen35"), level())},
        "o200k": {"pre_tokenizer": seq(split("o200k", "Removed", True), level()), "post_processor": both},
        "tekken": {"pre_tokenizer": seq(split("tekken"), level()), "ignore_merges": True},
        "deepseek": {"normalizer": {"type": "Sequence", "normalizers": []}, "pre_tokenizer": seq(split("three"), split("cjk"), split("deepseek"), level()), "post_processor": level(add_prefix_space=True),
                     "config": {"tokenizer_class": "LlamaTokenizerFast", "add_bos_token": True, "add_eos_token": False, "bos_token": "<|start|>", "eos_token": "<|end|>"}},
        "digits": {"pre_tokenizer": seq({"type": "Digits", "individual_digits": True}, level(use_regex=True))},
        "digit_runs": {"pre_tokenizer": seq({"type": "Digits", "individual_digits": False}, level(use_regex=True))},
        "no_regex": {"pre_tokenizer": level()},
    }
    for v in out.values():
        v.setdefault("normalizer", None)
        v.setdefault("post_processor", None)
        v["added_tokens"] = added
    return out


def file(model, v):
    model = dict(model, ignore_merges=v.get("ignore_merges", False))
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": v["added_tokens"], "normalizer": v["normalizer"], "pre_tokenizer": v["pre_tokenizer"],
            "post_processor": v["post_processor"], "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}, "model": model}


def reference(model, v):
    """The tokenizer as an engine has it. What tokenizer_config.json says of the beginning is done by hand, as transformers 4 does for its Llama class (LlamaTokenizerFast.update_post_processor): transformers 5 would put
    Llama 2's pre-tokenizer in place of the file's."""
    tok = Tokenizer.from_str(json.dumps(file(model, v)))
    config = v.get("config", {})
    if config.get("add_bos_token"):
        bos = config["bos_token"]
        tok.post_processor = processors.TemplateProcessing(single=bos + ":0 $A:0", pair=bos + ":0 $A:0 $B:1", special_tokens=[(bos, tok.token_to_id(bos))])
    return tok


def write(name, value):
    with open(os.path.join(HERE, name), "w", encoding="utf-8") as f:
        json.dump(value, f, ensure_ascii=True, separators=(",", ":"))
        f.write("\n")


def chats(model):
    sys.modules["torch"] = None  # not needed, and slow to load
    from transformers import AutoTokenizer

    cases = json.load(open(os.path.join(HERE, "chats_in.json"), encoding="utf-8"))
    out = []
    v = variants(len(model["vocab"]))["llama3"]
    for name in sorted(os.listdir(os.path.join(HERE, "templates"))):
        template = open(os.path.join(HERE, "templates", name), encoding="utf-8").read()
        with tempfile.TemporaryDirectory() as dir:
            json.dump(file(model, v), open(dir + "/tokenizer.json", "w"))
            json.dump({"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<|start|>", "eos_token": "<|end|>"}, open(dir + "/tokenizer_config.json", "w"))
            open(dir + "/chat_template.jinja", "w", encoding="utf-8").write(template)
            tok = AutoTokenizer.from_pretrained(dir)
            for case, chat in cases.items():
                if chat.get("only", name) != name:
                    continue
                try:
                    text = tok.apply_chat_template(chat["messages"], tokenize=False, **chat.get("kwargs", {}))
                    ids = tok(text, add_special_tokens=False)["input_ids"]
                    out.append({"template": name, "case": case, "text": text, "ids": ids})
                except Exception as e:
                    out.append({"template": name, "case": case, "error": str(e)})
    return out


def main():
    model = train()
    write("model.json", model)
    all = variants(len(model["vocab"]))
    write("variants.json", all)
    golden = {"texts": TEXTS, "plain": {}, "special": {}, "pieces": {}}
    for name, v in all.items():
        tok = reference(model, v)
        golden["plain"][name] = [tok.encode(t, add_special_tokens=False).ids for t in TEXTS]
        golden["special"][name] = tok.encode("Hello world", add_special_tokens=True).ids
    for name, pattern in PATTERNS.items():
        s = pre_tokenizers.Split(Regex(pattern), "isolated")
        golden["pieces"][name] = [[p for p, _ in s.pre_tokenize_str(t)] for t in TEXTS]
    write("golden.json", golden)
    if os.path.exists(os.path.join(HERE, "chats_in.json")):
        write("chat.json", chats(model))


main()
