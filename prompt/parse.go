package prompt

import (
	"errors"
	"math"
	"strconv"

	"github.com/warmpath/warmpath/prompt/jsonscan"
)

// Prompt is what the router needs of one request. It contains no prompt text; spans are offsets into the parsed body.
// Of duplicate members the last counts, as in encoding/json and in Python.
type Prompt struct {
	API     API
	Model   string        // "" when absent
	ModelAt jsonscan.Span // the value, quotes included

	Stream       bool // the answer is to be streamed
	StreamAt     jsonscan.Span
	IncludeUsage bool // stream_options.include_usage is true: the client wants usage in the stream

	MaxTokens int // the client's limit on the answer; 0 for none; at most 2^31-1
	N         int // number of answers, at least 1; at most 2^31-1
	// context that Ollama is to load the model with, in tokens (options.num_ctx); 0 for none; at most 2^31-1
	Window int

	// an engine computes the whole prompt: its client says so, or asks for log probabilities of its tokens
	ReadsNoCache bool

	TextBytes int // bytes of decoded prompt text, plus tools as JSON, without media
	TokenIDs  int // prompt tokens given as ids; if they accompany a chat's messages (prompt_token_ids) TextBytes is 0

	Session          string // explicit conversation id; "" for none
	SessionFrom      string // header or field with the id, as named by the Source
	PreviousResponse string // previous_response_id; "" for none
	User             string // user id; "" for none or if there is a Session; weak evidence for a conversation
	Parent           string // explicit id of the conversation that started this one; "" for none
	Closes           bool   // its conversation ends with it: Dynamo's nvext.session_control says close

	// the first member that an engine written in Go (Ollama) takes for one that the router reads by its exact name,
	// since its encoding/json does not regard case; nil for none. The engine would run another model or prompt than was
	// placed.
	Folded *CaseError

	InsertAt int  // offset after the body's opening brace; 0 if the body is not an object
	Empty    bool // the object has no members

	StreamOptionsAt jsonscan.Span
	usageAt         jsonscan.Span // value of stream_options.include_usage
	usageInsertAt   int           // offset after the opening brace of stream_options; 0 if it is not an object
	usageAlone      bool          // stream_options has no members
	fields          [numEditable]jsonscan.Span
	earlier         []occurrence // of repeated members, in the order of the body; usually nil
}

// occurrence is the position of a member that occurs again later.
type occurrence struct {
	field field
	at    jsonscan.Span
}

// maxEarlier bounds the number of repeated members in a body.
const maxEarlier = 64

// amount is the contribution of one top-level member to the prompt.
type amount struct{ text, ids int }

// scan is the state of one pass over a body.
type scan struct {
	cur     jsonscan.Cursor
	api     API
	parser  *Parser
	keyBuf  [maxNameBytes]byte
	fields  [numFields]jsonscan.Value
	subs    [numSubfields]jsonscan.Value
	amounts [numFields]amount
	ids     [maxBodySources]jsonscan.Value // by index of parser.body
	chain   *Chain                         // to be filled; nil for none
	mem     *Memory                        // values seen before; nil for none

	earlier []occurrence
	crowded bool // there are more than maxEarlier
	badIDs  bool // prompt_token_ids of a chat are invalid
	folded  *CaseError

	insertAt, members          int
	usageInsertAt, usageFields int // of stream_options
}

// clear lets go of the body and makes the scan ready for another.
func (s *scan) clear() { *s = scan{} }

// Parse scans a body once. header returns a request header by its canonical name ("" when absent, as http.Header.Get)
// and may be nil. The errors are ErrEmpty, ErrNotJSON (a *SyntaxError), ErrNotObject, ErrRepeated and ErrField (a
// *FieldError), for errors.Is. A wrong type is only an error in fields that the router uses (model, stream); the engine
// checks the rest.
func (p *Parser) Parse(api API, body []byte, header func(string) string) (out Prompt, err error) {
	var s scan
	s.parser, s.api = p, api
	err = s.parse(body, header, &out)
	return out, err
}

// parse fills in an empty Prompt, which takes 1 kB: it is not copied from step to step.
func (s *scan) parse(body []byte, header func(string) string, out *Prompt) error {
	out.API, out.N = s.api, 1
	if err := s.body(body); err != nil {
		return err
	}
	if s.crowded {
		return ErrRepeated
	}
	s.prompt(body, out)
	if err := s.judge(); err != nil {
		return err
	}
	out.speaks(s.parser.identify(body, &s.ids, header))
	return nil
}

// Peek reads a body of unknown format. If it is a JSON object, it finds the model, the session and the positions of
// members like Parse; otherwise only what headers say. The error says why a body that is not empty could not be read
// (ErrNotJSON, a *SyntaxError, or ErrRepeated): an engine may still read members there.
func (p *Parser) Peek(body []byte, header func(string) string) (Prompt, error) {
	var s scan
	s.parser = p
	out := Prompt{N: 1}
	err := s.body(body)
	if err == nil && s.crowded {
		err = ErrRepeated
	}
	if err == nil {
		s.prompt(body, &out)
	} else {
		s.ids = [maxBodySources]jsonscan.Value{}
		// Go's decoder takes an object whatever follows it
		out.Folded = s.folded
		if errors.Is(err, ErrEmpty) || errors.Is(err, ErrNotObject) { // no members
			err = nil
		}
	}
	out.speaks(p.identify(body, &s.ids, header))
	return out, err
}

// speaks copies the ids.
func (p *Prompt) speaks(s speaker) {
	p.Session, p.SessionFrom, p.User, p.Parent, p.Closes = s.session, s.from, s.user, s.parent, s.closes
}

// judge reports wrong types of fields that the router uses. Null counts as absent.
func (s *scan) judge() error {
	if v := s.fields[fModel]; v.Kind != jsonscan.Bad && v.Kind != jsonscan.String && v.Kind != jsonscan.Null {
		return &FieldError{Field: "model", Want: "a string", Got: v.Kind}
	}
	if v := s.fields[fStream]; v.Kind != jsonscan.Bad && v.Kind != jsonscan.True && v.Kind != jsonscan.False &&
		v.Kind != jsonscan.Null {
		return &FieldError{Field: "stream", Want: "a boolean", Got: v.Kind}
	}
	if s.badIDs {
		got := s.fields[fPromptTokenIDs].Kind
		if got != jsonscan.Array {
			return &FieldError{Field: fieldNames[fPromptTokenIDs], Want: "a list of token ids", Got: got}
		}
		return &FieldError{
			Field: fieldNames[fPromptTokenIDs], Want: "a list of token ids (integers from 0 on)",
			Got: got, Within: true,
		}
	}
	return nil
}

// prompt combines the results into an empty Prompt.
func (s *scan) prompt(body []byte, p *Prompt) {
	p.API, p.N = s.api, max(1, count(body, s.fields[fN], s.subs[sSamplingN]))
	p.InsertAt, p.Empty = s.insertAt, s.members == 0
	p.StreamAt, p.StreamOptionsAt = s.fields[fStream].At, s.fields[fStreamOptions].At
	p.IncludeUsage = s.subs[sIncludeUsage].Kind == jsonscan.True
	p.Folded, p.earlier = s.folded, s.earlier
	p.usageAt, p.usageInsertAt, p.usageAlone = s.subs[sIncludeUsage].At, s.usageInsertAt, s.usageFields == 0
	if v := s.fields[fModel]; v.Kind == jsonscan.String {
		p.Model, p.ModelAt = jsonscan.Decode(body, v.At), v.At
	}
	switch s.fields[fStream].Kind {
	case jsonscan.True:
		p.Stream = true
	case jsonscan.False:
	default:
		p.Stream = s.api.streamsByDefault()
	}
	if v := s.fields[fPreviousResponseID]; v.Kind == jsonscan.String {
		p.PreviousResponse = decodeID(body, v.At)
	}
	p.MaxTokens = count(body, s.fields[fMaxCompletionTokens], s.fields[fMaxTokens], s.fields[fMaxOutputTokens],
		s.fields[fNPredict], s.subs[sMaxNewTokens], s.subs[sNumPredict])
	if s.api == OllamaChat || s.api == OllamaGenerate { // Ollama's other APIs have no such option
		p.Window = count(body, s.subs[sNumCtx])
	}
	p.ReadsNoCache = s.readsNoCache(body)
	for f := range s.amounts {
		p.TextBytes += s.amounts[f].text
		p.TokenIDs += s.amounts[f].ids
	}
	// they are the prompt, rendered and tokenized; messages and tools would count twice
	if n := s.amounts[fPromptTokenIDs].ids; n > 0 {
		p.TextBytes, p.TokenIDs = 0, n
	}
	for f := range p.fields {
		p.fields[f] = s.fields[f].At
	}
}

// readsNoCache reports whether log probabilities of the prompt are asked for: vLLM then reads no cache (0.33.0,
// sampling_params.py), SGLang none of the tokens from the first on that is asked for (schedule_batch.py). OpenAI's
// completions ask for them with echo and logprobs. With cache_prompt false llama-server reads none (0.7.0,
// server-context.cpp).
func (s *scan) readsNoCache(body []byte) bool {
	is := func(f field, k jsonscan.Kind) bool { return s.fields[f].Kind == k }
	start := s.fields[fLogprobStartLen]
	return is(fPromptLogprobs, jsonscan.Number) || is(fCachePrompt, jsonscan.False) ||
		is(fEcho, jsonscan.True) && (is(fLogprobs, jsonscan.Number) || is(fLogprobs, jsonscan.True)) ||
		is(fReturnLogprob, jsonscan.True) && start.Kind == jsonscan.Number &&
			string(body[start.At.Start:start.At.End]) == "0"
}

// count is the first of the values that is a number above zero; 0 when none is. Fractions are truncated and numbers
// clamped to 2^31-1, so that sums of counts cannot overflow.
func count(body []byte, values ...jsonscan.Value) int {
	for _, v := range values {
		if v.Kind != jsonscan.Number {
			continue
		}
		if n := wholePart(body[v.At.Start:v.At.End]); n > 0 {
			return n
		}
	}
	return 0
}

// maxCount is the largest count.
const maxCount = math.MaxInt32

// wholePart is a JSON number clamped to 0 and maxCount, without its fraction.
func wholePart(number []byte) int {
	n := 0
	for _, b := range number {
		switch {
		case b == '-':
			return 0
		case b >= '0' && b <= '9':
			n = min(n*10+int(b-'0'), maxCount)
		default: // a fraction or an exponent; rare
			f, err := strconv.ParseFloat(string(number), 64)
			if err != nil || f > maxCount {
				f = maxCount // ParseFloat fails on JSON numbers by range only
			}
			return int(math.Trunc(f))
		}
	}
	return n
}
