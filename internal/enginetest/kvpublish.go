package enginetest

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"math"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/go-zeromq/zmq4"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/sim/engine"
)

// kvMost is how many messages are kept for those who missed them (vLLM's buffer_steps), and how many events TensorRT-LLM's queue has.
const (
	kvMost    = 10_000
	trtMost   = 1024
	kvTopic   = "kv-events"
	kvTries   = 50
	kvForever = math.MaxUint64
)

// kvPublisher publishes what happens in the cache of one rank. Its methods are called with the pump's lock held.
type kvPublisher struct {
	dialect fleet.Kind
	arrays  bool
	rank    int
	ranks   int
	size    int // tokens a block
	pub     zmq4.Socket
	replay  zmq4.Socket
	stop    context.CancelFunc
	serving sync.WaitGroup
	events  string // host:port
	again   string

	mu      sync.Mutex // guards what follows
	next    uint64
	kept    []kvMessage
	queue   []json.RawMessage // TensorRT-LLM
	clear   bool              // vLLM: AllBlocksCleared is told with the next batch
	names   map[uint64]uint64 // of blocks in the cache, by the simulated hash
	jobs    map[uint64]*kvJob // blocks that may come, by the simulated hash
	muted   bool              // a fault: nothing is published
	dropped int               // a fault: so many messages are still to be lost on their way
}

type kvMessage struct {
	seq     uint64
	payload []byte
}

// kvJob is a request whose blocks come into the cache.
type kvJob struct {
	chain         []uint64
	names         []uint64
	tokens        []uint32
	adapter, salt string
	session       string
	place         map[uint64]int
}

// newKVPublishers opens the sockets of all ranks: events at addr, each rank at a port one higher; replays at the ports after those.
func newKVPublishers(o Options) ([]*kvPublisher, error) {
	host, text, err := net.SplitHostPort(o.KVEvents)
	if err != nil {
		return nil, fmt.Errorf("enginetest: the address of KV events %q: %w", o.KVEvents, err)
	}
	port, err := strconv.Atoi(text)
	if err != nil || port < 0 || port+2*o.Ranks > 65535 {
		return nil, fmt.Errorf("enginetest: the address of KV events %q has no usable port", o.KVEvents)
	}
	for range kvTries {
		base := port
		if base == 0 {
			l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
			if err != nil {
				return nil, fmt.Errorf("enginetest: %w", err)
			}
			base = l.Addr().(*net.TCPAddr).Port
			_ = l.Close()
		}
		var all []*kvPublisher
		if all, err = openKV(o, host, base); err == nil || port != 0 {
			return all, err
		}
	}
	return nil, err
}

func openKV(o Options, host string, base int) (all []*kvPublisher, err error) {
	for rank := range o.Ranks {
		p := &kvPublisher{
			dialect: o.Dialect, arrays: o.KVArrays, rank: rank, ranks: o.Ranks, size: o.Engine.BlockTokens,
			events: net.JoinHostPort(host, strconv.Itoa(base+rank)), again: net.JoinHostPort(host, strconv.Itoa(base+o.Ranks+rank)),
		}
		p.reset()
		if o.Dialect != fleet.KindTRTLLM {
			err = p.open()
		}
		if err != nil {
			for _, q := range all {
				q.close()
			}
			return nil, fmt.Errorf("enginetest: KV events: %w", err)
		}
		all = append(all, p)
	}
	return all, nil
}

func (p *kvPublisher) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next, p.kept, p.queue, p.clear = 0, nil, nil, false
	p.names, p.jobs = map[uint64]uint64{}, map[uint64]*kvJob{}
	if p.dialect == fleet.KindTRTLLM {
		p.enqueue(kvEvent{})
	}
}

func (p *kvPublisher) open() error {
	ctx, cancel := context.WithCancel(context.Background())
	p.stop = cancel
	quiet := zmq4.WithLogger(log.New(io.Discard, "", 0))
	p.pub, p.replay = zmq4.NewPub(ctx, quiet), zmq4.NewRouter(ctx, quiet)
	err := p.pub.Listen("tcp://" + p.events)
	if err == nil {
		err = p.replay.Listen("tcp://" + p.again)
	}
	if err != nil {
		cancel()
		_ = p.pub.Close()
		_ = p.replay.Close()
		return err
	}
	replay := p.replay
	p.serving.Go(func() { p.answer(replay) })
	return nil
}

func (p *kvPublisher) close() {
	if p.stop == nil {
		return
	}
	p.stop()
	_ = p.pub.Close()
	_ = p.replay.Close()
	p.serving.Wait()
	p.stop = nil
}

// restart is what a new process looks like: closed connections, no memory, numbers from 0.
func (p *kvPublisher) restart() {
	p.close()
	p.reset()
	if p.dialect == fleet.KindTRTLLM {
		return
	}
	for range kvTries { // the port may take a moment to be free
		if p.open() == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// answer serves the replay socket: from a ROUTER's frames (identity, empty, number) each message kept from that number on, then the end.
func (p *kvPublisher) answer(replay zmq4.Socket) {
	for {
		m, err := replay.Recv()
		if err != nil {
			return
		}
		n := len(m.Frames)
		if n < 2 || len(m.Frames[n-1]) != 8 {
			continue
		}
		from := binary.BigEndian.Uint64(m.Frames[n-1])
		p.mu.Lock()
		var answer []kvMessage
		for _, k := range p.kept {
			if k.seq >= from && !p.muted {
				answer = append(answer, k)
			}
		}
		muted := p.muted
		p.mu.Unlock()
		if muted {
			continue
		}
		id := m.Frames[0]
		for _, k := range answer {
			_ = replay.SendMulti(zmq4.NewMsgFrom(id, nil, []byte(kvTopic), number(k.seq), k.payload))
		}
		_ = replay.SendMulti(zmq4.NewMsgFrom(id, nil, nil, number(kvForever), nil))
	}
}

func number(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

// expect notes a request whose blocks will come.
func (p *kvPublisher) expect(j *kvJob) {
	p.mu.Lock()
	defer p.mu.Unlock()
	j.names = kvDigests(p.dialect, j.tokens, p.size, j.adapter, j.salt)
	j.place = make(map[uint64]int, len(j.chain))
	for i, h := range j.chain[:min(len(j.chain), len(j.names))] {
		j.place[h] = i
		p.jobs[h] = j
	}
}

// over forgets a request.
func (p *kvPublisher) over(j *kvJob) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, h := range j.chain {
		if p.jobs[h] == j {
			delete(p.jobs, h)
		}
	}
}

// publish tells what changed in a step.
func (p *kvPublisher) publish(changes []engine.Change) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var events []kvEvent
	for _, c := range changes {
		if !c.Stored {
			name, known := p.names[c.Hash]
			if !known {
				continue
			}
			delete(p.names, c.Hash)
			if n := len(events); n > 0 && events[n-1].removed != nil {
				events[n-1].removed = append(events[n-1].removed, name)
			} else {
				events = append(events, kvEvent{removed: []uint64{name}})
			}
			continue
		}
		if j := p.jobs[c.Hash]; j != nil {
			events = p.stored(events, j, j.place[c.Hash])
			p.names[c.Hash] = j.names[j.place[c.Hash]]
		}
	}
	if len(events) > 0 {
		p.send(events)
	}
}

// stored appends block i of a job, to the run before it where it goes on from that.
func (p *kvPublisher) stored(events []kvEvent, j *kvJob, i int) []kvEvent {
	tokens := j.tokens[i*p.size : (i+1)*p.size]
	if n := len(events); n > 0 && i > 0 {
		if s := events[n-1].stored; s != nil && s.session == j.session && s.hashes[len(s.hashes)-1] == j.names[i-1] {
			s.hashes = append(s.hashes, j.names[i])
			s.tokens = append(s.tokens, tokens...)
			return events
		}
	}
	s := &kvStored{
		hashes: []uint64{j.names[i]}, first: i == 0, tokens: append([]uint32(nil), tokens...), size: p.size,
		adapter: j.adapter, salt: j.salt, session: j.session,
	}
	if i > 0 {
		s.parent = j.names[i-1]
	}
	return append(events, kvEvent{stored: s})
}

// cleared tells that the cache is empty: at once (SGLang), or with the next batch (vLLM).
func (p *kvPublisher) cleared() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.names)
	if p.dialect == fleet.KindVLLM {
		p.clear = true
		return
	}
	p.send([]kvEvent{{}})
}

// send publishes a message and keeps it; mu is held.
func (p *kvPublisher) send(events []kvEvent) {
	if p.dialect == fleet.KindTRTLLM {
		for _, e := range events {
			if e.stored != nil || e.removed != nil {
				p.enqueue(e)
			}
		}
		return
	}
	if p.clear {
		events, p.clear = append([]kvEvent{{}}, events...), false
	}
	m := kvMessage{p.next, kvBatch(p.dialect, p.arrays, float64(time.Now().UnixMicro())/1e6, events, p.rank)}
	p.next++
	if p.kept = append(p.kept, m); len(p.kept) > kvMost {
		p.kept = append(p.kept[:0], p.kept[len(p.kept)-kvMost:]...)
	}
	if p.dropped > 0 || p.muted {
		p.dropped = max(0, p.dropped-1)
		return
	}
	_ = p.pub.SendMulti(zmq4.NewMsgFrom([]byte(kvTopic), number(m.seq), m.payload)) // only queued here
}

func (p *kvPublisher) enqueue(e kvEvent) {
	p.queue = append(p.queue, trtEvent(p.next, p.rank, p.ranks, e))
	p.next++
	if len(p.queue) > trtMost {
		p.queue = append(p.queue[:0], p.queue[len(p.queue)-trtMost:]...)
	}
}

// drain empties TensorRT-LLM's queue.
func (p *kvPublisher) drain() []json.RawMessage {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := p.queue
	p.queue = nil
	return out
}

// kvCacheEvents is TensorRT-LLM's POST /kv_cache_events.
func (s *Server) kvCacheEvents(w http.ResponseWriter, _ *http.Request) {
	out := []json.RawMessage{}
	for _, p := range s.pump.kv {
		out = append(out, p.drain()...)
	}
	writeJSON(w, http.StatusOK, out)
}

// kvEventSources is vLLM's GET /kv_event_sources.
func (s *Server) kvEventSources(w http.ResponseWriter, _ *http.Request) {
	out := map[string]any{}
	for _, p := range s.pump.kv {
		out[strconv.Itoa(p.rank)] = map[string]any{"endpoint": everywhere(p.events), "replay_endpoint": everywhere(p.again), "topic": kvTopic}
	}
	writeJSON(w, http.StatusOK, out)
}

// everywhere is an address as an engine that listens on all interfaces is given it.
func everywhere(addr string) string {
	_, port, _ := net.SplitHostPort(addr)
	return "tcp://*:" + port
}

// kvEventsInfo is what SGLang's /server_info says of KV events; nil without.
func (s *Server) kvEventsInfo() any {
	if len(s.pump.kv) == 0 {
		return nil
	}
	_, events, _ := net.SplitHostPort(s.pump.kv[0].events)
	_, again, _ := net.SplitHostPort(s.pump.kv[0].again)
	return map[string]any{
		"publisher": "zmq", "endpoint_host": "*", "endpoint_port_base": json.Number(events), "topic": kvTopic,
		"block_size": s.opts.Engine.BlockTokens, "dp_size": s.opts.Ranks, "replay_endpoint_port_base": json.Number(again),
	}
}
