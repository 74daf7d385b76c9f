package admin

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/warmpath/warmpath/fleet"
)

// trouble is one thing that is wrong now, in words, with what to do about it.
type trouble struct {
	// bad: requests fail or soon may; warn: slower than it could be; note: worth knowing
	Severity string `json:"severity"`
	Endpoint string `json:"endpoint,omitempty"`
	What     string `json:"what"`
	Do       string `json:"do"`
}

const (
	bad  = "bad"
	warn = "warn"
	note = "note"
)

// Thresholds of troubles.
const (
	enoughRequests = 50  // before shares are judged
	settled        = 30  // seconds from the start before an endpoint without a report is trouble
	kvFull         = .97 // of an engine's KV cache
	failing        = .01 // share of the last minute's requests
	lowHits        = .05 // of prompt tokens, though conversations return
	uneven         = 2.0 // busiest endpoint's work in means
	sooner         = .15 // that a shadow's first tokens are predicted to come sooner
	alike          = 4   // endpoints with the same trouble that are told one by one
	judged         = 6   // points that shares are judged by: the last minute
)

// listTroubles lists the troubles in everything that the page shows, the worst first. It makes no requests.
func listTroubles(endpoints []endpointView, st *statsView, past []point, replicas json.RawMessage) []trouble {
	var all []trouble
	add := func(severity, endpoint, do, what string, args ...any) {
		all = append(all, trouble{severity, endpoint, fmt.Sprintf(what, args...), do})
	}
	readyTrouble(endpoints, st, add)
	for i := range endpoints {
		endpointTrouble(&endpoints[i], st, add)
	}
	undeclaredTrouble(endpoints, add)
	aloneTrouble(endpoints, st, add)
	unusedTrouble(st, add)
	trafficTrouble(endpoints, st, past[max(0, len(past)-judged):], add)
	requestTrouble(st, add)
	configTrouble(st.Config, add)
	for _, c := range st.concerns {
		add(warn, "", c.Do, "%s", c.What)
	}
	replicaTrouble(replicas, add)
	all = merge(all)
	slices.SortStableFunc(all, func(a, b trouble) int { return rank(a.Severity) - rank(b.Severity) })
	return all
}

func rank(severity string) int { return slices.Index([]string{bad, warn, note}, severity) }

type teller func(severity, endpoint, do, what string, args ...any)

// readyTrouble is about a router that serves nothing.
func readyTrouble(endpoints []endpointView, st *statsView, add teller) {
	if len(endpoints) == 0 {
		add(bad, "", "Give serve the URL of an engine, or name a source under discovery in the configuration. "+
			"Where there is a source, the log says why it has named none.",
			"There is no endpoint: every request is refused.")
	} else if !st.Ready {
		add(bad, "", "Look at the endpoints below. Until one is up, requests get an error.",
			"The router is not ready: %s.", cmp.Or(st.Why, "no endpoint is up"))
	}
}

// unusedTrouble is about settings for models that nothing serves.
func unusedTrouble(st *statsView, add teller) {
	if len(st.Unserved) > 0 && st.Ready && st.UptimeSeconds > settled {
		add(warn, "",
			"Correct the alias (models.aliases), or start an engine with the model: until then such requests get 404.",
			"No engine serves what an alias stands for: %s.",
			strings.Join(st.Unserved[:min(len(st.Unserved), alike)], "; "))
	}
	if len(st.Idle) > 0 && st.Ready && st.UptimeSeconds > settled {
		add(note, "", "Correct the pattern, or take it out of the configuration.",
			"No model that is served is matched by %s of models.settings.",
			strings.Join(st.Idle[:min(len(st.Idle), alike)], ", "))
	}
}

// requestTrouble is about requests that the configuration refuses or misleads.
func requestTrouble(st *statsView, add teller) {
	if p := st.Foreign; p != nil {
		add(warn, "", fmt.Sprintf("Add hosts: [%q] to the configuration (WARMPATH_HOSTS=%s) if that name is yours: "+
			"a proxy in front passes it on. Otherwise a page tries to use your engines.", p.Name, p.Name),
			"Requests of a browser are refused, since the name is not known here: %q.", p.Name)
	}
	if m := st.Misnamed; m != nil {
		add(warn, m.Endpoint, "Correct models at the endpoint, or start the engine with that model.",
			"Its engine does not have a model that it is declared with: %s. Each such request is sent there in vain.",
			m.Model)
	}
	if u := st.Unsalted; u != nil {
		add(warn, u.Endpoint,
			"Set tenants.salt_required: true to refuse such requests (WARMPATH_TENANTS_SALT_REQUIRED=true), "+
				"or serve this API by an engine that has a salt: see docs/tenants.md.",
			"Tenants share this engine's cache although tenants.cache_salt is on: it takes no salt in the API %s. "+
				"They can find out by timing what others sent.", u.API)
	}
}

// configTrouble is about a configuration that is not in force.
func configTrouble(c *Running, add teller) {
	if c == nil {
		return
	}
	if c.Fault != "" {
		add(bad, "",
			"Run warmpath check -c on the file, correct it, and reload. The earlier configuration stays in force.",
			"The latest configuration was rejected: %s.", c.Fault)
	}
	if len(c.Restart) > 0 {
		add(note, "", "Restart the router when that suits you.", "Changed settings wait for a restart: %s.",
			strings.Join(c.Restart, ", "))
	}
}

func endpointTrouble(e *endpointView, st *statsView, add teller) {
	if e.Gone {
		return
	}
	why := ""
	if e.Detail != "" {
		why = ": " + e.Detail
	}
	again := ""
	if e.UntilSeconds != nil {
		again = fmt.Sprintf(" It is tried again in %.0f s.", max(1, *e.UntilSeconds))
	}
	switch {
	case e.Sleep == fleet.Asleep.String():
		add(warn, e.Name,
			"Wake it, or take it out of the configuration. It gets requests again at the next probe after that.",
			"Asleep: it gets no requests%s.", why)
		return
	case e.Sleep == fleet.Paused.String():
		add(warn, e.Name, "Resume it. It gets requests again at the next probe after that.",
			"Paused: it gets no requests%s.", why)
		return
	case e.Sleep == fleet.Dozing.String():
		add(note, e.Name, "Nothing: the next request wakes it, and waits until its model is loaded.",
			"Asleep since it had nothing to do: its cache is empty.")
	}
	switch e.State {
	case "down":
		add(bad, e.Name, "See whether the engine runs and answers at its URL: warmpath doctor "+e.URL+
			". It is taken back by itself.", "Down%s.", why)
	case "ejected":
		add(bad, e.Name, "Read the engine's own log for the time of the first failure."+again,
			"Ejected after failures%s.", why)
	case "busy":
		add(warn, e.Name, "The engine refuses work with 429 or 503, or answers nothing while it computes. "+
			"Raise its limits, or add an engine."+again, "Busy%s.", why)
	case "unknown":
		if st.UptimeSeconds > settled {
			add(warn, e.Name, "See whether this machine reaches "+e.URL+".", "No answer to a health check yet.")
		}
	}
	modelTrouble(e, st, add)
	switch {
	case e.Draining && e.Load.Requests == 0:
		add(note, e.Name, "Stop or update it now, or press Undrain to bring it back.", "Drained: nothing runs there.")
	case e.Draining:
		add(note, e.Name, "Wait, or press Undrain to bring it back.", "Draining; requests still there: %d.",
			e.Load.Requests)
	case e.Weight == 0:
		add(note, e.Name, "Give it a weight above 0 to send traffic there.", "Weight 0: it gets no new requests.")
	}
	if u := e.Engine.KVUsage; u != nil && *u >= kvFull {
		add(warn, e.Name,
			"Give the engine more memory for its cache, allow fewer requests at a time, or add an engine.",
			"The KV cache is full: the engine evicts conversations or preempts requests.")
	}
	if s := e.Served; s != nil && s.Requests >= enoughRequests && s.HitRate == nil {
		add(warn, e.Name, cachedFlag(e.Kind), "It does not report cached tokens, so the hit rate is estimated.")
	}
	if e.CacheLosses > 0 && st.UptimeSeconds > 0 {
		add(note, e.Name,
			"If it was restarted or sent to sleep, nothing is to be done. Otherwise look why its process ends.",
			"Losses of its cache: %d.", e.CacheLosses)
	}
}

// modelTrouble is about what an endpoint says that it serves.
func modelTrouble(e *endpointView, st *statsView, add teller) {
	switch {
	case e.State != "up" || len(e.Models) > 0 || st.UptimeSeconds <= settled:
	case e.Guarded:
		add(warn, e.Name, "Give the router its key (api_key, api_key_env or api_key_file at the endpoint).",
			"It lists its models only to those who have its key: the router knows neither them nor its load.")
	case e.Kind == string(fleet.KindOther):
		if e.Served != nil && e.Served.Requests > e.Served.Failed {
			break
		}
		add(warn, e.Name, "If no engine is there, correct its URL. Otherwise name its models (models at the endpoint).",
			"Perhaps no engine: its kind is not known, it lists no models, and it has answered no request well.")
	case e.Kind != string(fleet.KindUnknown): // one of another kind may take any name
		add(warn, e.Name, "Load a model there, or name its models in the configuration (models at the endpoint).",
			"It lists no models: requests that name one do not go there, and get 404 where no other engine has it.")
	}
	if e.MoreModels > 0 {
		add(warn, e.Name, "Name those that are wanted (models at the endpoint).",
			"It lists more models than are read: requests for %d of them get 404.", e.MoreModels)
	}
}

// undeclaredTrouble is about engines with more ranks or slots than are endpoints: the engine then chooses one without
// knowing which has the conversation's cache.
func undeclaredTrouble(endpoints []endpointView, add teller) {
	declared, told := map[string]int{}, map[string]bool{}
	for i := range endpoints {
		if e := &endpoints[i]; e.Part != "" && !e.Gone {
			declared[e.URL]++
		}
	}
	for i := range endpoints {
		e := &endpoints[i]
		if e.Gone || told[e.URL] {
			continue
		}
		n := declared[e.URL]
		switch slots := e.Kind == string(fleet.KindLlamaCpp) && e.Part == ""; {
		case e.Engine.Ranks > max(n, 1):
			told[e.URL] = true
			add(warn, e.Name,
				fmt.Sprintf("Declare ranks: %d at its URL (URL,ranks=%d), so that a conversation stays at its rank.",
					e.Engine.Ranks, e.Engine.Ranks),
				"It has %d ranks, %d of them declared: it chooses one for each request itself.", e.Engine.Ranks, n)
		case n > 0 && e.Engine.SlotCache == fleet.SlotCacheCleared.String():
			told[e.URL] = true
			add(warn, e.Name,
				fmt.Sprintf("Start it with --parallel %d, which gives each slot a part of --ctx-size, or declare it "+
					"without slots.", n),
				"Its slots share one context and are emptied when a request begins in another one: a "+
					"conversation that is sent to its slot finds nothing there.")
		case slots && n == 0 && e.Engine.Slots > 1 && e.Engine.SlotCache == fleet.SlotCacheKept.String():
			told[e.URL] = true
			add(note, e.Name,
				fmt.Sprintf("Declare slots: %d at its URL (URL,slots=%d), so that a conversation finds its own slot.",
					e.Engine.Slots, e.Engine.Slots),
				"It has %d slots and chooses one for each request itself.", e.Engine.Slots)
		}
	}
}

// aloneTrouble is about several engines of which no two serve the same name: there is nothing to choose. Often it is
// the same model under two names, such as two paths of a file.
func aloneTrouble(endpoints []endpointView, st *statsView, add teller) {
	if len(st.Aliases) > 0 || st.UptimeSeconds <= settled {
		return
	}
	at, engines, names := map[string]string{}, map[string]bool{}, []string{}
	for i := range endpoints {
		e := &endpoints[i]
		if e.Gone {
			continue
		}
		if e.State != "up" || len(e.Models) == 0 {
			return // it may have any
		}
		engines[e.URL] = true
		for _, m := range e.Models {
			switch other, known := at[m]; {
			case !known:
				at[m], names = e.URL, append(names, m)
			case other != e.URL:
				return
			}
		}
	}
	if len(engines) < 2 {
		return
	}
	add(note, "", "If they are one model under several names, unite these by an alias (models.aliases), or start the "+
		"engines with one name. Otherwise nothing is to be done.",
		"No two engines serve the same model, so there is nothing to choose: %s.",
		strings.Join(names[:min(len(names), alike)], ", "))
}

// cachedFlag is how a kind of engine is made to report cached tokens.
func cachedFlag(kind string) string {
	switch kind {
	case "vllm":
		return "Start vLLM with --enable-prompt-tokens-details."
	case "sglang":
		return "Start SGLang with --enable-cache-report."
	}
	return "warmpath doctor says whether the engine has a flag for it."
}

func trafficTrouble(endpoints []endpointView, st *statsView, past []point, add teller) {
	var requests, failed uint64
	var hits, balance, ours, theirs []float64
	other := ""
	limited, limit := uint64(0), ""
	for _, p := range past {
		requests, failed = requests+p.Requests, failed+p.Failed
		if limited += p.Limited; p.Limit != "" {
			limit = p.Limit
		}
		hits, balance = push(hits, p.HitRate), push(balance, p.Balance)
		if len(p.Policies) > 1 && p.Policies[0].TTFT != nil && p.Policies[1].TTFT != nil {
			ours, theirs, other = append(ours, *p.Policies[0].TTFT), append(theirs, *p.Policies[1].TTFT),
				p.Policies[1].Policy
		}
	}
	if requests >= enoughRequests {
		if float64(failed) > failing*float64(requests) {
			add(bad, "", "Filter the decisions below by an outcome such as engine_error, and read the engine's log.",
				"%.1f %% of the last minute's requests failed.", 100*float64(failed)/float64(requests))
		}
		if len(hits) > 0 && mean(hits) < lowHits && st.SessionHits > st.SessionMisses {
			add(warn, "", "See whether prefix caching is on: warmpath doctor URL. "+
				"Clients that change the beginning of each prompt also cause this.",
				"Conversations return, but engines find only %.1f %% of prompt tokens in their caches.", 100*mean(hits))
		}
		if upAll(endpoints) && len(balance) == judged && mean(balance) > uneven && len(endpoints) > 2 {
			add(warn, "", "Normal with few long conversations. Otherwise compare policies: warmpath policies, serve "+
				"--shadow NAME.", "Uneven: the busiest endpoint did %.1f times the mean work over the last minute.",
				mean(balance))
		}
	}
	if len(ours) == judged && mean(theirs) < (1-sooner)*mean(ours) {
		add(note, "", "Look at warmpath explain --shadow over a whole day before you change the policy.",
			"By the router's model %s would have brought the first token %.0f %% sooner in the last minute.",
			other, 100*(1-mean(theirs)/mean(ours)))
	}
	if limited > 0 {
		add(warn, "", "warmpath explain --reason refused has each with its tenant. "+
			"Raise the limit, add an engine, or let the client send less.",
			"%d of the last minute's requests were refused by limits, lately most by %s.", limited, limit)
	}
	queued := 0
	for i := range endpoints {
		queued += endpoints[i].Load.Queued
	}
	if queued > 0 {
		add(note, "", "A short queue is normal at peaks. If it stays, add an engine.",
			"Requests in the router's queue: %d.", queued)
	}
	if st.Held > 0 {
		add(note, "",
			"Normal at peaks: each waits so that others keep their cache. If it stays, add an engine: docs/agents.md.",
			"Held turns: %d. The caches have no room for all sessions under way%s.", st.Held, needs(endpoints, st))
	}
	if st.DoubleFinished > 0 {
		add(note, "", "Please report it, with the log. Traffic is not affected.",
			"Requests that were concluded twice, a fault of this program: %d.", st.DoubleFinished)
	}
}

// needs says what the sessions under way need of the caches, those that are held included.
func needs(endpoints []endpointView, st *statsView) string {
	set, room := st.HeldTokens, int64(0)
	for i := range endpoints {
		set, room = set+endpoints[i].WorkingSet, room+endpoints[i].WorkingRoom
	}
	if room == 0 {
		return ""
	}
	return fmt.Sprintf(", which need %.0f %% of them", 100*float64(set)/float64(room))
}

// upAll reports whether every endpoint takes traffic: only then is uneven work worth a word.
func upAll(endpoints []endpointView) bool {
	return !slices.ContainsFunc(endpoints, func(e endpointView) bool {
		return e.State != "up" || e.Draining || e.Weight == 0
	})
}

func push(to []float64, x *float64) []float64 {
	if x != nil {
		to = append(to, *x)
	}
	return to
}

func mean(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}

// replicasView is what is read of the answer of GET /admin/replicas.
type replicasView struct {
	Problem  string
	Unheard  string
	Strange  string
	Learning bool
	Routers  int // that there should be
	Peers    []struct {
		Router  string
		Synced  bool
		Differs string
	}
	Kept struct {
		Problem string
		Dropped uint64
	}
}

// replicaTrouble reads what GET /admin/replicas answers.
func replicaTrouble(answer json.RawMessage, add teller) {
	var r replicasView
	if len(answer) == 0 || json.Unmarshal(answer, &r) != nil {
		return
	}
	unheardTrouble(&r, add)
	if r.Kept.Problem != "" {
		add(warn, "", "Requests are served as before; what waits is written when the server takes it. See whether "+
			"Redis is full, read-only or away.", "What is learnt is not kept for a restart of all routers: %s.",
			r.Kept.Problem)
	}
	if r.Kept.Dropped > 0 {
		add(note, "", "They are written again after their next turn.",
			"%d conversations were not kept, since too many waited for Redis.", r.Kept.Dropped)
	}
	for _, p := range r.Peers {
		switch {
		case p.Differs != "":
			add(warn, "", "Give all routers of the fleet the same policy and settings.",
				"Router %s is configured otherwise: %s.", p.Router, p.Differs)
		case !p.Synced:
			add(note, "", "Wait a moment. If it stays, look at that router's log.",
				"Router %s has not told its requests yet.", p.Router)
		}
	}
}

// unheardTrouble is about routers that do not hear each other.
func unheardTrouble(r *replicasView, add teller) {
	switch {
	case r.Problem != "" && len(r.Peers) > 0:
		add(note, "", "See whether DNS or Redis answers. What the routers below tell counts as before.",
			"Not all other routers may be heard: %s.", r.Problem)
	case r.Problem != "":
		add(warn, "", "Each router decides for itself until this is mended. See whether the peers' addresses or "+
			"Redis can be reached.", "Other routers cannot be heard: %s.", r.Problem)
	}
	if r.Learning {
		add(note, "", "Wait: it becomes ready by itself.", "This router is learning from another one.")
	}
	if r.Strange != "" {
		add(warn, "", "Run the same release with one peers.secret everywhere, and set the clocks.",
			"Another router is there: %s.", r.Strange)
	}
	if len(r.Peers) == 0 && r.Problem == "" && r.Strange == "" && !r.Learning {
		add(note, "", "If there should be others, see whether they run and have the same peers.fleet and peers.secret.",
			"No other router of the fleet is heard.")
	}
	if heard := len(r.Peers) + 1; heard < r.Routers {
		add(warn, "", "See whether the others run and can be reached. One that has ended for good counts no longer "+
			"after five minutes.",
			"%d of %d routers hear each other, and tenants have as large a part of their limits.", heard, r.Routers)
	}
	if r.Unheard != "" && !r.Learning {
		add(note, "", "See whether a router runs there, and correct peers.routers if none should.",
			"Not all addresses in peers.routers are reached: %s.", r.Unheard)
	}
}

// merge joins a trouble that many endpoints share into one line, so that a fleet of hundreds fits a screen.
func merge(all []trouble) []trouble {
	same := map[string][]string{}
	kind := func(t *trouble) string {
		word, _, _ := strings.Cut(t.What, ":")
		return t.Severity + word
	}
	for i := range all {
		if all[i].Endpoint != "" {
			same[kind(&all[i])] = append(same[kind(&all[i])], all[i].Endpoint)
		}
	}
	out := []trouble{}
	told := map[string]bool{}
	for i := range all {
		t := all[i]
		names := same[kind(&t)]
		if t.Endpoint == "" || len(names) <= alike {
			out = append(out, t)
			continue
		}
		if told[kind(&t)] {
			continue
		}
		told[kind(&t)] = true
		t.What = fmt.Sprintf("%d endpoints, %s and others. %s", len(names), strings.Join(names[:2], ", "), t.What)
		t.Endpoint = ""
		out = append(out, t)
	}
	return out
}

func (a *Admin) troubles(w http.ResponseWriter, _ *http.Request) {
	now, st := a.c.Now(), a.viewStats()
	writeJSON(w, http.StatusOK, map[string]any{
		"troubles": listTroubles(a.views(nil), &st, a.c.Tally.since(now, 0), ask(a.c.Replicas, "/admin/replicas")),
	})
}
