package rivals

import (
	"os/exec"
	"slices"
)

// smg is the Shepherd Model Gateway. Its health checks and its circuit breaker are made as quick as those of the
// others: by default it asks every 60 s and leaves an engine out for 60 s. Its thresholds fit this load: see evenSoon;
// of cache thresholds 0.3 and 0.8 the second did better.
func smg() Rival {
	return Rival{
		Name: "smg", From: "pip install smg",
		Settings: map[Job]string{
			Plain: "cache_aware, thresholds for this load", Header: "cache_aware, sticky sessions by X-Session-ID",
		}, find: inVenv("smg", "bin/smg"), pins: "smg.txt",
		version: func(string) string { return pinned("smg.txt", "smg") },
		command: func(program string, job Job, s Site) (*exec.Cmd, error) {
			args := slices.Concat([]string{"launch", "--worker-urls"}, s.URLs(), []string{
				"--host", "127.0.0.1", "--port", s.ListenPort(), "--prometheus-port", s.AdminPort(), "--log-level",
				"error", "--policy", "cache_aware", "--disable-tokenizer-autoload", "--worker-startup-check-interval",
				"1", "--health-check-interval-secs", "2", "--health-check-timeout-secs", "2",
				"--health-failure-threshold", "2", "--health-success-threshold", "1", "--cb-failure-threshold", "3",
				"--cb-success-threshold", "1", "--cb-timeout-duration-secs", "5", "--cache-threshold", "0.8",
			}, evenSoon)
			if job == Header {
				args = append(args, "--sticky-sessions", "--routing-key-headers", "x-session-id")
			}
			return exec.Command(program, args...), nil
		},
	}
}
