package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/discovery"
	"github.com/warmpath/warmpath/internal/enginetest"
)

// userPages are those whose commands a reader is to type: what stands between ```sh and ``` in them.
var userPages = []string{
	"README.md", "docs/admin-api.md", "docs/choosing.md", "docs/conversations.md", "docs/disaggregation.md",
	"docs/engines.md", "docs/faq.md", "docs/kv-events.md", "docs/log-lines.md", "docs/migrating-proxies.md",
	"docs/migrating.md", "docs/page.md", "docs/performance.md",
	"docs/limits.md", "docs/operations.md", "docs/policies.md", "docs/planning.md", "docs/proxies.md",
	"docs/recording.md", "docs/restarts.md", "docs/securing.md", "docs/shadow.md", "docs/simulate.md",
	"docs/standing-in.md", "docs/tenants.md", "docs/troubleshooting.md", "docs/upgrading.md", "docs/watching.md",
}

// commandsOf are the lines of a page's commands, without comments; continued lines are one.
func commandsOf(t *testing.T, page string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", page))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	inside, continued := false, ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "```"):
			inside = line == "```sh"
		case inside && strings.HasSuffix(line, `\`):
			continued += strings.TrimSuffix(line, `\`) + " "
		case inside && line != "":
			line, _, _ = strings.Cut(continued+line, " #")
			continued = ""
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
				out = append(out, line)
			}
		}
	}
	return out
}

// split takes a line apart as a shell does, as far as the pages need: quotes, and > FILE at the end, which is left out.
func split(line string) []string {
	var out []string
	var word strings.Builder
	quote, begun := rune(0), false
	for _, c := range line {
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '\'' || c == '"'):
			quote, begun = c, true
		case quote == 0 && c == ' ':
			if begun || word.Len() > 0 {
				out = append(out, word.String())
			}
			word.Reset()
			begun = false
		default:
			word.WriteRune(c)
		}
	}
	if begun || word.Len() > 0 {
		out = append(out, word.String())
	}
	if i := slices.Index(out, ">"); i >= 0 {
		out = out[:i]
	}
	return out
}

// TestCommandsInPages runs what user pages tell readers to type, in order, before two simulated engines and a router.
// Commands that serve, or read what only the reader has, are taken apart and checked but not run.
func TestCommandsInPages(t *testing.T) {
	pages := 0
	defer func() {
		if pages < 5 {
			t.Errorf("only %d pages have commands", pages)
		}
	}()
	for _, page := range userPages {
		lines := commandsOf(t, page)
		if len(lines) == 0 { // it tells readers what to choose, not what to type
			continue
		}
		pages++
		t.Run(strings.ReplaceAll(page, "/", "_"), func(t *testing.T) {
			var engines []string
			for i := range 2 {
				_, url := simEngine(t, enginetest.Options{
					Models: []string{"simulated"}, Seed: uint64(i), Speed: 20, Dialect: fleet.KindVLLM,
				})
				engines = append(engines, url)
			}
			r := newRig(t, 0, func(c *config.Config) {
				c.Endpoints, c.Shadow.Policies = nil, []string{"round_robin"}
				for i, url := range engines {
					c.Endpoints = append(c.Endpoints, discovery.EndpointConfig{URL: url, Name: string(rune('a' + i))})
				}
			})
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "warmpath.yaml"),
				[]byte("endpoints: ['"+engines[0]+"']\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			t.Chdir(dir)
			here := strings.NewReplacer("http://127.0.0.1:9001", engines[0], "http://127.0.0.1:9002", engines[1],
				"http://127.0.0.1:8080", r.url, "http://127.0.0.1:9190", r.adminURL)
			for _, line := range lines {
				if err := tryCommand(t.Context(), split(here.Replace(line)), r); err != nil {
					t.Errorf("%q: %v", line, err)
				}
			}
		})
	}
}

// tried are the commands that are run as they stand.
var tried = []string{"bench", "check", "doctor", "drain", "endpoints", "explain", "init", "policies", "version"}

func tryCommand(ctx context.Context, words []string, r *rig) error {
	switch {
	case words[0] == "curl":
		return curl(words[1:])
	case words[0] == "go" && len(words) > 2:
		if words[1] == "run" || words[1] == "install" {
			if _, err := os.Stat(filepath.Join(sources, words[2])); err != nil {
				return err
			}
			if len(words) > 3 {
				return parses(words[3:])
			}
		}
		return nil
	case words[0] != "warmpath" || len(words) < 2:
		return fmt.Errorf("no test checks the command %q", words[0])
	}
	args := words[1:]
	if err := parses(args); err != nil {
		return err
	}
	if !slices.Contains(tried, args[0]) || slices.Contains(args, "--from") {
		return nil
	}
	if slices.Contains([]string{"drain", "endpoints", "explain"}, args[0]) {
		args = append(args, "--admin", r.adminURL)
	}
	if args[0] == "bench" {
		args = append(args, "--conversations", "2", "--turns", "1", "--think", "1ms")
	}
	var out, log bytes.Buffer
	if code := Main(ctx, args, nil, strings.NewReader(""), &out, &log); code != exitOK {
		return fmt.Errorf("exit code %d: %s%s", code, &log, &out)
	}
	return nil
}

// sources is the root of the repository, absolute, since the test changes its folder.
var sources = func() string {
	dir, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		panic(err)
	}
	return dir
}()

// parses checks a command's flags and arguments as the program would.
func parses(args []string) error {
	if i := slices.Index(args, "--"); i >= 0 && slices.Contains(args, "--from") {
		args = args[:i]
	}
	root := newRoot(env{})
	var cmd *cobra.Command
	cmd, rest, err := root.Find(args)
	if err == nil {
		err = cmd.ParseFlags(rest)
	}
	if err == nil && cmd == root {
		err = fmt.Errorf("there is no such command")
	}
	if err == nil && !slices.Contains(args, "--from") {
		err = cmd.Args(cmd, cmd.Flags().Args())
	}
	return err
}

// curl is as much of curl as the pages use.
func curl(args []string) error {
	method, body, target := http.MethodGet, "", ""
	headers := http.Header{}
	for i := 0; i < len(args); i++ {
		switch args[i] {
		case "-X":
			i++
			method = args[i]
		case "-d":
			i++
			body = args[i]
			if method == http.MethodGet {
				method = http.MethodPost
			}
			if headers.Get("Content-Type") == "" {
				headers.Set("Content-Type", "application/x-www-form-urlencoded")
			}
		case "-H":
			i++
			name, value, _ := strings.Cut(args[i], ":")
			headers.Set(name, strings.TrimSpace(value))
		case "-si":
		default:
			if strings.HasPrefix(args[i], "-") {
				return fmt.Errorf("curl %s is not known here", args[i])
			}
			target = args[i]
		}
	}
	req, err := http.NewRequest(method, target, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header = headers
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode >= 300 {
		err = fmt.Errorf("status %d: %s", answer.StatusCode, text)
	}
	return err
}
