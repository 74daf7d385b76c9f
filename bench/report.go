package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/warmpath/warmpath/bench/proc"
)

// report is everything that a run found; it is what -json writes.
type report struct {
	Time    string       `json:"time"`
	Machine machine      `json:"machine"`
	Seconds float64      `json:"seconds_per_round"`
	Rounds  int          `json:"rounds"`
	Cells   []cell       `json:"cells"`
	Latency []latencyRow `json:"added_latency,omitempty"`
	Memory  []memoryRow  `json:"memory,omitempty"`
	Streams []streamRow  `json:"streams,omitempty"`

	Replicas []replicaRow `json:"replicas,omitempty"`
}

type machine struct {
	CPUs  int    `json:"cpus"`
	Model string `json:"model"`
	Go    string `json:"go"`
	OS    string `json:"os"`
}

// cell is one router in one scenario: medians over the rounds.
type cell struct {
	scenario
	Peer              string    `json:"peer"`
	CPUMicros         float64   `json:"cpu_us_per_request"` // user and system; 0 when the process id is unknown
	RatioToNginx      float64   `json:"ratio_to_nginx"`     // median of the rounds' ratios; 0 without nginx
	Target            float64   `json:"target_ratio"`       // 0: none
	Verdict           string    `json:"verdict,omitempty"`  // ok or over, for warmpath
	RequestsPerSecond float64   `json:"requests_per_second"`
	P50Ms             float64   `json:"p50_ms"`
	P99Ms             float64   `json:"p99_ms"`
	Errors            int       `json:"errors"`
	FirstError        string    `json:"first_error,omitempty"`
	RoundRatios       []float64 `json:"round_ratios,omitempty"`
	rounds            []round
}

// round is one stretch of load.
type round struct {
	CPUMicros, RequestsPerSecond, P50Ms, P99Ms float64
	Errors                                     int
	FirstError                                 string
}

type latencyRow struct {
	Peer           string  `json:"peer"`
	AddedP50Micros float64 `json:"added_p50_us"`
	AddedP99Micros float64 `json:"added_p99_us"`
	Errors         int     `json:"errors"`
}

type memoryRow struct {
	Peer   string  `json:"peer"`
	RSSMB  float64 `json:"rss_mb"`
	PeakMB float64 `json:"peak_mb"`
}

func newReport(o *options) *report {
	return &report{
		Time: time.Now().UTC().Format(time.RFC3339),
		Machine: machine{
			CPUs: runtime.NumCPU(), Model: proc.CPUModel(), Go: runtime.Version(), OS: runtime.GOOS + "/" +
				runtime.GOARCH,
		}, Seconds: o.seconds, Rounds: o.rounds,
	}
}

// add turns the rounds of a scenario into medians.
func (r *report) add(s scenario, peers []*peer, cells []cell) {
	nginx := -1
	for i, p := range peers {
		if p.name == "nginx" {
			nginx = i
		}
	}
	for i, p := range peers {
		c := &cells[i]
		c.scenario, c.Peer = s, p.name
		pick := func(f func(round) float64) float64 {
			values := make([]float64, 0, len(c.rounds))
			for _, one := range c.rounds {
				values = append(values, f(one))
			}
			return median(values)
		}
		c.CPUMicros = pick(func(one round) float64 { return one.CPUMicros })
		c.RequestsPerSecond = pick(func(one round) float64 { return one.RequestsPerSecond })
		c.P50Ms = pick(func(one round) float64 { return one.P50Ms })
		c.P99Ms = pick(func(one round) float64 { return one.P99Ms })
		for k, one := range c.rounds {
			c.Errors += one.Errors
			if c.FirstError == "" {
				c.FirstError = one.FirstError
			}
			if nginx >= 0 && p.pid != 0 && cells[nginx].rounds[k].CPUMicros > 0 {
				c.RoundRatios = append(c.RoundRatios, one.CPUMicros/cells[nginx].rounds[k].CPUMicros)
			}
		}
		c.RatioToNginx = median(append([]float64(nil), c.RoundRatios...))
		if target, ok := s.target(); ok && strings.HasPrefix(p.name, "warmpath") {
			c.Target = target
			switch {
			case c.RatioToNginx == 0:
			case c.RatioToNginx <= target:
				c.Verdict = "ok"
			default:
				c.Verdict = "over"
			}
		}
		r.Cells = append(r.Cells, *c)
	}
}

// failed reports whether any answer was wrong or missing.
func (r *report) failed() bool {
	n := 0
	for _, c := range r.Cells {
		n += c.Errors
	}
	for _, l := range r.Latency {
		n += l.Errors
	}
	for _, row := range r.Streams {
		n += row.Errors
	}
	for _, row := range r.Replicas {
		n += row.Errors
	}
	return n > 0
}

// write prints the table, and the JSON where it was asked for.
func (r *report) write(jsonPath string) error {
	if jsonPath != "-" {
		if err := r.table(os.Stdout); err != nil {
			return err
		}
	}
	if jsonPath == "" {
		return nil
	}
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	data = append(data, '\n')
	if jsonPath == "-" {
		_, err = os.Stdout.Write(data)
		return err
	}
	return os.WriteFile(jsonPath, data, 0o644)
}

// table prints the results as Markdown, to be read in a terminal and pasted into a page.
func (r *report) table(out io.Writer) error {
	fmt.Fprintf(out, "%s, %d CPUs (%s), %s; %d rounds of %v s, %d connections\n\n",
		r.Time, r.Machine.CPUs, r.Machine.Model, r.Machine.Go, r.Rounds, r.Seconds, connections)
	w := tabwriter.NewWriter(out, 0, 0, 1, ' ', 0)
	if len(r.Streams) > 0 {
		writeStreams(w, r.Streams)
		return w.Flush()
	}
	if len(r.Replicas) > 0 {
		writeReplicas(w, r.Replicas)
		return w.Flush()
	}
	fmt.Fprintln(w, "| request\t| router\t| CPU µs/request\t| ratio to nginx\t| target\t| \t| requests/s\t| p50 "+
		"ms\t| p99 ms\t| errors\t|")
	fmt.Fprintln(w, "| ---\t| ---\t| ---\t| ---\t| ---\t| ---\t| ---\t| ---\t| ---\t| ---\t|")
	for _, c := range r.Cells {
		fmt.Fprintf(w, "| %s\t| %s\t| %s\t| %s\t| %s\t| %s\t| %.0f\t| %.2f\t| %.2f\t| %d\t|\n",
			c.scenario, c.Peer, orDash("%.0f", c.CPUMicros), orDash("%.2f", c.RatioToNginx), orDash("%.1f", c.Target),
			c.Verdict, c.RequestsPerSecond, c.P50Ms, c.P99Ms, c.Errors)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, c := range r.Cells {
		if c.FirstError != "" {
			fmt.Fprintf(out, "\n%s, %s: %s\n", c.scenario, c.Peer, c.FirstError)
		}
	}
	if len(r.Latency) > 0 {
		fmt.Fprintf(out, "\nAdded latency at %d requests/s, open loop, %d kB new\n\n", openLoopRate, openLoopSize>>10)
		fmt.Fprintln(w, "| router\t| p50 µs\t| p99 µs\t| errors\t|")
		fmt.Fprintln(w, "| ---\t| ---\t| ---\t| ---\t|")
		for _, l := range r.Latency {
			fmt.Fprintf(w, "| %s\t| %.0f\t| %.0f\t| %d\t|\n", l.Peer, l.AddedP50Micros, l.AddedP99Micros, l.Errors)
		}
	}
	if len(r.Memory) > 0 {
		fmt.Fprintf(w, "\nResident memory after the run\n\n")
		fmt.Fprintln(w, "| router\t| MB\t| peak MB\t|")
		fmt.Fprintln(w, "| ---\t| ---\t| ---\t|")
		for _, m := range r.Memory {
			fmt.Fprintf(w, "| %s\t| %.0f\t| %.0f\t|\n", m.Peer, m.RSSMB, m.PeakMB)
		}
	}
	return w.Flush()
}

func orDash(format string, v float64) string {
	if v == 0 {
		return "-"
	}
	return fmt.Sprintf(format, v)
}
