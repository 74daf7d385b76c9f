// Command demo checks the JSON object that "warmpath demo --json" prints: both sides are there, every number makes
// sense, and no request failed.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// side is what one fleet's clients saw. Fields are pointers: a missing one must not pass for 0.
type side struct {
	Requests *int                `json:"requests"`
	Failed   *int                `json:"failed"`
	TTFT     map[string]*float64 `json:"ttft_ms"`
	HitRate  *float64            `json:"hit_rate"`
	WorkCV   *float64            `json:"work_cv"`
}

func main() {
	if err := check(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func check(args []string) error {
	if len(args) != 1 {
		return errors.New("usage: demo FILE")
	}
	text, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	var sides map[string]*side
	d := json.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(&sides); err != nil {
		return fmt.Errorf("not a JSON object: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the JSON object")
	}
	var faults []error
	for _, name := range []string{"warmpath", "round_robin"} {
		if sides[name] == nil {
			faults = append(faults, fmt.Errorf("%s is missing", name))
			continue
		}
		if err := sides[name].check(); err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", name, err))
		}
	}
	return errors.Join(faults...)
}

func (s *side) check() error {
	switch {
	case s.Requests == nil || s.Failed == nil || s.HitRate == nil || s.WorkCV == nil:
		return errors.New("requests, failed, hit_rate or work_cv is missing")
	case *s.Requests == 0:
		return errors.New("no request was made")
	case *s.Failed != 0:
		return fmt.Errorf("%d of %d requests failed", *s.Failed, *s.Requests)
	case *s.HitRate < 0 || *s.HitRate > 1:
		return fmt.Errorf("hit_rate is %v, want 0 to 1", *s.HitRate)
	case *s.WorkCV < 0 || *s.WorkCV > 1:
		return fmt.Errorf("work_cv is %v, want 0 to 1", *s.WorkCV)
	}
	for _, name := range []string{"mean", "p50", "p90", "p99"} {
		if s.TTFT[name] == nil || *s.TTFT[name] <= 0 {
			return fmt.Errorf("ttft_ms.%s is missing or not above 0", name)
		}
	}
	return nil
}
