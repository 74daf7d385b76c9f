package rivals

import (
	"os/exec"
	"slices"
)

// vllmRouter is the router of the vLLM project. It reads X-Session-ID by itself; of consistent_hash and
// sticky_least_loaded the second did better here. Health checks, circuit breaker and thresholds as for smg.
func vllmRouter() Rival {
	return Rival{
		Name: "vllm-router", From: "pip install vllm-router",
		Settings: map[Job]string{
			Plain: "cache_aware, thresholds for this load", Header: "sticky_least_loaded by X-Session-ID",
		}, find: inVenv("vllm-router", "bin/vllm-router"), pins: "vllm-router.txt",
		version: func(string) string { return pinned("vllm-router.txt", "vllm-router") },
		command: func(program string, job Job, s Site) (*exec.Cmd, error) {
			policy := "cache_aware"
			if job == Header {
				policy = "sticky_least_loaded"
			}
			return exec.Command(program, slices.Concat([]string{"--worker-urls"}, s.URLs(), []string{
				"--host", "127.0.0.1", "--port", s.ListenPort(), "--prometheus-port", s.AdminPort(), "--log-level",
				"error", "--policy", policy, "--worker-startup-check-interval", "1",
				"--health-check-interval-secs", "2", "--health-check-timeout-secs", "2", "--health-failure-threshold",
				"2", "--health-success-threshold", "1",
				"--cb-failure-threshold", "3", "--cb-success-threshold", "1", "--cb-timeout-duration-secs", "5",
			}, evenSoon)...), nil
		},
	}
}
