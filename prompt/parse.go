package prompt

import (
	"math"
	"strconv"

	"github.com/warmpath/warmpath/prompt/jsonscan"
)

// Prompt is what the router needs of one request. It holds no prompt text; the spans are offsets into the body it was
// parsed from. Of a member given twice the last one counts, as in encoding/json and in Python.
type Prompt struct {
	API     API
	Model   string        // "" when absent
	ModelAt jsonscan.Span // the value, quotes included

	Stream       bool // the answer is asked for as a stream
	StreamAt     jsonscan.Span
	IncludeUsage bool // stream_options.include_usage is true: the client itself wants usage in the stream

	MaxTokens int // the client's bound on the answer, 0 when not stated; at most 2^31-1
	N         int // answers asked for, at least 1; at most 2^31-1

	TextBytes int // bytes of decoded prompt text, plus the JSON of tools; media not counted
	TokenIDs  int // prompt tokens given as ids

	Session          string // explicit conversation id, "" when there is none
	SessionFrom      string // header or field it was found in, as the Source names it
	PreviousResponse string // previous_response_id, "" when there is none
	User             string // id of the user, "" when there is none or there is a Session; it says little about the conversation
	Parent           string // explicit id of the conversation that started this one, "" when there is none

	InsertAt int  // offset just after the body's opening brace; 0 when the body is no object
	Empty    bool // the object has no members

	StreamOptionsAt jsonscan.Span
	usageAt         jsonscan.Span // value of stream_options.include_usage
	usageInsertAt   int           // offset just after the opening brace of stream_options, 0 when it is no object
	usageAlone      bool          // stream_options has no members
	fields          [numEditable]jsonscan.Span
	earlier         []occurrence // of members that are given more than once, in the order of the body; nil as a rule
}

// occurrence is a place of a member that is given again later.
type occurrence struct {
	field field
	at    jsonscan.Span
}

// maxEarlier bounds how many earlier occurrences of members a body may have.
const maxEarlier = 64

// amount is what one top-level member adds to the prompt.
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
	chain   *Chain                         // to be filled, nil for none
	mem     *Memory                        // of values seen before, nil for none

	earlier []occurrence
	crowded bool // there are more than maxEarlier

	insertAt, members          int
	usageInsertAt, usageFields int // of stream_options
}

// Parse scans a body once and returns what the router needs of it. header returns a request header by its canonical
// name ("" when absent; http.Header.Get does) and may be nil. The errors are ErrEmpty, ErrNotJSON (a *SyntaxError),
// ErrNotObject, ErrRepeated and ErrField (a *FieldError), for errors.Is. A field with a wrong type is an error only where the
// router itself depends on it (model, stream); the rest is the engine's to judge.
func (p *Parser) Parse(api API, body []byte, header func(string) string) (Prompt, error) {
	var s scan
	s.parser, s.api = p, api
	return s.parse(body, header)
}

func (s *scan) parse(body []byte, header func(string) string) (Prompt, error) {
	if err := s.body(body); err != nil {
		return Prompt{API: s.api, N: 1}, err
	}
	if s.crowded {
		return Prompt{API: s.api, N: 1}, ErrRepeated
	}
	out := s.prompt(body)
	if err := s.judge(); err != nil {
		return out, err
	}
	out.speaks(s.parser.identify(body, &s.ids, header))
	return out, nil
}

// Peek looks at a body whose format the router does not know. When it is a JSON object, the model, the session and the
// places of members are found as by Parse; else only what headers say. It never fails.
func (p *Parser) Peek(body []byte, header func(string) string) Prompt {
	var s scan
	s.parser = p
	out := Prompt{N: 1}
	if first := jsonscan.FirstByte(body); first == '{' && s.body(body) == nil && !s.crowded {
		out = s.prompt(body)
	} else {
		s.ids = [maxBodySources]jsonscan.Value{}
	}
	out.speaks(p.identify(body, &s.ids, header))
	return out
}

// speaks takes in who is speaking.
func (p *Prompt) speaks(s speaker) {
	p.Session, p.SessionFrom, p.User, p.Parent = s.session, s.from, s.user, s.parent
}

// judge reports fields the router depends on that have a wrong type. Null is as good as absent.
func (s *scan) judge() error {
	if v := s.fields[fModel]; v.Kind != jsonscan.Bad && v.Kind != jsonscan.String && v.Kind != jsonscan.Null {
		return &FieldError{Field: "model", Want: "a string", Got: v.Kind}
	}
	if v := s.fields[fStream]; v.Kind != jsonscan.Bad && v.Kind != jsonscan.True && v.Kind != jsonscan.False && v.Kind != jsonscan.Null {
		return &FieldError{Field: "stream", Want: "a boolean", Got: v.Kind}
	}
	return nil
}

// prompt puts together what was found.
func (s *scan) prompt(body []byte) Prompt {
	p := Prompt{
		API: s.api, N: max(1, count(body, s.fields[fN], s.subs[sSamplingN])),
		InsertAt: s.insertAt, Empty: s.members == 0,
		StreamAt: s.fields[fStream].At, StreamOptionsAt: s.fields[fStreamOptions].At,
		IncludeUsage: s.subs[sIncludeUsage].Kind == jsonscan.True,
		earlier:      s.earlier,
		usageAt:      s.subs[sIncludeUsage].At, usageInsertAt: s.usageInsertAt, usageAlone: s.usageFields == 0,
	}
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
	for f := range s.amounts {
		p.TextBytes += s.amounts[f].text
		p.TokenIDs += s.amounts[f].ids
	}
	for f := range p.fields {
		p.fields[f] = s.fields[f].At
	}
	return p
}

// count is the first of the values that is a number above zero, 0 when none is. Fractions are cut, larger numbers
// than 2^31-1 become that, so that sums of counts cannot overflow.
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

// maxCount is the largest count the router works with.
const maxCount = math.MaxInt32

// wholePart is a JSON number cut to a count: 0 for negative ones, maxCount for those above it.
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
