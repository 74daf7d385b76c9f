// Package kv publishes the changes of a simulated engine's cache, byte for byte as vLLM, SGLang and TensorRT-LLM do: it
// owns the names of blocks, the encoding of events, the ZeroMQ sockets with their replay, and the faults of publishing.
// Blocks are reported in order. It reads no events (see engine/kv) and drives no engine.
package kv

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/zmtp"
	"github.com/warmpath/warmpath/sim/engine"
)

const (
	mostKept    = 10_000      // messages kept for replay (vLLM's buffer_steps)
	mostQueued  = 1024        // events in TensorRT-LLM's queue
	topic       = "kv-events" // unless another is given
	tries       = 50
	endOfReplay = math.MaxUint64
)

// Config says what to publish and where.
type Config struct {
	Kind        fleet.Kind // vLLM, SGLang or TensorRT-LLM
	Arrays      bool       // events are arrays, as in vLLM up to 0.23
	Ranks       int
	BlockTokens int
	Address     string // host:port of the first rank's events; port 0 takes free ones
	// tcp://host:port to which the first rank dials out, the others to the following ports; instead of Address, without
	// replay
	Connect string
	Topic   string // "" is kv-events
}

// Publisher publishes the changes of one rank's cache. It is safe for concurrent use; messages are in the order of the
// calls.
type Publisher struct {
	dialect fleet.Kind
	arrays  bool
	rank    int
	ranks   int
	size    int    // tokens per block
	events  string // host:port
	again   string // "" without replay
	out     bool   // it dials events instead of listening
	topic   string

	mu      sync.Mutex      // guards the following fields
	pub     *zmtp.Publisher // nil while closed
	replay  *zmtp.Server
	next    uint64
	kept    []message
	queue   []json.RawMessage // TensorRT-LLM
	clear   bool              // vLLM: AllBlocksCleared is sent with the next batch
	names   map[uint64]uint64 // of blocks in the cache, by the simulated hash
	jobs    map[uint64]*Job   // expected blocks, by the simulated hash
	muted   bool              // a fault: nothing is published
	dropped int               // a fault: this many messages are still to be lost
}

type message struct {
	seq     uint64
	payload []byte
}

// Job is a request whose blocks will enter the cache.
type Job struct {
	Chain         []uint64 // of its prompt and answer, by the simulated hash
	Tokens        []uint32
	Adapter, Salt string
	Session       string

	names []uint64 // the real engine's hashes of its blocks
	place map[uint64]int
}

// Open opens the sockets of all ranks: events at Config.Address, each rank at the next port; replays at the ports after
// those.
func Open(c Config) (Publishers, error) {
	address := c.Address
	if c.Topic == "" {
		c.Topic = topic
	}
	if c.Connect != "" {
		address = strings.TrimPrefix(c.Connect, "tcp://")
	}
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("the address of KV events %q: %w", address, err)
	}
	port, err := strconv.Atoi(text)
	if err != nil || port < 0 || port+2*c.Ranks > 65535 || port == 0 && c.Connect != "" {
		return nil, fmt.Errorf("the address of KV events %q has no usable port", address)
	}
	for range tries {
		base := port
		if base == 0 {
			l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
			if err != nil {
				return nil, err
			}
			base = l.Addr().(*net.TCPAddr).Port
			_ = l.Close()
		}
		var all Publishers
		if all, err = openAt(c, host, base); err == nil || port != 0 {
			return all, err
		}
	}
	return nil, err
}

func openAt(c Config, host string, base int) (all Publishers, err error) {
	for rank := range c.Ranks {
		p := &Publisher{
			dialect: c.Kind, arrays: c.Arrays, rank: rank, ranks: c.Ranks, size: c.BlockTokens,
			events: net.JoinHostPort(host, strconv.Itoa(base+rank)),
			again:  net.JoinHostPort(host, strconv.Itoa(base+c.Ranks+rank)),
		}
		if p.topic = c.Topic; c.Connect != "" {
			p.out, p.again = true, ""
		}
		p.reset()
		if c.Kind != fleet.KindTRTLLM {
			err = p.open()
		}
		if err != nil {
			for _, q := range all {
				q.Close()
			}
			return nil, fmt.Errorf("KV events: %w", err)
		}
		all = append(all, p)
	}
	return all, nil
}

func (p *Publisher) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next, p.kept, p.queue, p.clear = 0, nil, nil, false
	p.names, p.jobs = map[uint64]uint64{}, map[uint64]*Job{}
	if p.dialect == fleet.KindTRTLLM {
		p.enqueue(event{})
	}
}

func (p *Publisher) open() error {
	if p.out { // messages while it is not connected are lost, as with ZeroMQ's own
		p.opened(zmtp.DialPublisher(p.events), nil)
		return nil
	}
	pub, err := zmtp.ListenPublisher(p.events)
	if err != nil {
		return err
	}
	replay, err := zmtp.Serve(p.again, zmtp.Config{Kind: zmtp.Router}, p.answer)
	if err != nil {
		pub.Close()
		return err
	}
	p.opened(pub, replay)
	return nil
}

func (p *Publisher) opened(pub *zmtp.Publisher, replay *zmtp.Server) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pub, p.replay = pub, replay
}

// Close closes the sockets and ends their goroutines.
func (p *Publisher) Close() {
	p.mu.Lock()
	pub, replay := p.pub, p.replay
	p.pub, p.replay = nil, nil
	p.mu.Unlock()
	if pub != nil {
		pub.Close()
	}
	if replay != nil {
		replay.Close()
	}
}

// Restart has the effects of a new process: closed connections, no memory, numbers from 0.
func (p *Publisher) Restart() {
	p.Close()
	p.reset()
	if p.dialect == fleet.KindTRTLLM {
		return
	}
	for range tries { // the port may take a moment to be free
		if p.open() == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// answer serves a connection to the replay socket: for the frames of a DEALER (empty, number) it sends each stored
// message from that number on, then the end.
func (p *Publisher) answer(c *zmtp.Conn) {
	for {
		frames, err := c.Receive()
		if err != nil {
			return
		}
		n := len(frames)
		if len(frames[n-1]) != 8 {
			continue
		}
		from := binary.BigEndian.Uint64(frames[n-1])
		p.mu.Lock()
		var answer []message
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
		for _, k := range answer {
			if c.Send(nil, []byte(p.topic), number(k.seq), k.payload) != nil {
				return
			}
		}
		if c.Send(nil, nil, number(endOfReplay), nil) != nil {
			return
		}
	}
}

func number(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

// Expect records a request whose blocks will come.
func (p *Publisher) Expect(j *Job) {
	p.mu.Lock()
	defer p.mu.Unlock()
	j.names = digests(p.dialect, j.Tokens, p.size, j.Adapter, j.Salt)
	j.place = make(map[uint64]int, len(j.Chain))
	for i, h := range j.Chain[:min(len(j.Chain), len(j.names))] {
		j.place[h] = i
		p.jobs[h] = j
	}
}

// Over drops a request.
func (p *Publisher) Over(j *Job) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, h := range j.Chain {
		if p.jobs[h] == j {
			delete(p.jobs, h)
		}
	}
}

// Publish publishes the changes of a step.
func (p *Publisher) Publish(changes []engine.Change) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var events []event
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
				events = append(events, event{removed: []uint64{name}})
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

// stored appends block i of a job, to the previous run if it continues that.
func (p *Publisher) stored(events []event, j *Job, i int) []event {
	tokens := j.Tokens[i*p.size : (i+1)*p.size]
	if n := len(events); n > 0 && i > 0 {
		if s := events[n-1].stored; s != nil && s.session == j.Session && s.hashes[len(s.hashes)-1] == j.names[i-1] {
			s.hashes = append(s.hashes, j.names[i])
			s.tokens = append(s.tokens, tokens...)
			return events
		}
	}
	s := &storedRun{
		hashes: []uint64{j.names[i]}, first: i == 0, tokens: append([]uint32(nil), tokens...), size: p.size,
		adapter: j.Adapter, salt: j.Salt, session: j.Session,
	}
	if i > 0 {
		s.parent = j.names[i-1]
	}
	return append(events, event{stored: s})
}

// Cleared reports that the cache is empty: at once (SGLang), or with the next batch (vLLM).
func (p *Publisher) Cleared() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.names)
	if p.dialect == fleet.KindVLLM {
		p.clear = true
		return
	}
	p.send([]event{{}})
}

// send publishes a message and stores it; mu is held.
func (p *Publisher) send(events []event) {
	if p.dialect == fleet.KindTRTLLM {
		for _, e := range events {
			if e.stored != nil || e.removed != nil {
				p.enqueue(e)
			}
		}
		return
	}
	if p.clear {
		events, p.clear = append([]event{{}}, events...), false
	}
	m := message{p.next, appendBatch(p.dialect, p.arrays, float64(time.Now().UnixMicro())/1e6, events, p.rank)}
	p.next++
	if p.kept = append(p.kept, m); len(p.kept) > mostKept {
		p.kept = append(p.kept[:0], p.kept[len(p.kept)-mostKept:]...)
	}
	if p.dropped > 0 || p.muted {
		p.dropped = max(0, p.dropped-1)
		return
	}
	if p.pub != nil {
		p.pub.Send([]byte(p.topic), number(m.seq), m.payload) // only queued here
	}
}

func (p *Publisher) enqueue(e event) {
	p.queue = append(p.queue, trtEvent(p.next, p.rank, p.ranks, e))
	p.next++
	if len(p.queue) > mostQueued {
		p.queue = append(p.queue[:0], p.queue[len(p.queue)-mostQueued:]...)
	}
}

// drain empties TensorRT-LLM's queue.
func (p *Publisher) drain() []json.RawMessage {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := p.queue
	p.queue = nil
	return out
}

// Lose drops the next messages in transit; they can be replayed.
func (p *Publisher) Lose(messages int) {
	p.mu.Lock()
	p.dropped = messages
	p.mu.Unlock()
}

// Mute stops or resumes the rank's messages.
func (p *Publisher) Mute(muted bool) {
	p.mu.Lock()
	p.muted = muted
	p.mu.Unlock()
}

// Forget empties the replay buffer.
func (p *Publisher) Forget() {
	p.mu.Lock()
	p.kept = nil
	p.mu.Unlock()
}

// Addresses are the addresses of the events and of their replay: tcp://HOST:PORT.
func (p *Publisher) Addresses() (events, replay string) {
	if p.out {
		return "tcp://" + p.events, ""
	}
	return "tcp://" + p.events, "tcp://" + p.again
}

// Subscribed reports whether the events have a subscriber; earlier ones are lost.
func (p *Publisher) Subscribed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pub != nil && p.pub.Subscribed()
}
