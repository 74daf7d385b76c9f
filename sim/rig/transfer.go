package rig

import (
	"errors"
	"fmt"
	"time"
)

// Transfer describes KV transfers between engines. A transfer starts when the prompt is computed and the decoder has
// blocks for it, as with vLLM's NixlConnector, which fetches; nothing is sent during prefill.
type Transfer struct {
	BytesPerToken float64 // of KV cache
	// bytes per second that an engine can send, and the same to receive; its transfers share it evenly
	Bandwidth float64
	Latency   time.Duration // additional time of each transfer
}

// DefaultTransfer is 131,072 bytes per token (32 layers of 8 KV heads of 128 numbers, keys and values, in 16 bits:
// Llama 3 8B) at 64 GB/s (the speed in Dynamo's mocker for transfers between prefill and decode), and 5 ms, a round
// figure for the messages.
func DefaultTransfer() Transfer {
	return Transfer{BytesPerToken: 131_072, Bandwidth: 64e9, Latency: 5 * time.Millisecond}
}

// Validate reports every fault, joined into one error.
func (t Transfer) Validate() error {
	var errs []error
	if !(t.BytesPerToken > 0 && t.BytesPerToken <= 1e12) {
		errs = append(errs, fmt.Errorf("bytes of KV cache a token must be above 0 and finite, got %v", t.BytesPerToken))
	}
	if !(t.Bandwidth > 0 && t.Bandwidth <= 1e18) {
		errs = append(errs,
			fmt.Errorf("bandwidth of transfers must be above 0 and finite, got %v bytes a second", t.Bandwidth))
	}
	if t.Latency < 0 || t.Latency > time.Hour {
		errs = append(errs, fmt.Errorf("latency of transfers must be in 0..1h, got %v", t.Latency))
	}
	return errors.Join(errs...)
}
