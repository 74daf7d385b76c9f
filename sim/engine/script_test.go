package engine

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

var rewrite = flag.Bool("rewrite", false,
	"write the output of the golden scripts into them; read the diff before you commit")

// Each testdata/*.txt is a script: blocks of a command and, after "----", its output, separated by empty lines.
//
//	engine cache=160 slots=2 ...     begins a new engine (named values over the defaults)
//	submit id=1 seed=7 prompt=40 output=3 [lane=1]
//	cancel id=1
//	run [steps=1]                    until idle, or so many steps
//	stats
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s := &script{now: epoch}
			var out strings.Builder
			for _, part := range strings.Split(strings.TrimSpace(string(raw)), "\n\n") {
				command, _, _ := strings.Cut(part, "\n----")
				fmt.Fprintf(&out, "%s\n----\n%s\n", command, s.run(t, command))
			}
			got := strings.TrimSpace(out.String()) + "\n"
			if *rewrite {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != string(raw) {
				t.Errorf("the script printed\n%s\nwant\n%s", got, raw)
			}
		})
	}
}

type script struct {
	e   *Engine
	now time.Time
}

func (s *script) run(t *testing.T, command string) string {
	var last string
	for _, line := range strings.Split(command, "\n") {
		if !strings.HasPrefix(line, "#") {
			last = line
		}
	}
	words := strings.Fields(last)
	arg := func(name string, otherwise int) int {
		for _, w := range words[1:] {
			if v, ok := strings.CutPrefix(w, name+"="); ok {
				n, err := strconv.Atoi(v)
				if err != nil {
					t.Fatalf("%s: %v", last, err)
				}
				return n
			}
		}
		return otherwise
	}
	switch words[0] {
	case "engine":
		s.now = epoch
		s.e = newTestEngine(t, func(c *Config) {
			c.CacheTokens, c.Slots = arg("cache", c.CacheTokens), arg("slots", c.Slots)
			c.ChunkTokens, c.PrefillTokensPerSecond = arg("chunk", c.ChunkTokens),
				float64(arg("rate", int(c.PrefillTokensPerSecond)))
		})
		return ""
	case "submit":
		job := jobOf(s.e, uint64(arg("id", 0)), uint64(arg("seed", 0)), arg("prompt", 0), arg("output", 0))
		job.Lane = uint32(arg("lane", 0))
		if err := s.e.Submit(s.now, job); err != nil {
			return err.Error() + "\n"
		}
		return ""
	case "cancel":
		return fmt.Sprintln(s.e.Cancel(uint64(arg("id", 0))))
	case "run":
		return s.steps(arg("steps", 1_000_000))
	case "stats":
		st := s.e.Stats()
		return fmt.Sprintf("running %d, waiting %d, held %d, kept %d of %d blocks\n"+
			"hits %d of %d, prefilled %d, output %d\nevictions %d, preemptions %d, steps %d, busy %v\n",
			st.Running, st.Waiting, st.HeldBlocks, st.KeptBlocks, st.TotalBlocks, st.HitTokens, st.QueryTokens,
			st.PrefillTokens, st.OutputTokens, st.Evictions, st.Preemptions, st.Steps, st.Busy.Round(time.Microsecond))
	}
	t.Fatalf("unknown command %q", last)
	return ""
}

func (s *script) steps(n int) string {
	var b strings.Builder
	for range n {
		at, ok := s.e.Next()
		if !ok {
			break
		}
		s.now = at
		for _, em := range s.e.Advance(at) {
			fmt.Fprintf(&b, "%9.3f ms  job %d  ", float64(at.Sub(epoch))/1e6, em.ID)
			switch em.Kind {
			case Prefilled:
				fmt.Fprintf(&b, "prefilled, %d cached\n", em.CachedTokens)
			case Token:
				fmt.Fprintf(&b, "token %d\n", em.Index)
			case Done:
				fmt.Fprintf(&b, "done, %d tokens\n", em.Index)
			}
		}
	}
	return b.String()
}
