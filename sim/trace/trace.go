package trace

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/warmpath/warmpath/sim/chance"
)

// Format names how a trace is written.
type Format string

// The formats. Auto recognises the others by the keys of the first line.
const (
	FormatAuto      Format = ""
	FormatMooncake  Format = "mooncake"  // FAST'25 release: timestamp, input_length, output_length, hash_ids
	FormatAgents    Format = "agents"    // sessions of coding agents: session_id, shared_length, delay, ...
	FormatGenerated Format = "generated" // drawn by Generator
)

// Trace is traffic to be replayed: requests, what their prompts have in common, and whose they are.
type Trace struct {
	Name     string
	Format   Format
	Closed   bool // a turn is sent after the one before has ended; without, each at its own time
	Timed    bool // closed: sessions have a clock in common, and begin when they were recorded to unless a load is asked for
	Turns    []Turn
	Sessions []Session // conversations
	Notes    []string  // what a reader of the figures should know about the trace

	forest forest
	burst  float64 // see Generator.Burst; 0 is 1
}

// Turn is one request of a trace.
type Turn struct {
	Session int           // index in Trace.Sessions
	Number  int           // of the turn in its session, from 0
	At      time.Duration // after the start of the trace, or of its own session in a closed loop
	Delay   time.Duration // from the end of the turn before; negative when unknown
	Prompt  int           // tokens
	Output  int           // tokens

	node int32 // what the prompt consists of
	from int32 // the earlier turn whose whole prompt this one goes on from, -1 for none
	Next int32 // the session's next turn, -1 for none

	answer   int32 // 1 + the piece of its answer, where later prompts go on from that; 0 for an answer that nothing shares
	Overlaps bool  // it was sent before the turn before had ended: Delay counts from that one's start
}

// Session is one conversation of a trace.
type Session struct {
	ID     string
	Parent int // index of the session that started this one, -1 for none
	First  int // index of its first turn
	Turns  int

	Tenant   string
	together float64 // when, as a share of the time in which sessions begin, it begins with others; negative for any time

	After int           // turn of the parent that has ended before this one begins, -1 for the parent's start
	Gap   time.Duration // from the start of that to the start of this one

	begins time.Duration // after the start of the trace, see Trace.Timed
}

// forest holds the prompts of a trace as trees of pieces: what two prompts have in common is what their paths to the root have.
type forest struct{ nodes []piece }

// piece is the tokens from start on of all prompts that have it on their path; those before are its parent's.
type piece struct {
	seed   uint64
	parent int32 // -1 for none
	start  int32
	common bool // sessions share it that have nothing to do with each other
}

func (f *forest) add(parent int32, start int, seed uint64) int32 {
	f.nodes = append(f.nodes, piece{seed: seed, parent: parent, start: int32(start)})
	return int32(len(f.nodes) - 1)
}

// chain names the whole blocks, of so many tokens each, of the first tokens of a prompt. Two prompts have a block's name in
// common when they agree in all tokens up to its end.
func (f *forest) chain(to []uint64, node int32, tokens, block int, salt uint64) []uint64 {
	limit := tokens / block
	to = to[:0]
	if cap(to) < limit {
		to = make([]uint64, 0, limit+limit/4)
	}
	to = to[:limit]
	for limit > 0 {
		n := &f.nodes[node]
		from := int(n.start) / block
		seed := n.seed ^ salt
		for i := from; i < limit; i++ {
			to[i] = chance.Mix(seed + uint64(i)*0xd1342543de82ef95)
		}
		limit, node = min(limit, from), n.parent
	}
	return to
}

// MaxTokens bounds a prompt or an answer of a trace.
const MaxTokens = 1 << 24

const maxTraceLine = 64 << 20

// Read reads a trace of JSON lines. Faults are said as name:line and what was expected there.
func Read(name string, r io.Reader, format Format) (*Trace, error) {
	t := &Trace{Name: name, Format: format}
	if err := readLines(name, r, t.reader); err != nil {
		return nil, err
	}
	return t, nil
}

// readLines hands the lines to the reader that begin finds for the first of them.
func readLines(name string, r io.Reader, begin func(first []byte) (lineReader, error)) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 1<<16), maxTraceLine)
	var read lineReader
	n := 0
	for lines.Scan() {
		n++
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		if read == nil {
			var err error
			if read, err = begin(line); err != nil {
				return fmt.Errorf("%s:%d: %w", name, n, err)
			}
		}
		if err := read.line(line); err != nil {
			if cut := lines.Err(); cut != nil { // there is no more of the line
				err = cut
			}
			return fmt.Errorf("%s:%d: %w", name, n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%s:%d: %w", name, n+1, err)
	}
	if read == nil {
		return fmt.Errorf("%s: no request in it; want one JSON object a line", name)
	}
	if err := read.end(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// lineReader takes in the lines of one format.
type lineReader interface {
	line(text []byte) error
	end() error
}

// reader recognises the format by the first line, unless it is told.
func (t *Trace) reader(first []byte) (lineReader, error) {
	if t.Format == FormatAuto {
		var keys map[string]json.RawMessage
		if err := json.Unmarshal(first, &keys); err != nil {
			return nil, fmt.Errorf("want a JSON object, %w", jsonFault(err))
		}
		switch {
		case keys["warmpath_recording"] != nil:
			t.Format = FormatRecorded
		case keys["hash_ids"] != nil:
			t.Format = FormatMooncake
		case keys["session_id"] != nil && keys["shared_length"] != nil:
			t.Format = FormatAgents
		default:
			return nil, errors.New(`neither a Mooncake trace (no "hash_ids") nor a trace of agents (no "session_id" and "shared_length") nor a recording (no "warmpath_recording")`)
		}
	}
	switch t.Format {
	case FormatMooncake:
		return newMooncake(t), nil
	case FormatAgents:
		return newAgents(t), nil
	case FormatRecorded:
		return newRecorded(t), nil
	default:
		return nil, fmt.Errorf("no trace format %q; want %s, %s or %s", t.Format, FormatMooncake, FormatAgents, FormatRecorded)
	}
}

// lengths checks what all formats have.
func lengths(timestamp *float64, input, output *int) error {
	switch {
	case timestamp == nil:
		return errors.New(`no "timestamp"; want milliseconds`)
	case !(*timestamp >= 0 && *timestamp < 1e12):
		return fmt.Errorf("timestamp is %v, want 0 or more milliseconds", *timestamp)
	case input == nil:
		return errors.New(`no "input_length"; want tokens`)
	case *input < 1 || *input > MaxTokens:
		return fmt.Errorf("input_length is %d, want 1..%d tokens", *input, MaxTokens)
	case output == nil:
		return errors.New(`no "output_length"; want tokens`)
	case *output < 0 || *output > MaxTokens:
		return fmt.Errorf("output_length is %d, want 0..%d tokens", *output, MaxTokens)
	}
	return nil
}

func milliseconds(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }

// join puts a turn at the end of a session.
func (t *Trace) join(session int, turn Turn, last *int32) {
	s := &t.Sessions[session]
	turn.Session, turn.Number, turn.Next = session, s.Turns, -1
	at := int32(len(t.Turns))
	if s.Turns == 0 {
		s.First = int(at)
	} else {
		t.Turns[*last].Next = at
	}
	s.Turns++
	*last = at
	t.Turns = append(t.Turns, turn)
}

// jsonFault says what is wrong with a value in the words of the format, not of this program.
func jsonFault(err error) error {
	var wrong *json.UnmarshalTypeError
	switch {
	case !errors.As(err, &wrong):
		return err
	case wrong.Field == "":
		return fmt.Errorf("it is a JSON %s", wrong.Value)
	default:
		return fmt.Errorf("%s cannot be a JSON %s", wrong.Field, wrong.Value)
	}
}
