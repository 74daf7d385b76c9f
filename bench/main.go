package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/warmpath/warmpath/bench/arena/stand"
)

// options are the command line.
type options struct {
	binary, root, policies string
	peers                  []string
	given                  bool // measure only these
	anyLength              string
	sizes, bodies          string
	seconds                float64
	rounds                 int
	latency                bool
	sessions               bool
	jsonPath               string
	streams                int   // hold so many open instead
	replicas               int   // compare so many routers instead, which tell each other what they do or do not
	endpoints              []int // numbers of upstreams in front of which warmpath is started
	upstreams, ticking     bool  // run as the upstream process
}

// The other routers have this many upstreams, and so has warmpath unless -endpoints says otherwise.
const (
	upstreamCount = 4
	mostUpstreams = 1000
)

// upstreamsNeeded is the number of upstreams for all routers.
func (o *options) upstreamsNeeded() int { return max(upstreamCount, slices.Max(o.endpoints)) }

func main() {
	var o options
	if err := parseFlags(&o, os.Args[1:], os.Stderr); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return
		}
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(2)
	}
	if o.upstreams {
		if err := serveUpstreams(o.upstreamsNeeded(), o.ticking, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	failed, err := run(&o)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if failed {
		os.Exit(1)
	}
}

func parseFlags(o *options, args []string, out io.Writer) error {
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	fs.SetOutput(out)
	fs.StringVar(&o.binary, "warmpath", "", "path of the warmpath binary, or several to compare, "+
		"separated by commas; built from -root when empty, left out when \"none\"")
	fs.StringVar(&o.root, "root", "..", "root of warmpath's source")
	fs.StringVar(&o.policies, "policy", "", "warmpath policies to run, separated by commas; empty means its default")
	fs.Func("peer", "a router that is already running: name=http://host:port, or name=http://host:port@pid to "+
		"measure its CPU (repeat for more)", func(s string) error {
		o.peers = append(o.peers, s)
		return nil
	})
	fs.BoolVar(&o.given, "given", false, "measure only the routers named with -peer")
	fs.StringVar(&o.anyLength, "any-length", "", "names of routers given with -peer that write answers anew, "+
		"separated by commas: their answers cannot be checked to the byte")
	fs.StringVar(&o.sizes, "sizes", "1k,8k,100k,500k,1ks",
		"body sizes, separated by commas; a final s asks for a streamed answer")
	fs.StringVar(&o.bodies, "bodies", "fixed,new,grown", "kinds of bodies, separated by commas")
	fs.Float64Var(&o.seconds, "seconds", 2, "seconds of load for each router in each round")
	fs.IntVar(&o.rounds, "rounds", 5, "rounds; the median is reported")
	fs.BoolVar(&o.latency, "latency", true, "also measure added latency in an open loop")
	fs.BoolVar(&o.sessions, "session", false, "send X-Session-ID, one for each body")
	fs.StringVar(&o.jsonPath, "json", "",
		"also write the results to this file (- means standard output, instead of the table)")
	quick := fs.Bool("quick", false, "three short rounds of fixed bodies: a look, not a measurement")
	fs.IntVar(&o.streams, "streams", 0, "instead: hold this number of streams open, two chunks a second each, "+
		"and measure memory, CPU per chunk and lateness")
	o.endpoints = []int{upstreamCount}
	fs.Func("endpoints", "numbers of engines, separated by commas: warmpath is started in front of as many upstreams "+
		"of each (default 4)", func(s string) error {
		o.endpoints = o.endpoints[:0]
		for n := range strings.SplitSeq(s, ",") {
			endpoints, err := strconv.Atoi(n)
			if err != nil || endpoints < 1 || endpoints > mostUpstreams {
				return fmt.Errorf("%q is not a number from 1 to %d", n, mostUpstreams)
			}
			o.endpoints = append(o.endpoints, endpoints)
		}
		return nil
	})
	fs.IntVar(&o.replicas, "replicas", 0, "instead: measure what this number of routers tell each other at 8 kB, "+
		"what CPU time that takes, and how late news come")
	fs.BoolVar(&o.upstreams, "upstreams", false, "serve the upstreams; the program starts itself so")
	fs.BoolVar(&o.ticking, "ticking", false, "with -upstreams: streams last until the client leaves")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if *quick {
		o.seconds, o.rounds, o.bodies = 0.7, 3, bodiesFixed
	}
	switch {
	case fs.NArg() > 0:
		return fmt.Errorf("unexpected argument %q", fs.Arg(0))
	case o.seconds < 0.1 || o.seconds > 60:
		return fmt.Errorf("-seconds %v is not between 0.1 and 60", o.seconds)
	case o.rounds < 1 || o.rounds > 100:
		return fmt.Errorf("-rounds %d is not between 1 and 100", o.rounds)
	}
	if o.replicas < 0 || o.replicas == 1 || o.replicas > 16 {
		return fmt.Errorf("-replicas %d is not between 2 and 16", o.replicas)
	}
	if most := mostStreams(); o.streams < 0 || o.streams > most {
		return fmt.Errorf("-streams %d is not between 0 and %d; a router needs two descriptors for each (ulimit -n)",
			o.streams, most)
	}
	_, err := parseScenarios(o.sizes, o.bodies)
	return err
}

// run measures and reports. failed says that answers were wrong or missing.
func run(o *options) (failed bool, err error) {
	scenarios, err := parseScenarios(o.sizes, o.bodies)
	if err != nil {
		return false, err
	}
	dir, err := os.MkdirTemp("", "warmpath-bench-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	interrupted := make(chan os.Signal, 1) // from here on, so that no router outlives an interrupted run
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(interrupted)
	upstreams, stop, err := startUpstreams(o.upstreamsNeeded(), o.streams > 0)
	if err != nil {
		return false, err
	}
	defer stop()
	if o.replicas > 0 {
		rep := newReport(o)
		if rep.Replicas, err = measureReplicas(o, dir, upstreams, interrupted); err != nil {
			return false, err
		}
		return rep.failed(), rep.write(o.jsonPath)
	}
	peers, err := startPeers(o, dir, upstreams)
	defer func() {
		for _, p := range peers {
			p.stop()
		}
	}()
	if err != nil {
		return false, err
	}
	var rep *report
	if o.streams > 0 {
		rep, err = measureStreams(o, peers, interrupted)
	} else {
		rep, err = measure(o, scenarios, peers, upstreams[0], interrupted)
	}
	if err != nil {
		return false, err
	}
	return rep.failed(), rep.write(o.jsonPath)
}

// startUpstreams starts this program again as the upstreams.
func startUpstreams(n int, ticking bool) (addrs []string, stop func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	cmd := exec.Command(self, "-upstreams", "-endpoints", strconv.Itoa(n), fmt.Sprintf("-ticking=%v", ticking))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	stop = func() {
		_ = in.Close()
		_ = cmd.Wait()
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if addrs = strings.Fields(line); err != nil || len(addrs) != max(n, upstreamCount) {
		stop()
		return nil, nil, fmt.Errorf("bench: upstreams said %q: %w", line, err)
	}
	return addrs, stop, nil
}

// startPeers starts every router that there is, and says which are left out. The routers started so far are returned
// with an error too.
func startPeers(o *options, dir string, upstreams []string) (peers []*peer, err error) {
	newSite := func(name string) (site, error) {
		s := site{Dir: filepath.Join(dir, name), Upstreams: upstreams[:upstreamCount], Root: os.Geteuid() == 0}
		if err := os.MkdirAll(s.Dir, 0o755); err != nil {
			return s, err
		}
		s.Listen, err = stand.FreePort()
		return s, err
	}
	add := func(name string, begin func(site) (*peer, error)) error {
		s, err := newSite(name)
		if err != nil {
			return err
		}
		p, err := begin(s)
		if errors.Is(err, errMissing) {
			fmt.Fprintln(os.Stderr, "left out:", err)
			return nil
		}
		if err == nil {
			peers = append(peers, p)
		}
		return err
	}
	if !o.given {
		if err := add("nginx", startNginx); err != nil {
			return peers, err
		}
		if err := add("haproxy", startHAProxy); err != nil {
			return peers, err
		}
	}
	if o.binary != "none" && !o.given {
		if o.binary == "" {
			fmt.Fprintln(os.Stderr, "building warmpath ...")
			if o.binary, err = buildWarmpath(o.root, dir); err != nil {
				return peers, err
			}
		}
		binaries := strings.Split(o.binary, ",")
		for i, binary := range binaries {
			label := ""
			if len(binaries) > 1 {
				label = " " + filepath.Base(binary)
			}
			for policy := range strings.SplitSeq(o.policies, ",") {
				for _, n := range o.endpoints {
					name := "warmpath" + label
					if len(o.endpoints) > 1 {
						name += fmt.Sprintf(" (%d engines)", n)
					}
					begin := func(s site) (*peer, error) {
						s.Upstreams = upstreams[:n]
						return startWarmpath(binary, name, policy, s)
					}
					if err := add(fmt.Sprintf("warmpath-%d-%s-%d", i, policy, n), begin); err != nil {
						return peers, err
					}
				}
			}
		}
	}
	for _, arg := range o.peers {
		p, err := runningPeer(arg)
		if err != nil {
			return peers, err
		}
		p.anyLength = slices.Contains(strings.Split(o.anyLength, ","), p.name)
		if err := p.waitReady(5 * time.Second); err != nil {
			return peers, err
		}
		peers = append(peers, p)
	}
	if len(peers) == 0 {
		return nil, errors.New("bench: no router to measure")
	}
	return peers, nil
}
