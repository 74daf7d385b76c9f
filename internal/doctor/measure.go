package doctor

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/warmpath/warmpath/engine"
	"github.com/warmpath/warmpath/fleet"
)

const (
	promptTokens = 1500 // about, of a prompt that is measured, where the context has room for it
	promptWords  = 1200 // of it at most
	leastWords   = 32
	firstWords   = 64 // of the first prompt, which shows how many tokens a word has
	fewWords     = 8
	answerToks   = 128
	longAnswer   = 4096
	mostError    = 4096   // bytes read of an error
	mostDecode   = 10_000 // tokens a second: faster than any engine decodes one answer
	together     = 3      // prompts sent at once to see whether they are computed one after another
	// the last of these takes at least this many times the first where they are; 3 when each takes the same
	serialRatio = 1.6
	warmRatio   = 0.6 // a repeated prompt takes at most this share where it is cached and that is not reported
)

// asker sends chats to an engine.
type asker struct {
	base, key, model string
	context          int // of the model: tokens of a prompt and its answer; 0 unknown
	client           *http.Client

	kind  fleet.Kind // how it is told the part
	part  fleet.Part // that all chats go to; zero leaves it to the engine
	first int        // what is added to the part's number, see fleet.Report.FirstRank
}

// sample is one answer.
type sample struct {
	first, end   time.Duration // since the request was sent
	prompt, out  int           // tokens
	cached       int
	cachedIsTold bool
}

// chunk is what is read of an event of a stream (OpenAI API, chat completion chunks).
type chunk struct {
	Choices []struct {
		Delta struct {
			Content   string `json:"content"`
			Thought   string `json:"reasoning_content"` // SGLang, llama.cpp
			Reasoning string `json:"reasoning"`         // vLLM 0.32
		} `json:"delta"`
	} `json:"choices"`
	Usage *usage          `json:"usage"`
	Error json.RawMessage `json:"error"`
}

type usage struct {
	Prompt  int `json:"prompt_tokens"`
	Output  int `json:"completion_tokens"`
	Details *struct {
		Cached *int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

// says reports whether there is text of the answer or of its thoughts in it.
func (e *chunk) says() bool {
	if len(e.Choices) == 0 {
		return false
	}
	d := &e.Choices[0].Delta
	return d.Content+d.Thought+d.Reasoning != ""
}

// decode is the speed of an answer's tokens after the first; 0 if they did not come one by one.
func (s *sample) decode() float64 {
	if took := (s.end - s.first).Seconds(); s.out > 1 && took*mostDecode > float64(s.out-1) {
		return float64(s.out-1) / took
	}
	return 0
}

// words is a text that no engine has seen.
func words(n int) string {
	var b strings.Builder
	for range n {
		fmt.Fprintf(&b, "%c%c%c%c ", 'a'+rand.IntN(26), "aeiou"[rand.IntN(5)], 'a'+rand.IntN(26), "aeiou"[rand.IntN(5)])
	}
	return b.String()
}

// open sends a chat and returns its stream.
func (c *asker) open(ctx context.Context, text string, most int) (*http.Response, error) {
	chat := map[string]any{
		"model": c.model, "messages": []map[string]string{{"role": "user", "content": text}}, "max_tokens": most,
		"temperature": 0, "stream": true, "stream_options": map[string]bool{"include_usage": true},
	}
	var to engine.Addressing
	if dialect, err := engine.ByKind(c.kind); err == nil {
		to = dialect.Address(fleet.Part{Kind: c.part.Kind, Index: c.part.Index + c.first})
	}
	if to.Field != "" {
		chat[to.Field] = json.RawMessage(to.JSON)
	}
	body, err := json.Marshal(chat)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimRight(c.base, "/")+"/v1/chat/completions",
		bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	// net/http sends it again on a new connection if the engine has just closed the kept one
	req.Header["Idempotency-Key"] = nil
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	if to.Header != "" {
		req.Header.Set(to.Header, to.Value)
	}
	res, err := c.client.Do(req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(io.LimitReader(res.Body, mostError))
		_ = res.Body.Close()
		if c.first > 0 && bytes.Contains(said, []byte(engine.RankRefused)) { // it counts its ranks from 0
			c.first = 0
			return c.open(ctx, text, most)
		}
		return nil, fmt.Errorf("it answered a chat with %d: %s", res.StatusCode, message(said))
	}
	return res, nil
}

// isRouter reports whether a warmpath router answers, by what its door says where an engine has its metrics.
func (c *asker) isRouter(ctx context.Context) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(c.base, "/")+"/metrics", nil)
	if err != nil {
		return false
	}
	res, err := c.client.Do(req)
	if err != nil {
		return false
	}
	defer func() { _ = res.Body.Close() }()
	said, _ := io.ReadAll(io.LimitReader(res.Body, mostError))
	return res.StatusCode == http.StatusNotFound && bytes.HasPrefix(said, []byte("metrics are on the admin listener"))
}

// message is what an error says: its message where it has OpenAI's shape or that of vLLM before 0.12, else the
// beginning of its text.
func message(body []byte) string {
	var e struct {
		Message string
		Error   struct{ Message string }
	}
	if json.Unmarshal(body, &e) == nil && e.Error.Message+e.Message != "" {
		return cmp.Or(e.Error.Message, e.Message)
	}
	return fmt.Sprintf("%.300s", bytes.TrimSpace(body))
}

// within is a number of tokens to generate, or less where half of the context is less: engines refuse what cannot fit.
func (c *asker) within(tokens int) int {
	if c.context > 0 {
		return max(min(tokens, c.context/2), 1)
	}
	return tokens
}

// length is how many words a measured prompt has. first is the answer to one of firstWords.
func (c *asker) length(first *sample) int {
	if first.prompt == 0 {
		return promptWords // it reports no usage
	}
	return max(min(promptWords, c.within(promptTokens)*firstWords/first.prompt), leastWords)
}

// ask measures one chat.
func (c *asker) ask(ctx context.Context, text string, most int) (s sample, err error) {
	ctx, cancel := context.WithTimeout(ctx, askWait)
	defer cancel()
	sent := time.Now()
	res, err := c.open(ctx, text, most)
	if err != nil {
		return s, err
	}
	defer res.Body.Close()
	err = events(res.Body, func(e *chunk) bool {
		if s.first == 0 && e.says() {
			s.first = time.Since(sent)
		}
		if u := e.Usage; u != nil {
			s.prompt, s.out = u.Prompt, u.Output
			if u.Details != nil && u.Details.Cached != nil {
				s.cached, s.cachedIsTold = *u.Details.Cached, true
			}
		}
		return true
	})
	s.end = time.Since(sent)
	if s.first == 0 { // its tokens gave no text
		s.first = s.end
		if err == nil && s.out == 0 {
			err = errors.New("its answer to a chat is empty")
		}
	}
	return s, err
}

// events hands the events of a stream to take, until it returns false or the stream ends.
func events(body io.Reader, take func(*chunk) bool) error {
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data:"))
		if data = bytes.TrimSpace(data); !ok || len(data) == 0 || string(data) == "[DONE]" {
			continue
		}
		var e chunk
		if err := json.Unmarshal(data, &e); err != nil {
			return fmt.Errorf("its stream is not that of a chat: %w", err)
		}
		if len(e.Error) > 0 && string(e.Error) != "null" {
			return fmt.Errorf("it ended a chat with an error: %.300s", e.Error)
		}
		if !take(&e) {
			return nil
		}
	}
	return lines.Err()
}

// measure fills in what only requests can show.
func (r *Report) measure(ctx context.Context, c *asker, w *watcher) error {
	first, err := c.ask(ctx, words(firstWords), 1) // it may compile for it
	if err != nil {
		return err
	}
	length := c.length(&first)
	text := words(length)
	cold, err := c.ask(ctx, text, 1)
	if err != nil {
		return err
	}
	warm, err := c.ask(ctx, text+words(fewWords), c.within(answerToks))
	if err != nil {
		return err
	}
	r.ColdMs, r.WarmMs, r.PromptTokens = ms(cold.first), ms(warm.first), cold.prompt
	if cold.prompt > cold.cached {
		r.Prefill = float64(cold.prompt-cold.cached) / cold.first.Seconds()
	}
	if r.Decode = warm.decode(); warm.out > 1 {
		r.Streams = No
		if r.Decode > 0 {
			r.Streams = Yes
		}
	}
	r.cache(&cold, &warm)
	if err := r.order(ctx, c, length); err != nil {
		return err
	}
	return r.leave(ctx, c, w)
}

// cache judges the second of two prompts that begin alike.
func (r *Report) cache(cold, warm *sample) {
	r.ReportsCached = No
	if warm.cachedIsTold {
		r.ReportsCached = Yes
	}
	switch {
	case r.cacheOff: // the times of a busy engine can look otherwise
	case warm.cached > warm.prompt/2, warm.first < time.Duration(warmRatio*float64(cold.first)):
		r.Caches = Yes
	case warm.cachedIsTold:
		r.Caches = No
	}
	if r.Caches == Yes && warm.cached == 0 { // vLLM without its flag tells 0, or nothing
		r.ReportsCached = No
	}
}

// order sends several new prompts of so many words at once.
func (r *Report) order(ctx context.Context, c *asker, length int) error {
	var (
		wg     sync.WaitGroup
		took   [together]sample
		failed [together]error
	)
	for i := range together {
		text := words(length)
		wg.Go(func() { took[i], failed[i] = c.ask(ctx, text, 1) })
	}
	wg.Wait()
	if err := errors.Join(failed[:]...); err != nil {
		return err
	}
	first, last := took[0].first, took[0].first
	for i := range took {
		first, last = min(first, took[i].first), max(last, took[i].first)
	}
	r.inOrder(first, last)
	return nil
}

// inOrder judges the first and the last of prompts sent at once. An engine that computes them one after another has
// answered the first when it has not begun the last; one that shares its time among them answers all late, one with
// time to spare all soon.
func (r *Report) inOrder(first, last time.Duration) {
	r.TogetherMs = &[2]float64{ms(first), ms(last)}
	r.InOrder = No
	if float64(last) >= serialRatio*float64(first) {
		r.InOrder = Yes
	}
}

// leave begins a long answer, leaves, and looks whether the engine goes on.
func (r *Report) leave(ctx context.Context, c *asker, w *watcher) error {
	if last, _ := w.until(0, func(*fleet.Report) bool { return true }); last.Load == nil || last.Load.Running < 0 {
		return nil // it does not say how many requests run
	}
	idle := func(p *fleet.Report) bool { return p.Load.Running == 0 }
	if _, ok := w.until(leaveWait, idle); !ok {
		return nil // it has other requests
	}
	inner, cancel := context.WithCancel(ctx)
	res, err := c.open(inner, words(fewWords)+"Write a very long story.", c.within(longAnswer))
	if err != nil {
		cancel()
		return err
	}
	n := 0
	err = events(res.Body, func(*chunk) bool { n++; return n < 3 })
	cancel()
	_ = res.Body.Close()
	if err != nil {
		return err
	}
	seen := w.loads()
	r.NoticesLeave = No
	if _, ok := w.until(leaveWait, func(p *fleet.Report) bool { return w.countFrom(seen) && idle(p) }); ok {
		r.NoticesLeave = Yes
	}
	return nil
}

// slots judges the slots of llama-server by what became of their caches meanwhile. Each states the whole where they
// share one.
func (r *Report) slots(w *watcher) {
	if r.Kind != string(fleet.KindLlamaCpp) || r.Slots < 2 {
		return
	}
	last, _ := w.until(0, func(*fleet.Report) bool { return true })
	switch last.SlotCache {
	case fleet.SlotCacheKept:
		r.SlotsKeep = Yes
	case fleet.SlotCacheCleared:
		r.SlotsKeep, r.CacheTokens = No, r.CacheTokens/int64(r.Slots)
	default:
		r.SlotsKeep = Unknown
	}
}

// clock compares the engine's clock with ours, by the Date of an answer, which is in whole seconds.
func (r *Report) clock(ctx context.Context, c *asker) {
	ctx, cancel := context.WithTimeout(ctx, dialWait)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(c.base, "/")+"/v1/models", nil)
	if err != nil {
		return
	}
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	sent := time.Now()
	res, err := c.client.Do(req)
	if err != nil {
		return
	}
	received := time.Now()
	defer res.Body.Close()
	at, err := http.ParseTime(res.Header.Get("Date"))
	if err != nil {
		return // llama-server sends no Date
	}
	r.ClockAgrees = Yes
	switch behind, ahead := sent.Sub(at).Truncate(time.Second), at.Sub(received).Truncate(time.Second); {
	case behind > mostClock:
		r.ClockAgrees, r.ClockOff = No, -behind
	case ahead > mostClock:
		r.ClockAgrees, r.ClockOff = No, ahead
	}
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
