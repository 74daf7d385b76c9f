package engine

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"github.com/warmpath/warmpath/fleet"
)

// Bounds on an engine's figures.
const (
	maxModels    = 4096
	maxNameBytes = 512
	maxRanks     = 4096
	maxAdapters  = 4096
	maxDetail    = 120
)

// readAlive reads the answer to a liveness question. An engine that requires a key, or does not have the path, is
// alive; 429 means busy, not dead; engines answer 503 while they start, and SGLang's /ready while generation is paused.
func readAlive(a Answer, r *fleet.Report) {
	switch {
	case a.Status < 400, a.Status == 401, a.Status == 403, a.Status == 429, Missing(a.Status):
		r.Healthy, r.Detail = true, ""
	case a.Status == 503:
		r.Healthy, r.Detail = false, "starting, stopping or paused: "+complaint(a)
	default:
		r.Healthy, r.Detail = false, complaint(a)
	}
}

// sleep says that the engine takes requests and computes none of them. The first reason stays.
func sleep(r *fleet.Report, how fleet.Sleep, why string) {
	if !r.Sleep.Waits() {
		r.Sleep, r.Rests = how, why
	}
}

// complaint is a short description of a failed answer, for display: "503 Loading model".
func complaint(a Answer) string {
	var body struct {
		Error   json.RawMessage `json:"error"`
		Message string          `json:"message"`
	}
	text := ""
	if json.Unmarshal(a.Body, &body) == nil {
		var nested struct {
			Message string `json:"message"`
		}
		switch {
		case json.Unmarshal(body.Error, &nested) == nil && nested.Message != "":
			text = nested.Message
		case json.Unmarshal(body.Error, &text) == nil:
		default:
			text = body.Message
		}
	} else if len(a.Body) > 0 && a.Body[0] != '<' && a.Body[0] != '{' {
		text = string(a.Body[:min(len(a.Body), 4*maxDetail)])
	}
	text = strings.Join(strings.FieldsFunc(text, func(c rune) bool {
		return unicode.IsSpace(c) || !unicode.IsPrint(c)
	}), " ")
	if len(text) > maxDetail {
		text = strings.ToValidUTF8(text[:maxDetail], "") + "…"
	}
	if text == "" {
		return strconv.Itoa(a.Status)
	}
	return strconv.Itoa(a.Status) + " " + text
}

// useful returns an error for an answer other than a success.
func useful(a Answer) error {
	if a.Status < 200 || a.Status > 299 {
		return fmt.Errorf("engine: GET %s: %s", a.Path, complaint(a))
	}
	return nil
}

// crowded reports whether reading an answer would take many times its own memory: its values are next to nothing. A
// model takes 60 bytes or more where a list has thousands, any member 8. Text does not count: llama-server's /slots may
// hold prompts.
func crowded(body []byte) bool {
	const fewObjects, objectBytes, fewValues, valueBytes = 1 << 14, 64, 1 << 15, 8
	objects, values, text := 0, 0, false
	for i := 0; i < len(body); i++ {
		switch b := body[i]; {
		case text && b == '\\':
			i++
		case b == '"':
			text = !text
		case text:
		case b == '{' || b == 'n': // of null
			objects++
		case b == ',':
			values++
		}
	}
	return objects > fewObjects+len(body)/objectBytes || values > fewValues+len(body)/valueBytes
}

// decode parses a JSON answer into v. Members of an unexpected type keep their value: what an engine adds or changes
// must not make the rest unreadable.
func decode(a Answer, v any) error {
	if err := useful(a); err != nil {
		return err
	}
	if crowded(a.Body) {
		return fmt.Errorf("engine: GET %s: the answer has more values than one of its length can have", a.Path)
	}
	err := json.Unmarshal(a.Body, v)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field != "" {
		err = nil
	}
	if err != nil {
		return fmt.Errorf("engine: GET %s: %w", a.Path, err)
	}
	return nil
}

// modelList is the answer to /v1/models: OpenAI's shape with max_model_len and parent (vLLM 0.32.0, SGLang 0.5.23),
// or with aliases and meta.n_ctx, which is the context of one slot (llama.cpp 0.7.0).
type modelList struct {
	Data []struct {
		ID      string   `json:"id"`
		OwnedBy string   `json:"owned_by"`
		Parent  string   `json:"parent"`
		Context float64  `json:"max_model_len"`
		Aliases []string `json:"aliases"`
		Meta    struct {
			Context float64 `json:"n_ctx"`
		} `json:"meta"`
	} `json:"data"`
}

func readModels(a Answer, r *fleet.Report) error {
	var list modelList
	if err := decode(a, &list); err != nil {
		return err
	}
	if list.Data == nil {
		return fmt.Errorf("engine: GET %s: no list of models", a.Path)
	}
	models := newModelSet()
	for _, m := range list.Data {
		context := tokens(m.Context)
		if context == 0 {
			context = tokens(m.Meta.Context)
		}
		models.add(fleet.Model{ID: m.ID, Parent: m.Parent, ContextTokens: context})
		for _, alias := range m.Aliases {
			models.add(fleet.Model{ID: alias, Parent: m.Parent, ContextTokens: context})
		}
	}
	if err := models.named(a, len(list.Data)); err != nil {
		return err
	}
	r.Models, r.MoreModels = models.all, models.more
	return nil
}

// readResident reads a list of models that says of each whether it is in memory: that of llama.cpp's router mode,
// status.value unloaded, loading, loaded, downloading or sleeping (tools/server/README.md, "Using multiple models"), of
// LM Studio, data[].state loaded or not-loaded (its REST API, GET /api/v0/models), or of llama-swap, running[].state
// ready, starting, stopping (llama-swap, GET /running). A list that does not say so leaves the report as it is.
func readResident(a Answer, r *fleet.Report) error {
	var list struct {
		Data []struct {
			ID      string   `json:"id"`
			Aliases []string `json:"aliases"`
			State   string   `json:"state"`
			Status  struct {
				Value string `json:"value"`
			} `json:"status"`
		} `json:"data"`
		Running []struct {
			Model string `json:"model"`
			State string `json:"state"`
		} `json:"running"`
	}
	if err := decode(a, &list); err != nil {
		return err
	}
	told, resident := list.Running != nil, newModelSet()
	for _, m := range list.Data {
		state := cmp.Or(m.Status.Value, m.State)
		told = told || state != ""
		for _, name := range append([]string{m.ID}, m.Aliases...) {
			if state == "loaded" {
				resident.add(fleet.Model{ID: name})
			}
		}
	}
	for _, m := range list.Running {
		if m.State == "ready" {
			resident.add(fleet.Model{ID: m.Model})
		}
	}
	if told {
		inMemory(resident.all, r)
	}
	return nil
}

// inMemory reports the models in memory of an engine that loads them on demand. With none it dozes: the next request
// loads one.
func inMemory(models []fleet.Model, r *fleet.Report) {
	l := &fleet.LoadReport{Running: -1, Waiting: -1, KVUsage: -1, Loaded: make([]string, 0, len(models))}
	for _, m := range models {
		l.Loaded = append(l.Loaded, m.ID)
	}
	r.Sleep = fleet.Awake
	if len(models) == 0 {
		r.Sleep = fleet.Dozing
	}
	mergeLoad(r, l)
}

// modelSet collects the models of an engine's list.
type modelSet struct {
	all  []fleet.Model       // never nil: an engine without models says so
	has  map[string]struct{} // names in all
	more int                 // entries for which there was no room
}

func newModelSet() *modelSet { return &modelSet{all: []fleet.Model{}, has: map[string]struct{}{}} }

// add takes in a model, unless it is present, has no name that can be read, or there are too many.
func (s *modelSet) add(m fleet.Model) {
	if m.ID == "" || len(m.ID) > maxNameBytes || len(m.Parent) > maxNameBytes {
		return
	}
	if _, present := s.has[m.ID]; present {
		return
	}
	if len(s.all) >= maxModels {
		s.more++
		return
	}
	if m.Parent == m.ID {
		m.Parent = ""
	}
	s.has[m.ID] = struct{}{}
	s.all = append(s.all, m)
}

// named refuses a list of which no entry has a name that can be read: taken for an empty one, it would end the engine's
// models, and with them its traffic.
func (s *modelSet) named(a Answer, entries int) error {
	if entries > 0 && len(s.all) == 0 {
		return fmt.Errorf("engine: GET %s: a list of models without names", a.Path)
	}
	return nil
}

// tokens is a token count from a JSON number, 0 for an impossible value.
func tokens(f float64) int {
	n, ok := whole(f)
	if !ok {
		return 0
	}
	return n
}

// capContext limits the context of all models, if limit is known.
func capContext(models []fleet.Model, limit int) {
	for i := range models {
		if c := models[i].ContextTokens; limit > 0 && (c == 0 || c > limit) {
			models[i].ContextTokens = limit
		}
	}
}

func readVersion(a Answer, r *fleet.Report) error {
	var v struct {
		Version string `json:"version"`
	}
	if err := decode(a, &v); err != nil {
		return err
	}
	if v.Version == "" || len(v.Version) > maxNameBytes {
		return fmt.Errorf("engine: GET %s: no version", a.Path)
	}
	r.Version = v.Version
	return nil
}

// sums accumulates the figures of an engine's ranks, or takes those of one rank.
type sums struct {
	running, waiting int
	hasRunning       bool
	hasWaiting       bool
	usage            float64 // sum of shares
	usages           int
}

func (s *sums) addRunning(v float64) {
	if n, ok := whole(v); ok {
		s.running, s.hasRunning = s.running+n, true
	}
}

func (s *sums) addWaiting(v float64) {
	if n, ok := whole(v); ok {
		s.waiting, s.hasWaiting = s.waiting+n, true
	}
}

func (s *sums) addUsage(v float64) {
	if v >= 0 && v <= 1.5 { // slightly above 1 occurs when blocks are shared; above that it is not a share
		s.usage, s.usages = s.usage+min(v, 1), s.usages+1
	}
}

// report is the load report, nil without figures. The ranks' caches have equal size, so the usage of the whole is the
// mean.
func (s *sums) report() *fleet.LoadReport {
	if !s.hasRunning && !s.hasWaiting && s.usages == 0 {
		return nil
	}
	l := &fleet.LoadReport{Running: -1, Waiting: -1, KVUsage: -1}
	if s.hasRunning {
		l.Running = s.running
	}
	if s.hasWaiting {
		l.Waiting = s.waiting
	}
	if s.usages > 0 {
		l.KVUsage = s.usage / float64(s.usages)
	}
	return l
}

// mergeLoad merges a load report into that of an earlier answer of the same round.
func mergeLoad(r *fleet.Report, l *fleet.LoadReport) {
	if l == nil {
		return
	}
	if r.Load == nil {
		r.Load = l
		return
	}
	if l.Running >= 0 {
		r.Load.Running = l.Running
	}
	if l.Waiting >= 0 {
		r.Load.Waiting = l.Waiting
	}
	if l.KVUsage >= 0 {
		r.Load.KVUsage = l.KVUsage
	}
	if l.Loaded != nil {
		r.Load.Loaded = l.Loaded
	}
	if l.Adapters != nil {
		r.Load.Adapters = l.Adapters
	}
	if l.Work != 0 {
		r.Load.Work = l.Work
	}
}

// rankOf is the rank in a label; -1 for none.
func rankOf(label []byte) int {
	n := 0
	for _, c := range label {
		if c < '0' || c > '9' || n >= maxRanks {
			return -1
		}
		n = n*10 + int(c-'0')
	}
	if len(label) == 0 || n >= maxRanks {
		return -1
	}
	return n
}

// concerns reports whether a rank's figure counts for the part: all do for the whole engine, and one without a rank
// counts for each. Ranks count from the engine's first.
func concerns(part fleet.Part, rank int) bool {
	return part.Kind != fleet.Rank || rank < 0 || rank == part.Index
}

// wholeOnly is Supports for engines whose parts cannot be addressed.
func wholeOnly(k fleet.Kind, part fleet.Part, why string) error {
	if part.Kind == fleet.WholeEngine {
		return nil
	}
	parts := "ranks"
	if part.Kind == fleet.Slot {
		parts = "slots"
	}
	return fmt.Errorf("engine: a request cannot be sent to %s of %s: %s; leave out %s", part, k, why, parts)
}

// checkIndex rejects impossible ranks and slots.
func checkIndex(k fleet.Kind, part fleet.Part) error {
	if part.Index < 0 || part.Index >= maxRanks {
		return fmt.Errorf("engine: %s: %s: the index must be from 0 to %d", k, part, maxRanks-1)
	}
	return nil
}
