package trtllm

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route"
)

// TestRouterScripts plays testdata/*.txt: what TensorRT-LLM's routers decide by the rules that are published, written by hand. There is no
// way to have them rewritten.
//
//	policy NAME [use_tokens] [block_weights] [max_sessions=n]   the first line
//	servers [NAME...]                                           all that are declared from now on
//	ask ID [session=s] [text=n/chars] [ids=n] [tokens=n] [exclude=SERVER] -> SERVER
//	end ID
//
// A prompt is text number n of so many characters, or so many token ids. Prompts of different numbers have nothing in common.
func TestRouterScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s := &scripted{t: t, open: map[string]route.Decision{}}
			for i, line := range strings.Split(string(text), "\n") {
				if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
					s.place = fmt.Sprintf("%s:%d: %s", file, i+1, line)
					s.do(strings.Fields(line))
				}
			}
		})
	}
}

// scripted is a router that a script drives.
type scripted struct {
	t       *testing.T
	place   string
	config  router
	desktop *desktop
	open    map[string]route.Decision
}

func (s *scripted) do(words []string) {
	switch args := words[1:]; words[0] {
	case "policy":
		s.policy(args)
	case "servers":
		if s.desktop == nil {
			s.desktop = newDesktop(s.t, s.config)
		}
		s.desktop.declare(args...)
	case "ask":
		s.ask(args)
	case "end":
		d, ok := s.open[args[0]]
		if !ok {
			s.t.Fatalf("%s: nothing to end", s.place)
		}
		delete(s.open, args[0])
		s.desktop.end(d, fleet.OK)
	default:
		s.t.Fatalf("%s: no such line", s.place)
	}
}

func (s *scripted) policy(args []string) {
	s.config.Name = args[0]
	o := &s.config.TRTLLM
	for _, option := range args[1:] {
		name, value, _ := strings.Cut(option, "=")
		switch name {
		case "use_tokens":
			o.LoadBalancing.UseTokens = true
		case "block_weights":
			o.Conversation.BlockWeights = true
		case "max_sessions":
			o.Conversation.MaxSessions = s.number(value)
		default:
			s.t.Fatalf("%s: no option %s", s.place, name)
		}
	}
}

func (s *scripted) ask(args []string) {
	r := &fleet.Request{}
	for i, arg := range args[1:] {
		name, value, _ := strings.Cut(arg, "=")
		switch name {
		case "session":
			r.Session = value
		case "text":
			n, chars, _ := strings.Cut(value, "/")
			r.Content = said(0, 2+s.number(n), s.number(chars)).Content
		case "ids": // in the canonical form each takes eight bytes
			r.PromptTokens = s.number(value)
			r.Content = said(0, 2, 8*r.PromptTokens).Content
		case "exclude":
			r.Exclude = append(r.Exclude, value)
		case "->":
			d := s.desktop.ask(r)
			s.open[args[0]] = d
			if want := args[i+2]; d.Endpoint.Name != want {
				s.t.Errorf("%s: it went to %s (%s)", s.place, d.Endpoint.Name, d.Reason)
			}
			return
		default:
			s.t.Fatalf("%s: no option %s", s.place, name)
		}
	}
	s.t.Fatalf("%s: it does not say where the request is to go", s.place)
}

func (s *scripted) number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		s.t.Fatalf("%s: %v", s.place, err)
	}
	return n
}
