// Package tokenizer is the reader of a model's own tokenizer: it turns a request into the token ids that an engine computes from
// it, where the engine has no path to ask for them (TensorRT-LLM has none; there the founding router names the files with
// tokenizer_dir or model_path, NVIDIA/TensorRT-LLM tensorrt_llm/serve/router.py).
//
// It reads the files of a Hugging Face model directory: tokenizer.json (huggingface/tokenizers, format version 1.0),
// tokenizer_config.json and chat_template.jinja. Byte-level BPE is ours, with hand-written splitters for the patterns in the wild
// (GPT-2, cl100k and its kin Llama 3 and Qwen, o200k, DeepSeek); chat templates are rendered by internal/jinja (docs/decisions/0022-tokenizer.md says why). What the files ask for and this package does not
// do is refused by Load, by name: a wrong token makes every block hash after it wrong, without a sound.
//
// It costs milliseconds for a long prompt, so it has no place between a client and its engine: use it beside a request.
package tokenizer
