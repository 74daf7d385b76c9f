package trtllm

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route"
)

// TestRouterScripts plays testdata/*.txt: the decisions of TensorRT-LLM's routers by the published rules, written by
// hand. They cannot be rewritten by a flag.
//
//	policy NAME [OPTION[=VALUE]...]                             the first line
//	servers [NAME...]                                           all that are declared from now on
//	ask ID [session=s] [text=P | ids=P] [exclude=SERVER] -> SERVER
//	end ID [failed]
//
// P is a prompt: 1/2000 is the first 2,000 characters of text number 1, or so many of its token ids; 1/2000+2/500 goes
// on with 500 of number 2. Texts of different numbers have nothing in common. Several prompts in one request are
// separated by commas.
func TestRouterScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s := &scripted{t: t, open: map[string]route.Decision{}}
			for i, line := range strings.Split(string(text), "\n") {
				if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
					s.place = fmt.Sprintf("%s:%d: %s", file, i+1, line)
					s.do(strings.Fields(line))
				}
			}
		})
	}
}

// scripted is a router driven by a script.
type scripted struct {
	t       *testing.T
	place   string
	config  router
	desktop *desktop
	open    map[string]route.Decision
}

func (s *scripted) do(words []string) {
	switch args := words[1:]; words[0] {
	case "policy":
		s.policy(args)
	case "servers":
		if s.desktop == nil {
			s.desktop = newDesktop(s.t, s.config)
		}
		s.desktop.declare(args...)
	case "ask":
		s.ask(args)
	case "end":
		d, ok := s.open[args[0]]
		if !ok {
			s.t.Fatalf("%s: nothing to end", s.place)
		}
		delete(s.open, args[0])
		outcome := fleet.OK
		if len(args) > 1 && args[1] == "failed" {
			outcome = fleet.EngineError
		}
		s.desktop.end(d, outcome)
	default:
		s.t.Fatalf("%s: no such line", s.place)
	}
}

func (s *scripted) policy(args []string) {
	s.config.Name = args[0]
	kv, conv := &s.config.TRTLLM.KVCacheAware, &s.config.TRTLLM.Conversation
	for _, option := range args[1:] {
		name, value, _ := strings.Cut(option, "=")
		switch name {
		case "use_tokens":
			s.config.TRTLLM.LoadBalancing.UseTokens = true
		case "score":
			kv.Score = value
		case "tokens_per_block":
			kv.TokensPerBlock = s.number(value)
		case "max_batch_size":
			kv.MaxBatchSize = s.number(value)
		case "content_affinity":
			kv.ContentAffinity = value
		case "no_tracking":
			kv.TrackRoutedBlocks = new(false)
		case "block_weights":
			conv.BlockWeights = true
		case "use_token_ids":
			conv.UseTokenIDs = true
		case "ids_by_table_only":
			conv.IDsByTableOnly = true
		case "hash_skip_count":
			conv.HashSkipCount = s.number(value)
		case "max_sessions":
			conv.MaxSessions = s.number(value)
		default:
			s.t.Fatalf("%s: no option %s", s.place, name)
		}
	}
}

func (s *scripted) ask(args []string) {
	r := &fleet.Request{}
	for i, arg := range args[1:] {
		name, value, _ := strings.Cut(arg, "=")
		switch name {
		case "session":
			r.Session = value
		case "text", "ids":
			s.prompts(r, value, name == "ids")
		case "exclude":
			r.Exclude = append(r.Exclude, value)
		case "->":
			d := s.desktop.ask(r)
			s.open[args[0]] = d
			if want := args[i+2]; d.Endpoint.Name != want {
				s.t.Errorf("%s: it went to %s (%s)", s.place, d.Endpoint.Name, d.Reason)
			}
			return
		default:
			s.t.Fatalf("%s: no option %s", s.place, name)
		}
	}
	s.t.Fatalf("%s: it does not say where the request is to go", s.place)
}

// prompts gives a request its prompts, in the canonical form: a text is its characters, token ids are four bytes each.
func (s *scripted) prompts(r *fleet.Request, value string, ids bool) {
	var all [][]byte
	for p := range strings.SplitSeq(value, ",") {
		var text []byte
		for piece := range strings.SplitSeq(p, "+") {
			n, length, _ := strings.Cut(piece, "/")
			text = append(text, drawn(s.number(n), s.number(length), ids)...)
		}
		all = append(all, text)
	}
	joined := all[0]
	if r.Content = (&fleet.Content{}); len(all) > 1 {
		for i, text := range all {
			blocks, whole := hashed(text)
			q := fleet.Listed{Blocks: blocks, Bytes: len(text), Hash: whole}
			if ids {
				q.IDs = len(text) / 4
			}
			if r.Content.List = append(r.Content.List, q); i > 0 && !ids {
				joined = append(append(joined, '\n'), text...)
			}
		}
	}
	if ids {
		for _, text := range all {
			r.PromptTokens += len(text) / 4
		}
	}
	r.Content.Bytes = len(joined)
	r.Content.Blocks, r.Content.Hash = hashed(joined)
}

// drawn is the first characters, or token ids, of a text.
func drawn(number, length int, ids bool) []byte {
	rng := rand.New(rand.NewPCG(uint64(number), 1))
	var out []byte
	for range length {
		if ids {
			out = binary.LittleEndian.AppendUint32(out, rng.Uint32N(100_000))
		} else {
			out = append(out, byte('a'+rng.IntN(26)))
		}
	}
	return out
}

// hashed is the names of a text's blocks, and of all of it.
func hashed(text []byte) (blocks []uint64, whole uint64) {
	h := fnv.New64a()
	for len(text) >= fleet.BlockBytes {
		_, _ = h.Write(text[:fleet.BlockBytes])
		blocks = append(blocks, h.Sum64())
		text = text[fleet.BlockBytes:]
	}
	_, _ = h.Write(text)
	return blocks, h.Sum64()
}

func (s *scripted) number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		s.t.Fatalf("%s: %v", s.place, err)
	}
	return n
}
