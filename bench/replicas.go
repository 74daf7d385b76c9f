package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/warmpath/warmpath/bench/arena/stand"
	"github.com/warmpath/warmpath/bench/proc"
)

// replicaSize is the size of the requests of -replicas in bytes.
const replicaSize = 8 << 10

// lookEvery is how often routers are asked how late the news of the others came, with -replicas.
const lookEvery = 20 * time.Millisecond

// replicaRow is one rate of requests to several routers, which tell each other of them or do not.
type replicaRow struct {
	Routers       int     `json:"routers"`
	Bodies        string  `json:"bodies"`
	Rate          int     `json:"requests_per_second"` // of all routers; 0: as many as they can
	Answered      float64 `json:"answered_per_second"` // by the routers that tell each other
	Apart         float64 `json:"cpu_us_per_request_apart"`
	Together      float64 `json:"cpu_us_per_request_together"`
	Ratio         float64 `json:"ratio"` // median of the rounds' ratios
	BytesARequest float64 `json:"bytes_told_per_request"`
	DelayP50Ms    float64 `json:"delay_p50_ms"` // of frames, as the routers that hear them say
	DelayP99Ms    float64 `json:"delay_p99_ms"`
	Gaps          uint64  `json:"gaps"`
	Errors        int     `json:"errors"`
}

// group is some routers before the same engines.
type group struct {
	routers []*peer
	admin   []string
}

// startGroup starts n routers, which tell each other what they do if they are together.
func startGroup(binary, dir string, upstreams []string, n int, together bool) (*group, error) {
	g := new(group)
	var listen, among []string
	for range n {
		for _, list := range []*[]string{&listen, &g.admin, &among} {
			at, err := stand.FreePort()
			if err != nil {
				return g, err
			}
			*list = append(*list, at)
		}
	}
	for i := range n {
		args := []string{"serve", "--listen", listen[i], "--admin", g.admin[i]}
		for _, u := range upstreams {
			args = append(args, "--endpoint", "http://"+u)
		}
		if together {
			args = append(args, "--peer-listen", among[i], "--peers", strings.Join(among, ","))
		}
		p, err := start(fmt.Sprintf("router %d", i+1), listen[i], exec.Command(binary, args...))
		if err != nil {
			return g, err
		}
		g.routers = append(g.routers, p)
	}
	return g, nil
}

func (g *group) stop() {
	for _, p := range g.routers {
		p.stop()
	}
}

func (g *group) cpu() (sum time.Duration, err error) {
	for _, p := range g.routers {
		u, err := proc.Tree(p.pid)
		if err != nil {
			return 0, fmt.Errorf("%s: %w\n%s", p.name, err, p.log)
		}
		sum += u.CPU
	}
	return sum, nil
}

// told is what GET /admin/replicas says.
type told struct {
	Bytes uint64 `json:"bytes_sent"`
	Gaps  uint64 `json:"gaps"`
	Peers []struct {
		Synced bool    `json:"synced"`
		Delay  float64 `json:"delay_ms"`
	} `json:"peers"`
}

func (g *group) told() (all []told, err error) {
	for _, at := range g.admin {
		res, err := http.Get("http://" + at + "/admin/replicas")
		if err != nil {
			return nil, err
		}
		var one told
		err = json.NewDecoder(res.Body).Decode(&one)
		res.Body.Close()
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

// meet waits until each router knows what each other one does.
func (g *group) meet(limit time.Duration) error {
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(lookEvery) {
		all, err := g.told()
		if err != nil {
			return err
		}
		met := 0
		for _, t := range all {
			for _, p := range t.Peers {
				if p.Synced {
					met++
				}
			}
		}
		if n := len(g.routers); met == n*(n-1) {
			return nil
		}
	}
	return errors.New("bench: the routers do not hear each other")
}

// load deals requests to all routers for a while, each by its own clients.
func (g *group) load(loads []*fleet, rate int, d time.Duration) (total loadResult) {
	results := make([]loadResult, len(g.routers))
	var wg sync.WaitGroup
	for i, p := range g.routers {
		wg.Go(func() {
			if rate > 0 {
				results[i] = loads[i].openLoop(p.target, max(1, rate/len(g.routers)), d)
			} else {
				results[i] = loads[i].closedLoop(p.target, d)
			}
		})
	}
	wg.Wait()
	for _, r := range results {
		total.add(r)
	}
	return total
}

// measureReplicas compares routers that tell each other what they do with as many that do not, in turns.
func measureReplicas(o *options, dir string, upstreams []string, interrupted <-chan os.Signal) ([]replicaRow, error) {
	if o.binary == "" {
		fmt.Fprintln(os.Stderr, "building warmpath ...")
		var err error
		if o.binary, err = buildWarmpath(o.root, dir); err != nil {
			return nil, err
		}
	}
	binary, err := filepath.Abs(o.binary)
	if err != nil {
		return nil, err
	}
	var groups [2]*group
	for i := range groups {
		groups[i], err = startGroup(binary, dir, upstreams, o.replicas, i == 1)
		defer groups[i].stop()
		if err != nil {
			return nil, err
		}
	}
	if err := groups[1].meet(10 * time.Second); err != nil {
		return nil, err
	}
	var rows []replicaRow
	for _, bodies := range []string{bodiesGrown, bodiesNew} {
		for _, rate := range []int{300, 1000, 3000, 0} {
			row := replicaRow{Routers: o.replicas, Bodies: bodies, Rate: rate}
			if err := measureRate(&row, groups, o, interrupted); err != nil {
				return nil, err
			}
			rows = append(rows, row)
		}
	}
	return rows, nil
}

// measureRate fills in a row.
func measureRate(row *replicaRow, groups [2]*group, o *options, interrupted <-chan os.Signal) error {
	stretch := time.Duration(o.seconds * float64(time.Second))
	var loads []*fleet
	for i := range o.replicas {
		loads = append(loads, newFleet(scenario{Size: replicaSize, Bodies: row.Bodies}, uint64(i), false))
	}
	var cost [2][]float64
	var ratios, bytes, answered []float64
	var delays []time.Duration
	for range o.rounds {
		for i, g := range groups {
			if len(interrupted) > 0 {
				return errInterrupted
			}
			g.load(loads, row.Rate, stretch/5)
			one, err := stretchOfGroup(g, loads, row.Rate, stretch, i == 1)
			if err != nil {
				return err
			}
			cost[i] = append(cost[i], one.cpu)
			if row.Errors += one.errors; i == 1 {
				bytes, answered, row.Gaps = append(bytes, one.bytes), append(answered, one.answered), row.Gaps+one.gaps
				delays = append(delays, one.delays...)
			}
		}
		n := len(cost[0]) - 1
		ratios = append(ratios, cost[1][n]/cost[0][n])
	}
	slices.Sort(delays)
	row.Answered = median(answered)
	row.Apart, row.Together, row.Ratio, row.BytesARequest = median(cost[0]), median(cost[1]), median(ratios),
		median(bytes)
	row.DelayP50Ms, row.DelayP99Ms = ms(quantile(delays, 0.5)), ms(quantile(delays, 0.99))
	return nil
}

// groupRound is what one stretch of load cost.
type groupRound struct {
	cpu      float64 // µs a request
	answered float64 // a second
	bytes    float64 // told of a request
	gaps     uint64
	delays   []time.Duration
	errors   int
}

func stretchOfGroup(g *group, loads []*fleet, rate int, d time.Duration, together bool) (one groupRound, err error) {
	var first, last []told
	if together {
		if first, err = g.told(); err != nil {
			return one, err
		}
	}
	before, err := g.cpu()
	if err != nil {
		return one, err
	}
	began := time.Now()
	res := g.load(loads, rate, d)
	one.answered = float64(res.Requests) / time.Since(began).Seconds()
	after, err := g.cpu()
	if err != nil {
		return one, err
	}
	if one.errors = res.Errors; res.Requests == 0 {
		return one, fmt.Errorf("bench: no request was answered: %w", res.FirstErr)
	}
	one.cpu = micros(after-before) / float64(res.Requests)
	if !together {
		return one, nil
	}
	if last, err = g.told(); err != nil {
		return one, err
	}
	for i := range last {
		one.bytes += float64(last[i].Bytes-first[i].Bytes) / float64(res.Requests)
		one.gaps += last[i].Gaps - first[i].Gaps
	}
	one.delays, err = g.delays(loads, rate, d/2)
	return one, err
}

// delays looks at how late news come, under the same load, which is not counted: looking costs too.
func (g *group) delays(loads []*fleet, rate int, d time.Duration) (all []time.Duration, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		g.load(loads, rate, d)
	}()
	for {
		select {
		case <-done:
			return all, nil
		case <-time.After(lookEvery):
		}
		now, err := g.told()
		if err != nil {
			<-done
			return nil, err
		}
		for _, t := range now {
			for _, p := range t.Peers {
				all = append(all, time.Duration(p.Delay*float64(time.Millisecond)))
			}
		}
	}
}

func writeReplicas(w *tabwriter.Writer, rows []replicaRow) {
	fmt.Fprintf(w, "%d routers, requests of %d kB, in turns with as many that do not tell each other\n\n",
		rows[0].Routers, replicaSize>>10)
	fmt.Fprintln(w, "| bodies\t| requests/s\t| CPU µs/request apart\t| together\t| ratio\t| bytes told/request\t| "+
		"delay p50 ms\t| p99 ms\t| gaps\t| errors\t|")
	fmt.Fprintln(w, "| ---\t| ---\t| ---\t| ---\t| ---\t| ---\t| ---\t| ---\t| ---\t| ---\t|")
	for _, r := range rows {
		rate := fmt.Sprintf("all they can (%.0f)", r.Answered)
		if r.Rate > 0 {
			rate = fmt.Sprint(r.Rate)
		}
		fmt.Fprintf(w, "| %s\t| %s\t| %.0f\t| %.0f\t| %.2f\t| %.0f\t| %.1f\t| %.1f\t| %d\t| %d\t|\n",
			r.Bodies, rate, r.Apart, r.Together, r.Ratio, r.BytesARequest, r.DelayP50Ms, r.DelayP99Ms, r.Gaps, r.Errors)
	}
}
