// Command bench measures what a router costs: CPU time per request, throughput, added latency and memory, of warmpath
// and of nginx and HAProxy in the same run on the same machine. README.md says how to run it and how to read it.
//
// It is a module of its own, so that nothing it needs becomes a dependency of the router.
package main
