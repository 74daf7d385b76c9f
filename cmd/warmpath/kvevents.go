package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/kvevents"
	"github.com/warmpath/warmpath/internal/metrics"
	"github.com/warmpath/warmpath/internal/tokenizer"
	"github.com/warmpath/warmpath/route"
)

// newEvents makes the subscriptions to engines' KV events, with the configured tokenizer.
func newEvents(
	cfg *config.Config, client *http.Client, observe func(route.Event), log *slog.Logger,
) (*kvevents.Follower, error) {
	with, err := tokenizerOf(cfg)
	if err != nil {
		return nil, err
	}
	return kvevents.New(cfg.KVEvents, with, client, observe, log), nil
}

// tokenizerOf reads the tokenizer of the engines' models; nil if none is configured.
func tokenizerOf(cfg *config.Config) (kvevents.Tokenizer, error) {
	at := cfg.Tokenizer()
	if at.Path == "" {
		return nil, nil
	}
	t, err := tokenizer.Load(at.Path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", at.Field, err)
	}
	if at.Harmony {
		return withoutChats{t}, nil
	}
	return t, nil
}

// withoutChats is a tokenizer for engines that do not use its chat template.
type withoutChats struct{ *tokenizer.Tokenizer }

// Request returns the tokens of completions, and of chats whose body has them.
func (w withoutChats) Request(body []byte) ([]int32, error) {
	var asked struct {
		Messages json.RawMessage `json:"messages"`
	}
	if err := json.Unmarshal(body, &asked); err != nil {
		return nil, err
	}
	if len(asked.Messages) > 0 {
		return nil, errors.New("the engine writes chats in harmony's format")
	}
	return w.Tokenizer.Request(body)
}

// eventFigures gives the metrics the counts of the event streams.
func eventFigures(f *kvevents.Follower) metrics.KVEvents {
	e := metrics.KVEvents{Unasked: f.Unasked(), Publishers: metrics.KVPublishers(f.Publishers())}
	for _, x := range f.Figures() {
		e.ByEndpoint = append(e.ByEndpoint, metrics.EndpointKV{Endpoint: x.Endpoint, Counts: x.Counts})
	}
	return e
}
