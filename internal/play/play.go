// Package play plays multi-turn conversations against any OpenAI address, as clients do: each turn carries the whole
// conversation so far, has its answer streamed (unless told otherwise), and the next turn follows some time after the
// answer has ended. It measures what a user would feel, so that routers can be compared from outside, and shows it. It
// owns requests, answers and the score of a run. It promises that a part of an answer is never taken for the whole. It
// never knows which router, or which engine, is behind an address.
package play

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/warmpath/warmpath/sim/trace"
)

// Sessions says how a client names its conversation.
type Sessions string

// The ways a client may name its conversation.
const (
	Adopt Sessions = "adopt" // send back the X-Session-Id of the first answer, if there is one
	Send  Sessions = "send"  // send an id of its own in X-Session-ID from the first turn on
	None  Sessions = "none"  // send nothing
)

// Target is what is played against.
type Target struct {
	URL      string // base address without /v1
	Model    string
	APIKey   string // bearer token, "" for none
	Sessions Sessions
	Client   *http.Client

	Whole     float64 // share of turns whose answers are not streamed, 0 to 1
	Leaving   float64 // share of turns whose clients leave and ask again at once, half before the first token, 0 to 1
	IgnoreEOS bool    // ask for answers of exactly the length the workload says (vLLM, SGLang, llama.cpp: ignore_eos)

	EndpointHeader string // answer header that names the endpoint, "" for X-Warmpath-Endpoint

	TokenBytes float64 // bytes of the prompts' text that the address counts as a token (Learn); 0 is text.TokenBytes
}

// Turn is one turn as its client saw it.
type Turn struct {
	First    bool // the first turn of its conversation
	Left     bool // its client left before it had the answer: it is followed by another Turn, which is Again
	Again    bool
	Cut      bool // the end of the run cut it off, which is no failure: only a Loop counts its wait
	Endpoint string
	Sent     time.Time
	Whole    bool          // its answer was not streamed
	TTFT     time.Duration // until the first piece of text, thoughts included; 0 of whole answers
	Took     time.Duration
	Pieces   int           // of text
	Pause    time.Duration // longest between two pieces
	latest   time.Time     // piece

	PromptTokens, CachedTokens, OutputTokens int
	Err                                      error // nil when the answer was complete
}

// Play starts the conversations at their times and runs them to their ends, or until ctx ends: then no further turn is
// sent and those under way are finished within grace. observe is called from many goroutines.
func (t *Target) Play(
	ctx context.Context, conversations []trace.Conversation, grace time.Duration, observe func(Turn),
) {
	hard, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(grace, cancel) })
	defer stop()
	p := newPatience()
	var wg sync.WaitGroup
	began := time.Now()
	for i := range conversations {
		c := &conversations[i]
		if !sleep(ctx, time.Until(began.Add(c.Start))) {
			break
		}
		wg.Go(func() { t.converse(ctx, hard, c, p, func() func(Turn) { return uncut(observe) }) })
	}
	wg.Wait()
}

// uncut observes turns but those that the end of the run cut off.
func uncut(observe func(Turn)) func(Turn) {
	return func(t Turn) {
		if !t.Cut {
			observe(t)
		}
	}
}

// FirstModel asks the address what it serves.
func (t *Target) FirstModel(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, t.URL+"/v1/models", nil)
	if err != nil {
		return "", err
	}
	if t.APIKey != "" {
		req.Header.Set("Authorization", "Bearer "+t.APIKey)
	}
	res, err := t.Client.Do(req)
	if err != nil {
		return "", fmt.Errorf("cannot ask %s for its models: %w", t.URL, err)
	}
	defer res.Body.Close()
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, 4<<20)).Decode(&list); err != nil || len(list.Data) == 0 {
		return "", fmt.Errorf("%s/v1/models lists no model (status %d): name one with --model, "+
			"or the address of an engine or of a router for its clients with --url", t.URL, res.StatusCode)
	}
	return list.Data[0].ID, nil
}

func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// converse plays one conversation, and reports whether it came to its end. A failed turn ends it: a client does not go
// on from half an answer. begin is called when a turn is sent; what it returns is called when that turn has ended.
func (t *Target) converse(
	ctx, hard context.Context, c *trace.Conversation, p *patience, begin func() func(Turn),
) (whole bool) {
	session := ""
	if t.Sessions == Send {
		session = uuid.NewString()
	}
	messages := []message{{"system", c.SystemText(t.tokenBytes())}}
	for i, turn := range c.Turns {
		if !sleep(ctx, turn.Think) {
			return false
		}
		messages = append(messages, message{"user", c.UserText(i, t.tokenBytes())})
		stream := !c.Whole(i, t.Whole)
		leaves, at := c.Leaves(i, t.Leaving)
		for again := false; ; again = true {
			attempt, done := hard, context.CancelFunc(func() {})
			if leaves && !again {
				attempt, done = p.lasts(hard, stream, at)
			}
			ended := begin()
			out, answer, echoed := t.turn(attempt, messages, turn.Answer, session, stream, leaves && !again)
			done()
			out.First, out.Again, out.Cut = i == 0, again, hard.Err() != nil
			if !out.Cut {
				p.learn(&out)
			}
			if ended(out); out.Cut || out.Err != nil {
				return false
			}
			if t.Sessions == Adopt && session == "" {
				session = echoed
			}
			if !out.Left {
				messages = append(messages, message{"assistant", answer})
				break
			}
		}
	}
	return true
}

type chatRequest struct {
	Model         string         `json:"model,omitempty"`
	Messages      []message      `json:"messages"`
	MaxTokens     int            `json:"max_tokens"`
	Stream        bool           `json:"stream"`
	StreamOptions map[string]any `json:"stream_options,omitempty"`
	IgnoreEOS     bool           `json:"ignore_eos,omitempty"`
}

// turn sends one turn and reads its answer to the end, or to the first token where its client leaves.
func (t *Target) turn(
	ctx context.Context, messages []message, answerTokens int, session string, stream, leaves bool,
) (out Turn, answer, echoed string) {
	r := chatRequest{
		Model: t.Model, Messages: messages, MaxTokens: max(answerTokens, 1), Stream: stream, IgnoreEOS: t.IgnoreEOS,
	}
	if stream {
		r.StreamOptions = map[string]any{"include_usage": true}
	}
	body, err := json.Marshal(r)
	if err != nil {
		return Turn{Err: err}, "", ""
	}
	return t.send(ctx, "/v1/chat/completions", body, names{session: session}, stream, leaves)
}

// Send sends a body to a path and reads the chat's or completion's answer to its end, or to the first token where its
// client leaves. Beside what its client saw it returns the text and the id of the conversation that the answer names.
func (t *Target) Send(
	ctx context.Context, path string, body []byte, session string, stream, leaves bool,
) (out Turn, answer, echoed string) {
	return t.send(ctx, path, body, names{session: session}, stream, leaves)
}

// names are how a client names a conversation, and the one that started it; "" for not at all.
type names struct{ session, parent string }

func (t *Target) send(
	ctx context.Context, path string, body []byte, called names, stream, leaves bool,
) (out Turn, answer, echoed string) {
	defer func() {
		if leaves && out.Err != nil && (errors.Is(out.Err, errLeft) || errors.Is(context.Cause(ctx), errLeft)) {
			out.Left, out.Err = true, nil
		}
	}()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.URL+path, bytes.NewReader(body))
	if err != nil {
		return Turn{Err: err}, "", ""
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Warmpath-Explain", "1")
	if t.APIKey != "" {
		req.Header.Set("Authorization", "Bearer "+t.APIKey)
	}
	if called.session != "" {
		req.Header.Set("X-Session-ID", called.session)
	}
	if called.parent != "" {
		req.Header.Set("X-Parent-Session-ID", called.parent)
	}
	out.Sent = time.Now()
	res, err := t.Client.Do(req)
	if err != nil {
		out.Err = err
		return out, "", ""
	}
	defer res.Body.Close()
	name := t.EndpointHeader
	if name == "" {
		name = "X-Warmpath-Endpoint"
	}
	out.Endpoint = res.Header.Get(name)
	if res.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(io.LimitReader(res.Body, 500))
		out.Err = fmt.Errorf("status %d: %s", res.StatusCode, bytes.TrimSpace(said))
		return out, "", ""
	}
	if out.Whole = !stream; stream {
		answer, out.Err = out.read(res.Body, leaves)
	} else {
		answer, out.Err = out.readWhole(res.Body)
	}
	out.Took = time.Since(out.Sent)
	return out, answer, res.Header.Get("X-Session-Id")
}

type chunk struct {
	Choices []struct {
		Delta struct {
			Content   string `json:"content"`
			Thought   string `json:"reasoning_content"` // SGLang, llama.cpp
			Reasoning string `json:"reasoning"`         // vLLM 0.32
		} `json:"delta"`
		Message struct {
			Content string `json:"content"`
		} `json:"message"` // of a chat's whole answer
		Text string `json:"text"` // of a completion
	} `json:"choices"`
	Usage *struct {
		PromptTokens     int `json:"prompt_tokens"`
		CompletionTokens int `json:"completion_tokens"`
		Details          *struct {
			CachedTokens int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	} `json:"usage"`
	Error json.RawMessage `json:"error"`
}

// mostAnswer bounds an answer, in bytes: many players hold one each.
const mostAnswer = 16 << 20

var (
	errUnfinished = errors.New("the stream ended without [DONE]")
	errLong       = errors.New("the answer is longer than 16 MiB")
)

// read reads an answer's events, or those until the first token.
func (t *Turn) read(body io.Reader, leaves bool) (string, error) {
	var answer strings.Builder
	left := &io.LimitedReader{R: body, N: mostAnswer}
	lines := bufio.NewReaderSize(left, 16<<10)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil && left.N == 0 {
			return "", errLong
		}
		data, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("data:"))
		data = bytes.TrimSpace(data)
		switch {
		case ok && string(data) == "[DONE]":
			_, _ = io.Copy(io.Discard, lines) // so that the connection can be used again
			return answer.String(), nil
		case ok:
			if err := t.take(data, &answer); err != nil {
				return "", err
			}
			if leaves && t.Pieces > 0 {
				return "", errLeft
			}
		}
		if errors.Is(err, io.EOF) {
			return "", errUnfinished
		}
		if err != nil {
			return "", err
		}
	}
}

// readWhole reads an answer that is not streamed.
func (t *Turn) readWhole(body io.Reader) (string, error) {
	data, err := io.ReadAll(io.LimitReader(body, mostAnswer+1))
	if err != nil {
		return "", err
	}
	if len(data) > mostAnswer {
		return "", errLong
	}
	var c chunk
	if err := json.Unmarshal(data, &c); err != nil {
		return "", fmt.Errorf("an answer that is not JSON: %w", err)
	}
	if len(c.Choices) == 0 {
		return "", errors.New("an answer without choices")
	}
	t.count(&c)
	return c.Choices[0].Message.Content + c.Choices[0].Text, nil
}

func (t *Turn) take(data []byte, answer *strings.Builder) error {
	var c chunk
	if err := json.Unmarshal(data, &c); err != nil {
		return fmt.Errorf("an event that is not JSON: %w", err)
	}
	if len(c.Error) > 0 && string(c.Error) != "null" {
		return fmt.Errorf("an error in the stream: %s", c.Error)
	}
	for _, choice := range c.Choices {
		piece := choice.Delta.Content + choice.Text
		if piece+choice.Delta.Thought+choice.Delta.Reasoning == "" {
			continue
		}
		now := time.Now()
		if t.Pieces == 0 {
			t.TTFT = now.Sub(t.Sent)
		} else {
			t.Pause = max(t.Pause, now.Sub(t.latest))
		}
		t.latest = now
		t.Pieces++
		answer.WriteString(piece)
	}
	t.count(&c)
	return nil
}

// count takes in usage.
func (t *Turn) count(c *chunk) {
	if u := c.Usage; u != nil {
		t.PromptTokens, t.OutputTokens = u.PromptTokens, u.CompletionTokens
		if u.Details != nil {
			t.CachedTokens = u.Details.CachedTokens
		}
	}
}
