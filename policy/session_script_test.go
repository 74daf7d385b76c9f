package policy

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/session"
)

// TestLLMDSessionScript plays testdata/session_llmd.txt: what llm-d's session affinity (PR 178) decides by its
// description, written by hand. It cannot be rewritten automatically.
//
//	sessions max=N ttl=SECONDS              a new router
//	endpoints NAME...
//	turn ID [without=W] -> [new] W [id=G]   ID is - for a client that sends none
//	wait SECONDS
//
// A word in capitals stands for an endpoint: new says that affinity has no opinion, and binds the word to whichever the
// fallback picks. id=G names the id that the router returns.
func TestLLMDSessionScript(t *testing.T) {
	const file = "testdata/session_llmd.txt"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s := &sessionScript{t: t}
	for i, line := range strings.Split(string(text), "\n") {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line != "" {
			s.place = fmt.Sprintf("%s:%d: %s", file, i+1, line)
			s.do(strings.Fields(line))
		}
	}
	if s.turns == 0 {
		t.Error("nothing was asked")
	}
}

type sessionScript struct {
	t         *testing.T
	place     string
	config    session.Config
	l         *affinity
	endpoints map[string]string // by word
	ids       map[string]string // by word
	turns     int
}

func (s *sessionScript) do(words []string) {
	switch args := words[1:]; words[0] {
	case "sessions":
		s.config = session.Config{
			Max: s.number(args[0], "max="), IdleTTL: time.Duration(s.number(args[1], "ttl=")) * time.Second,
		}
		s.l, s.endpoints, s.ids = nil, map[string]string{}, map[string]string{}
	case "endpoints":
		if s.l == nil {
			s.l = newLLMDSessions(s.t, s.config)
		}
		s.l.declare(args...)
	case "wait":
		s.l.now = s.l.now.Add(time.Duration(s.number(args[0], "")) * time.Second)
	case "turn":
		s.turn(args)
	default:
		s.t.Fatalf("%s: no such line", s.place)
	}
}

func (s *sessionScript) turn(args []string) {
	s.turns++
	id, without := args[0], []string(nil)
	if id == "-" {
		id = ""
	} else if made, ok := s.ids[id]; ok {
		id = made
	}
	arrow := slices.Index(args, "->")
	for _, arg := range args[1:arrow] {
		without = append(without, s.endpoints[strings.TrimPrefix(arg, "without=")])
	}
	d := s.l.turn(id, without...)
	s.l.now = s.l.now.Add(-time.Second) // a turn takes no time here
	rest, fresh := args[arrow+1:], false
	if rest[0] == "new" {
		rest, fresh = rest[1:], true
		s.endpoints[rest[0]] = d.Endpoint.Name
	}
	if want := s.endpoints[rest[0]]; d.Endpoint.Name != want || (d.Reason == pick.ReasonSession) == fresh {
		s.t.Errorf("%s: at %s for %s, %s is %s", s.place, d.Endpoint.Name, d.Reason, rest[0], want)
	}
	if id != "" && d.Session != id {
		s.t.Errorf("%s: the id comes back as %q", s.place, d.Session)
	}
	if len(rest) > 1 {
		for _, other := range s.ids {
			if d.Session == other {
				s.t.Errorf("%s: the id %q was given before", s.place, d.Session)
			}
		}
		if s.ids[strings.TrimPrefix(rest[1], "id=")] = d.Session; d.Session == "" {
			s.t.Errorf("%s: no id was made", s.place)
		}
	}
}

func (s *sessionScript) number(text, after string) int {
	n, err := strconv.Atoi(strings.TrimPrefix(text, after))
	if err != nil {
		s.t.Fatalf("%s: %v", s.place, err)
	}
	return n
}
