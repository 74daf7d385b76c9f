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

// Format is the format of a trace file.
type Format string

// The formats. Auto recognises the others by the keys of the first line.
const (
	FormatAuto      Format = ""
	FormatMooncake  Format = "mooncake"  // FAST'25 release: timestamp, input_length, output_length, hash_ids
	FormatAgents    Format = "agents"    // sessions of coding agents: session_id, shared_length, delay, ...
	FormatGenerated Format = "generated" // from a Generator
)

// Trace is traffic to be replayed: requests, their shared prefixes and their conversations.
type Trace struct {
	Name     string
	Format   Format
	Closed   bool // a turn is sent after the end of the previous one; otherwise each at its own time
	Timed    bool // closed loop with a common clock: sessions start when recorded, unless a load is given
	Turns    []Turn
	Sessions []Session // conversations
	Notes    []string  // notes for readers of the figures

	// what was observed of each request; nil for other formats, and for parts and repetitions of a recording
	Recording *Recording

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

	node int32 // its prompt's last piece
	from int32 // the earlier turn whose whole prompt this one continues; -1 for none
	Next int32 // the session's next turn; -1 for none

	answer   int32 // 1 + the piece of its answer, if later prompts continue it; 0 for an unshared answer
	Overlaps bool  // it was sent before the previous turn had ended: Delay is from that one's start
}

// Session is one conversation of a trace.
type Session struct {
	ID     string
	Parent int // index of the session that started this one; -1 for none
	First  int // index of its first turn
	Turns  int

	Tenant   string
	together float64 // start in a burst, as a share of the window; negative for a random start

	After int           // turn of the parent that must end before this one starts; -1 for the parent's start
	Gap   time.Duration // from that to the start of this one

	begins time.Duration // after the start of the trace, see Trace.Timed
}

// forest holds the prompts of a trace as trees of pieces: two prompts share the common part of their paths to the root.
type forest struct{ nodes []piece }

// piece is the tokens from start on of all prompts with it on their path; the tokens before are its parent's.
type piece struct {
	seed   uint64
	parent int32 // -1 for none
	start  int32
	common bool // shared by unrelated sessions
}

func (f *forest) add(parent int32, start int, seed uint64) int32 {
	f.nodes = append(f.nodes, piece{seed: seed, parent: parent, start: int32(start)})
	return int32(len(f.nodes) - 1)
}

// chain names the whole blocks of the first tokens of a prompt. Two prompts share a block's name if they agree in all
// tokens up to its end.
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

// MaxTokens bounds a prompt or an answer.
const MaxTokens = 1 << 24

const maxTraceLine = 64 << 20

// Read reads a trace of JSON lines. Errors give name:line and what was expected.
func Read(name string, r io.Reader, format Format) (*Trace, error) {
	t := &Trace{Name: name, Format: format}
	if err := readLines(name, r, t.reader); err != nil {
		return nil, err
	}
	return t, nil
}

// readLines passes the lines to the reader that begin returns for the first one.
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
			if cut := lines.Err(); cut != nil { // the line is truncated
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

// lineReader parses the lines of one format.
type lineReader interface {
	line(text []byte) error
	end() error
}

// reader detects the format by the first line, unless it is given.
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
		return nil, fmt.Errorf("no trace format %q; want %s, %s or %s",
			t.Format, FormatMooncake, FormatAgents, FormatRecorded)
	}
}

// lengths checks the fields common to all formats.
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

// join appends a turn to a session.
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

// jsonFault describes a wrong JSON value in terms of the format.
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
