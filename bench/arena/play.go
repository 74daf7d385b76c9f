package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os/exec"
	"strconv"
	"time"

	"github.com/warmpath/warmpath/bench/arena/report"
	"github.com/warmpath/warmpath/bench/arena/rivals"
	"github.com/warmpath/warmpath/bench/arena/stand"
)

// workload is what the players do, in the words of `warmpath bench`.
type workload struct {
	Conversations int
	Rate          float64
	Turns         float64
	Think         time.Duration
	System        int
	User, Answer  float64
}

// fullWorkload keeps four engines of 4,000 tokens a second about half busy when half of the prompts' tokens are found
// in their caches, and leaves a router of Python the time it needs.
func fullWorkload() workload {
	return workload{
		Conversations: 24, Rate: 7, Turns: 2.5, Think: 300 * time.Millisecond, System: 2000, User: 500, Answer: 20,
	}
}

// scenario is one way of playing conversations.
type scenario struct {
	report.Scenario
	job   rivals.Job
	specs []stand.Spec
}

func scenarios() []scenario {
	even := stand.Spec{PrefillRate: 4000, CacheTokens: 60000, Speed: 1}
	slow := even
	slow.PrefillRate /= 2
	fast := []stand.Spec{even, even, even, even}
	uneven := []stand.Spec{even, even, slow, slow}
	return []scenario{
		{report.Scenario{
			Name: "plain", Title: "Conversations without ids, four equal engines", Job: string(rivals.Plain),
		}, rivals.Plain, fast},
		{report.Scenario{
			Name: "header", Title: "Conversations with X-Session-ID, four equal engines", Job: string(rivals.Header),
		}, rivals.Header, fast},
		{report.Scenario{
			Name: "uneven", Title: "Conversations with X-Session-ID, two of four engines half as fast",
			Job: string(rivals.Header),
		}, rivals.Header, uneven},
	}
}

// realScenarios are played on engines that were there before the run: two ways only, since they are as they are.
func realScenarios() []scenario {
	return []scenario{
		{
			report.Scenario{Name: "plain", Title: "Conversations without ids, real engines", Job: string(rivals.Plain)},
			rivals.Plain, nil,
		},
		{report.Scenario{
			Name: "header", Title: "Conversations with X-Session-ID, real engines", Job: string(rivals.Header),
		}, rivals.Header, nil},
	}
}

// playLimit bounds one play.
const playLimit = 90 * time.Second

// play plays the workload against a router, and asks the engines what they computed. Nothing is known of the work of
// real ones.
func play(
	ctx context.Context, warmpath, url, model string, w workload, job rivals.Job, seed uint64, engines []*stand.Engine,
) (report.Play, error) {
	sessions := "none"
	if job == rivals.Header {
		sessions = "send"
	}
	num := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
	ctx, cancel := context.WithTimeout(ctx, playLimit+10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, warmpath, "bench", "--url", url, "--model", model, "--json", "--sessions", sessions,
		"--seed", strconv.FormatUint(seed, 10),
		"--conversations", strconv.Itoa(w.Conversations), "--rate", num(w.Rate), "--turns", num(w.Turns),
		"--think", w.Think.String(), "--api-key", "none", "--system-tokens", strconv.Itoa(w.System),
		"--user-tokens", num(w.User), "--answer-tokens", num(w.Answer), "--timeout", playLimit.String())
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	err := cmd.Run()
	// 1 says that a turn failed, which the report shows
	if failed := (*exec.ExitError)(nil); err != nil && (!errors.As(err, &failed) || out.Len() == 0) {
		return report.Play{}, fmt.Errorf("arena: warmpath bench: %w\n%s", err, said.Bytes())
	}
	p, err := parsePlay(out.Bytes())
	if err != nil || engines == nil {
		p.WorkCV = -1
		return p, err
	}
	var counts []stand.Counts
	for _, e := range engines {
		c, err := e.Counts()
		if err != nil {
			return p, err
		}
		counts = append(counts, c)
	}
	p.HitRate, p.WorkCV = hitAndWork(counts)
	return p, nil
}

// parsePlay reads what `warmpath bench --json` prints.
func parsePlay(data []byte) (report.Play, error) {
	var said struct {
		Requests int            `json:"requests"`
		Failed   int            `json:"failed"`
		TTFT     report.Latency `json:"ttft_ms"`
		Took     report.Latency `json:"took_ms"`
		HitRate  float64        `json:"hit_rate"`
		Last     string         `json:"last_error"`
	}
	if err := json.Unmarshal(data, &said); err != nil {
		return report.Play{}, fmt.Errorf("arena: what warmpath bench printed: %w", err)
	}
	if said.Requests == 0 {
		return report.Play{}, errors.New("arena: warmpath bench played nothing")
	}
	return report.Play{
		Requests: said.Requests, Failed: said.Failed, TTFT: said.TTFT, Took: said.Took, HitRate: said.HitRate,
		Example: said.Last,
	}, nil
}

// hitAndWork are the cached share of all prompt tokens, and the coefficient of variation over the engines of the tokens
// computed.
func hitAndWork(counts []stand.Counts) (hit, cv float64) {
	var prompt, cached int64
	var sum, squares float64
	for _, c := range counts {
		prompt += c.PromptTokens
		cached += c.CachedTokens
		sum += float64(c.ComputedTokens)
	}
	if prompt > 0 {
		hit = float64(cached) / float64(prompt)
	}
	mean := sum / float64(len(counts))
	if mean == 0 {
		return hit, 0
	}
	for _, c := range counts {
		squares += (float64(c.ComputedTokens) - mean) * (float64(c.ComputedTokens) - mean)
	}
	return hit, math.Sqrt(squares/float64(len(counts))) / mean
}
