package stand

import (
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"
)

func TestParseCounts(t *testing.T) {
	c, err := parseCounts(strings.NewReader(`{"open":2,"faulted":3,"ranks":[
		{"submitted":5,"prompt_tokens":100,"cached_tokens":40,"prefill_tokens":60,"output_tokens":7},
		{"submitted":1,"prompt_tokens":10,"cached_tokens":0,"prefill_tokens":10,"output_tokens":1}]}`))
	if want := (Counts{Open: 2, Started: 9, PromptTokens: 110, CachedTokens: 40, ComputedTokens: 78}); err != nil ||
		c != want {
		t.Errorf("%+v (%v), want %+v", c, err, want)
	}
	if _, err := parseCounts(strings.NewReader("<html>")); err == nil {
		t.Error("a page was taken for counters")
	}
}

// TestKillEndsTheGroup starts a shell with a child that holds the output open: without the group's end Kill would not
// return before the child's.
func TestKillEndsTheGroup(t *testing.T) {
	p, err := Start("shell", exec.Command("sh", "-c", "echo begun; sleep 600 & wait"))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.WaitUntil(time.Minute, func() error {
		if !strings.Contains(p.Log(), "begun") {
			return errors.New("nothing said")
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	p.Kill()
	if !p.Ended() {
		t.Error("it still runs")
	}
}

func TestWaitUntilGivesUpWhenTheProgramEnds(t *testing.T) {
	p, err := Start("shell", exec.Command("sh", "-c", "echo no such option >&2; exit 3"))
	if err != nil {
		t.Fatal(err)
	}
	err = p.WaitUntil(time.Hour, func() error { return errors.New("not ready") })
	if err == nil || !strings.Contains(err.Error(), "no such option") {
		t.Errorf("%v does not show what the program said", err)
	}
}

func TestTailIsBounded(t *testing.T) {
	var log tail
	for range 100 {
		_, _ = log.Write([]byte(strings.Repeat("x", 1000)))
	}
	_, _ = log.Write([]byte("the end"))
	if s := log.String(); len(s) != tailBytes || !strings.HasSuffix(s, "the end") {
		t.Errorf("%d bytes, ends with %q", len(s), s[max(0, len(s)-10):])
	}
}
