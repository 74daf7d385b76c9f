// Package realtest drives the router in front of real engines (vLLM, SGLang, llama-server) with the official clients,
// and in front of simulated ones with aiperf. It has no code of its own beyond opt-in tests, which run the Python tests
// beside it; README.md says how.
package realtest
