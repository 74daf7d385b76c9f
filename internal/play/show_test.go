package play_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/play"
)

// TestShow: without streams there are no times to first token, and without names there is no balance.
func TestShow(t *testing.T) {
	for _, tt := range []struct {
		turn   play.Turn
		has    []string
		hasNot string
	}{
		{
			play.Turn{
				Endpoint: "a", TTFT: 10 * time.Millisecond, Took: 30 * time.Millisecond, Pieces: 3, PromptTokens: 100,
				CachedTokens: 50,
			},
			[]string{
				"time to first token", "\n0.8 requests/s, 81 prompt tokens/s, 0 answer tokens/s\n",
				"token hit rate 50.0 %", "over the endpoints that answered: 1", "100.0 %  1 turns",
			},
			"unknown",
		},
		{
			play.Turn{Whole: true, Took: 30 * time.Millisecond},
			[]string{"until the end of the answer", "balance unknown"},
			"time to first token",
		},
		{
			play.Turn{Again: true, Took: 30 * time.Millisecond},
			[]string{"times and hit rate unknown: no client stayed\n"},
			"token hit rate",
		},
		{
			play.Turn{Left: true}, []string{"0 of 9 turns in 1.2s, 0 failed\n" +
				"1 left by their clients, 1 of them before the first token, and asked again;"}, "unknown",
		},
		{
			play.Turn{Err: errors.New("broken")},
			[]string{"1 of 9 turns in 1.2s, 1 failed\nlast failure: broken\n"},
			"until the end",
		},
	} {
		score := play.NewScore()
		score.Add(tt.turn)
		s := score.Summary()
		var out bytes.Buffer
		s.Show(&out, 9, 1234*time.Millisecond)
		for _, want := range tt.has {
			if !strings.Contains(out.String(), want) {
				t.Errorf("lacks %q:\n%s", want, out.String())
			}
		}
		if strings.Contains(out.String(), tt.hasNot) {
			t.Errorf("has %q:\n%s", tt.hasNot, out.String())
		}
	}
}

// TestFirstModel: the first model that an address lists, or a word on what to do.
func TestFirstModel(t *testing.T) {
	for body, want := range map[string]string{`{"data":[{"id":"m"},{"id":"n"}]}`: "m", `{"data":[]}`: "", `no`: ""} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/v1/models" && r.Header.Get("Authorization") == "Bearer key" {
				_, _ = w.Write([]byte(body))
			}
		}))
		target := play.Target{URL: server.URL, APIKey: "key", Client: server.Client()}
		got, err := target.FirstModel(context.Background())
		if got != want || (err == nil) != (want != "") ||
			err != nil && !strings.Contains(err.Error(), "name one with --model") {
			t.Errorf("%s: %q, %v", body, got, err)
		}
		server.Close()
	}
}
