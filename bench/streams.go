package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/warmpath/warmpath/bench/proc"
)

// chunkGap is the time between two chunks of an open stream: an engine that is busy writes a token so often.
const chunkGap = 500 * time.Millisecond

// stampMark is what stands before the time of writing (Unix, ns, 19 digits) in a chunk of an open stream.
const stampMark = `"content":"`

const stampDigits = 19

// streamRow is one router that holds many streams open.
type streamRow struct {
	Peer         string  `json:"peer"`
	Streams      int     `json:"streams"`
	KBPerStream  float64 `json:"kb_per_stream"`    // growth of resident memory; 0 when the process id is unknown
	CPUMicros    float64 `json:"cpu_us_per_chunk"` // user and system
	RatioToNginx float64 `json:"ratio_to_nginx"`   // of the CPU, median of the rounds' ratios; 0 without nginx
	LateP50Ms    float64 `json:"late_p50_ms"`      // from the upstream's write to the client's read
	LateP99Ms    float64 `json:"late_p99_ms"`
	Errors       int     `json:"errors"`
	FirstError   string  `json:"first_error,omitempty"`
	rounds       []streamRound
}

type streamRound struct{ kb, cpu, p50, p99 float64 }

// tick writes a stream that lasts until the client leaves: a chunk each chunkGap that says when it was written.
func tick(c net.Conn) error {
	const event = `data: {"id":"chatcmpl-0123456789abcdef","object":"chat.completion.chunk","created":1790000000,"model":"m","choices":[{"index":0,"delta":{` + stampMark + `%d "},"logprobs":null,"finish_reason":null}]}` + "\n\n"
	if _, err := c.Write([]byte("HTTP/1.1 200 OK\r\nServer: canned\r\n" +
		"Content-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n")); err != nil {
		return err
	}
	ticker := time.NewTicker(chunkGap)
	defer ticker.Stop()
	buf := make([]byte, 0, 512)
	for {
		data := fmt.Appendf(buf[:8], event, time.Now().UnixNano())[8:]
		head := fmt.Sprintf("%x\r\n", len(data))
		start := 8 - len(head) // the head goes before the data in one write
		all := append(buf[:8+len(data)], "\r\n"...)
		copy(all[start:], head)
		if _, err := c.Write(all[start:]); err != nil {
			return err
		}
		<-ticker.C
	}
}

// openStreams is a set of streams that are read until they are closed.
type openStreams struct {
	mu     sync.Mutex
	conns  []net.Conn
	late   []time.Duration // since the last call of begin
	failed int
	first  error
	closed bool
	wg     sync.WaitGroup
}

// open opens n streams, a few at a time, and returns when each has its first chunk or failed.
func (s *openStreams) open(addr string, n int) {
	sc := scenario{Size: 1 << 10, Stream: true, Bodies: bodiesNew}
	head, bodies := requestHead(addr, sc, ""), buildBodies(sc, 7)
	unique := uint64(time.Now().UnixNano())
	begun := make(chan struct{}, n)
	slots := make(chan struct{}, 32)
	for i := range n {
		slots <- struct{}{}
		b := body{data: bytes.Clone(bodies[i%len(bodies)].data), mark: bodies[i%len(bodies)].mark}
		b.renew(unique + uint64(i))
		s.wg.Go(func() {
			once := sync.OnceFunc(func() { <-slots; begun <- struct{}{} })
			defer once()
			if err := s.read(addr, head, b.data, once); err != nil {
				s.fail(err)
			}
		})
	}
	for range n {
		<-begun
	}
}

func (s *openStreams) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.failed++
	if s.first == nil {
		s.first = err
	}
}

// read is one stream, until it is closed or fails.
func (s *openStreams) read(addr string, head, body []byte, begun func()) error {
	conn, err := net.DialTimeout("tcp", addr, requestTimeout)
	if err != nil {
		return err
	}
	defer conn.Close()
	s.mu.Lock()
	s.conns = append(s.conns, conn)
	s.mu.Unlock()
	parts := net.Buffers{head, body}
	if _, err := parts.WriteTo(conn); err != nil {
		return err
	}
	r := bufio.NewReaderSize(conn, 1<<10)
	line, err := r.ReadSlice('\n')
	if err == nil && !bytes.HasPrefix(line, []byte("HTTP/1.1 200")) {
		err = fmt.Errorf("answer %q", bytes.TrimSpace(line))
	}
	for err == nil {
		if line, err = r.ReadSlice('\n'); err != nil {
			break
		}
		_, stamp, ok := bytes.Cut(line, []byte(stampMark))
		if !ok || len(stamp) < stampDigits {
			continue // a head, the framing, an empty line
		}
		at, perr := strconv.ParseInt(string(stamp[:stampDigits]), 10, 64)
		if perr != nil {
			return perr
		}
		late := time.Since(time.Unix(0, at))
		s.mu.Lock()
		s.late = append(s.late, late)
		s.mu.Unlock()
		begun() // last, so that open returns after the chunk is counted
	}
	if errors.Is(err, io.EOF) {
		err = errors.New("the stream ended")
	}
	return err
}

// take returns how late the chunks came since the last call, sorted.
func (s *openStreams) take() []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	late := s.late
	s.late = nil
	slices.Sort(late)
	return late
}

func (s *openStreams) close() {
	s.mu.Lock()
	s.closed = true
	for _, c := range s.conns {
		_ = c.Close()
	}
	s.mu.Unlock()
	s.wg.Wait()
}

// measureStreams holds o.streams streams open through each router in turn.
func measureStreams(o *options, peers []*peer, interrupted <-chan os.Signal) (*report, error) {
	stretch := time.Duration(o.seconds * float64(time.Second))
	rep := newReport(o)
	rep.Streams = make([]streamRow, len(peers))
	nginx := -1
	for i, p := range peers {
		rep.Streams[i].Peer, rep.Streams[i].Streams = p.name, o.streams
		if p.name == "nginx" {
			nginx = i
		}
	}
	for n := range o.rounds {
		for i, p := range peers {
			if len(interrupted) > 0 {
				return nil, errInterrupted
			}
			row := &rep.Streams[i]
			one, err := streamsOf(row, p, o.streams, stretch)
			if err != nil {
				return nil, err
			}
			row.rounds = append(row.rounds, one)
			fmt.Fprintf(os.Stderr, "%s, round %d: %.0f kB a stream, %.1f µs a chunk, %.1f ms late at p99\n",
				p.name, n+1, one.kb, one.cpu, one.p99)
		}
	}
	for i := range rep.Streams {
		row := &rep.Streams[i]
		pick := func(f func(streamRound) float64) float64 {
			var values []float64
			for _, one := range row.rounds {
				values = append(values, f(one))
			}
			return median(values)
		}
		row.KBPerStream = row.rounds[0].kb // later ones have what the first left behind
		row.CPUMicros = pick(func(one streamRound) float64 { return one.cpu })
		row.LateP50Ms = pick(func(one streamRound) float64 { return one.p50 })
		row.LateP99Ms = pick(func(one streamRound) float64 { return one.p99 })
		if nginx >= 0 && peers[i].pid != 0 {
			var ratios []float64
			for k, one := range row.rounds {
				ratios = append(ratios, one.cpu/rep.Streams[nginx].rounds[k].cpu)
			}
			row.RatioToNginx = median(ratios)
		}
	}
	return rep, nil
}

func streamsOf(row *streamRow, p *peer, n int, stretch time.Duration) (streamRound, error) {
	var idle, before, after proc.Usage
	read := func(into *proc.Usage) (err error) {
		if p.pid != 0 {
			if *into, err = proc.Tree(p.pid); err != nil {
				err = fmt.Errorf("%s: %w\n%s", p.name, err, p.log)
			}
		}
		return err
	}
	if err := read(&idle); err != nil {
		return streamRound{}, err
	}
	s := &openStreams{}
	defer s.close()
	s.open(p.addr, n)
	time.Sleep(2 * time.Second) // openings are over, heaps find their size
	s.take()
	if err := read(&before); err != nil {
		return streamRound{}, err
	}
	time.Sleep(stretch)
	late := s.take()
	if err := read(&after); err != nil {
		return streamRound{}, err
	}
	s.mu.Lock()
	row.Errors += s.failed
	if row.FirstError == "" && s.first != nil {
		row.FirstError = s.first.Error()
	}
	s.mu.Unlock()
	if len(late) == 0 {
		return streamRound{}, fmt.Errorf("bench: no chunk came through %s: %w\n%s", p.name, s.first, p.log)
	}
	return streamRound{
		kb:  float64(after.RSS-idle.RSS) / float64(n) / (1 << 10),
		cpu: micros(after.CPU-before.CPU) / float64(len(late)),
		p50: ms(quantile(late, 0.5)), p99: ms(quantile(late, 0.99)),
	}, nil
}

// mostStreams is how many streams a router can hold here, two descriptors each.
func mostStreams() int {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return 400
	}
	return int(min(l.Max, 1<<20)-400) / 2
}

func writeStreams(w *tabwriter.Writer, rows []streamRow) {
	fmt.Fprintf(w, "%d open streams, a chunk each %v\n\n", rows[0].Streams, chunkGap)
	fmt.Fprintln(w,
		"| router\t| kB/stream\t| CPU µs/chunk\t| ratio to nginx\t| late p50 ms\t| late p99 ms\t| errors\t|")
	fmt.Fprintln(w, "| ---\t| ---\t| ---\t| ---\t| ---\t| ---\t| ---\t|")
	for _, r := range rows {
		fmt.Fprintf(w, "| %s\t| %s\t| %s\t| %s\t| %.1f\t| %.1f\t| %d\t|\n", r.Peer, orDash("%.1f", r.KBPerStream),
			orDash("%.1f", r.CPUMicros), orDash("%.2f", r.RatioToNginx), r.LateP50Ms, r.LateP99Ms, r.Errors)
		if r.FirstError != "" {
			fmt.Fprintf(w, "%s: %s\n", r.Peer, r.FirstError)
		}
	}
}
