package rivals

import (
	"os"
	"os/exec"
	"strings"
)

// litellm is a gateway first. One worker, since its memory of sessions is each worker's own unless it has a Redis.
func litellm() Rival {
	return Rival{
		Name: "litellm", From: "pip install 'litellm[proxy]'",
		Settings: map[Job]string{Plain: "least-busy", Header: "least-busy, session_affinity by X-Session-ID"},
		Rewrites: true, Slow: true,
		find: inVenv("litellm", "bin/litellm"), pins: "litellm.txt",
		version: func(string) string { return pinned("litellm.txt", "litellm") },
		command: func(program string, job Job, s Site) (*exec.Cmd, error) {
			path, err := writeConfig("litellm", ".yaml", job, s)
			cmd := exec.Command(program, "--config", path, "--host", "127.0.0.1", "--port", s.ListenPort())
			for _, v := range os.Environ() { // the user's keys and addresses are not for it
				if name, _, _ := strings.Cut(v, "="); !strings.HasPrefix(name, "LITELLM_") &&
					!strings.HasPrefix(name, "OPENAI_") && name != "DATABASE_URL" {
					cmd.Env = append(cmd.Env, v)
				}
			}
			cmd.Env = append(cmd.Env, "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY=true",
				"LITELLM_LOCAL_MODEL_COST_MAP=True", "LITELLM_TELEMETRY=False", "NO_DOCS=True")
			return cmd, err
		},
	}
}
