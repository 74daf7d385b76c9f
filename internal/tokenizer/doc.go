// Package tokenizer computes the token ids of text, and of bodies of OpenAI's API, from a model's own files.
//
// It owns the reading of a Hugging Face model directory (Load): tokenizer.json (huggingface/tokenizers, format version
// 1.0), tokenizer_config.json and chat_template.jinja. Byte-level BPE is done here (Tokenizer.Encode), with
// hand-written splitters for the patterns in use: GPT-2, cl100k and its kin Llama 3 and Qwen, o200k, tekken, DeepSeek.
// A chat is read as TensorRT-LLM's server reads it and rendered by package jinja (Tokenizer.Request).
//
// It promises the ids of the reference implementations, tokenizers and transformers: testdata holds them. What the
// files need and this package does not support is an error of Load that names it; an unknown part of a body is an error
// of Request. One wrong token is as bad as none, so nothing is guessed.
//
// It never writes a file, never connects to anything, never looks at a file again after Load, and never starts a
// goroutine. A Tokenizer may be used by several goroutines.
//
// Files of more than 64 MiB, and configurations of more than 8 MiB, are refused. Encode takes time in n log n of the
// text and allocates at most 160 bytes for each byte of it; the words that it remembers are at most 65,536, of 64 bytes
// each at most. Rendering a chat is bounded in steps, bytes and by five seconds: a long prompt takes milliseconds.
//
// It stays in internal/ because it reads files, tells a chat template the time, and holds a lock around its memory of
// words. Package jinja does none of that.
package tokenizer
