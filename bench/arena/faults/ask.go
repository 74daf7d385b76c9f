package faults

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
)

// End is how an answer ended for its client.
type End string

// The ends of an answer.
const (
	Whole  End = "whole"  // complete
	Told   End = "told"   // an error status, or an error event in the stream
	Cut    End = "cut"    // the connection broke: a client library raises an error
	Silent End = "silent" // the stream ended in good order without its end mark: a client takes a part for the whole
	Late   End = "late"   // not over when the client's patience was
)

// request is one chat request.
type request struct {
	prompt string
	tokens int // of the answer
	stream bool
}

// asker sends chat requests to one router.
type asker struct {
	url, model string
	client     *http.Client
}

// send sends a request and reads the answer to its end. begun, if not nil, is called at the first event of a stream.
func (a *asker) send(ctx context.Context, r request, begun func()) (End, error) {
	body, err := json.Marshal(map[string]any{
		"model": a.model, "messages": []map[string]string{{"role": "user", "content": r.prompt}},
		"max_tokens": r.tokens, "stream": r.stream, "ignore_eos": true,
	})
	if err != nil {
		return Told, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.url+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		return Told, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer none")
	res, err := a.client.Do(req)
	if err != nil {
		return broken(ctx), err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(io.LimitReader(res.Body, 300))
		return Told, fmt.Errorf("status %d: %s", res.StatusCode, bytes.TrimSpace(said))
	}
	if r.stream {
		end, err := readStream(res.Body, begun)
		if end == Cut {
			end = broken(ctx)
		}
		return end, err
	}
	return readWhole(ctx, res.Body)
}

// broken is the end of a connection that broke: the client's own doing when its patience is over.
func broken(ctx context.Context) End {
	if ctx.Err() != nil {
		return Late
	}
	return Cut
}

func readWhole(ctx context.Context, body io.Reader) (End, error) {
	data, err := io.ReadAll(body)
	if err != nil {
		return broken(ctx), err
	}
	var said struct {
		Choices []json.RawMessage `json:"choices"`
	}
	if err := json.Unmarshal(data, &said); err != nil || len(said.Choices) == 0 {
		return Silent, errors.New("status 200 without an answer")
	}
	return Whole, nil
}

// readStream reads events until the end mark, an error event, or the end of the stream.
func readStream(body io.Reader, begun func()) (End, error) {
	lines := bufio.NewReader(body)
	first := true
	for {
		line, err := lines.ReadString('\n')
		if data, ok := strings.CutPrefix(strings.TrimSpace(line), "data:"); ok {
			data = strings.TrimSpace(data)
			if data == "[DONE]" {
				return Whole, nil
			}
			if first && begun != nil {
				begun()
			}
			first = false
			if failed := errorOf(data); failed != "" {
				return Told, errors.New(failed)
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return Silent, errors.New("the stream ended without [DONE]")
		case err != nil:
			return Cut, err
		}
	}
}

// errorOf is the error that an event carries, "" for an ordinary one.
func errorOf(data string) string {
	var event struct {
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal([]byte(data), &event) != nil || len(event.Error) == 0 || string(event.Error) == "null" {
		return ""
	}
	return string(event.Error)
}
