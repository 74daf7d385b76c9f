package stand

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strconv"
	"time"
)

// Model is the name that the simulated engines serve.
const Model = "m"

// Engine is one simulated engine (`warmpath engine`), a process of its own.
type Engine struct {
	*Process
	Addr string // host:port
}

// Spec describes an engine.
type Spec struct {
	PrefillRate int // prompt tokens computed a second
	CacheTokens int
	Speed       float64 // simulated seconds a second
}

var client = &http.Client{Timeout: 5 * time.Second}

// StartEngines starts one engine for each spec and waits until all are healthy.
func StartEngines(warmpath string, specs []Spec) ([]*Engine, error) {
	var engines []*Engine
	for i, s := range specs {
		addr, err := FreePort()
		if err == nil {
			var p *Process
			p, err = Start("engine "+strconv.Itoa(i), exec.Command(warmpath, "engine", "--listen", addr,
				"--model", Model, "--seed", strconv.Itoa(i+1), "--prefill-rate", strconv.Itoa(s.PrefillRate),
				"--cache-tokens", strconv.Itoa(s.CacheTokens), "--speed", strconv.FormatFloat(s.Speed, 'g', -1, 64)))
			if err == nil {
				engines = append(engines, &Engine{Process: p, Addr: addr})
			}
		}
		if err != nil {
			StopEngines(engines)
			return nil, err
		}
	}
	for _, e := range engines {
		if err := e.WaitUntil(20*time.Second, e.healthy); err != nil {
			StopEngines(engines)
			return nil, err
		}
	}
	return engines, nil
}

// StopEngines ends engines at once: nothing of theirs is worth waiting for.
func StopEngines(engines []*Engine) {
	for _, e := range engines {
		e.Kill()
	}
}

// Addrs are the addresses of engines, host:port.
func Addrs(engines []*Engine) []string {
	var out []string
	for _, e := range engines {
		out = append(out, e.Addr)
	}
	return out
}

func (e *Engine) healthy() error {
	res, err := client.Get("http://" + e.Addr + "/health")
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("health is %d", res.StatusCode)
	}
	return nil
}

// Counts are what an engine has done since its start.
type Counts struct {
	Open           int   // running generations
	Started        int   // generations that came
	PromptTokens   int64 // of prompts
	CachedTokens   int64 // of these, found in its cache
	ComputedTokens int64 // prompt tokens computed and tokens answered
}

// Counts asks an engine for its counters.
func (e *Engine) Counts() (Counts, error) {
	res, err := client.Get("http://" + e.Addr + "/_sim/stats")
	if err != nil {
		return Counts{}, err
	}
	defer res.Body.Close()
	return parseCounts(res.Body)
}

func parseCounts(r io.Reader) (Counts, error) {
	var said struct {
		Open    int `json:"open"`
		Faulted int `json:"faulted"`
		Ranks   []struct {
			Submitted     int   `json:"submitted"`
			PromptTokens  int64 `json:"prompt_tokens"`
			CachedTokens  int64 `json:"cached_tokens"`
			PrefillTokens int64 `json:"prefill_tokens"`
			OutputTokens  int64 `json:"output_tokens"`
		} `json:"ranks"`
	}
	if err := json.NewDecoder(r).Decode(&said); err != nil {
		return Counts{}, fmt.Errorf("arena: an engine's counters: %w", err)
	}
	c := Counts{Open: said.Open, Started: said.Faulted}
	for _, rank := range said.Ranks {
		c.Started += rank.Submitted
		c.PromptTokens += rank.PromptTokens
		c.CachedTokens += rank.CachedTokens
		c.ComputedTokens += rank.PrefillTokens + rank.OutputTokens
	}
	return c, nil
}

// Fault switches a fault of the engine on, as JSON that `warmpath engine --help` describes; kind "none" ends it.
func (e *Engine) Fault(fault string) error {
	res, err := client.Post("http://"+e.Addr+"/_sim/fault", "application/json", bytes.NewReader([]byte(fault)))
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(io.LimitReader(res.Body, 500))
		return fmt.Errorf("arena: fault %s: status %d: %s", fault, res.StatusCode, said)
	}
	return nil
}
