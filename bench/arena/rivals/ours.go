package rivals

import "os/exec"

// ours is warmpath as it comes: no setting.
func ours(warmpath string) Rival {
	return Rival{
		Name: "warmpath", From: "this repository",
		Settings: map[Job]string{Plain: "no setting (least_ttft)", Header: "no setting (least_ttft)"},
		find:     func(string) (string, error) { return warmpath, nil },
		version:  firstLine("warmpath ", "version"),
		command: func(program string, _ Job, s Site) (*exec.Cmd, error) {
			args := []string{"serve", "--listen", s.Listen, "--admin", s.Admin}
			for _, u := range s.URLs() {
				args = append(args, "--endpoint", u)
			}
			return exec.Command(program, args...), nil
		},
	}
}
