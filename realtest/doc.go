// Package realtest drives the router in front of real engines (vLLM, SGLang, llama-server) with the official clients. It
// has no code of its own beyond an opt-in test, which runs the Python tests beside it; README.md says how.
package realtest
