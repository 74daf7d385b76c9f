package explain

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy/reasons"
	"github.com/warmpath/warmpath/route"
)

// why tells a decision in a sentence or two.
func why(v *Decision) string {
	e := v.Endpoint
	switch pick.Reason(v.Reason) {
	case Refused:
		return refusal(v)
	case pick.ReasonOnly:
		if v.Full > 0 {
			return "Only " + e + " has room for its session." + moved(v) + at(v, 0)
		}
		return "Only " + e + " could take it." + moved(v) + at(v, 0)
	case pick.ReasonPinned:
		return "The request named " + e + "." + at(v, 0)
	case pick.ReasonHolder:
		return e + " holds the response that the request refers to." + at(v, 0)
	case pick.ReasonSession:
		if v.Eligible == 1 && v.Full == 0 {
			return "The conversation is at " + e + ", and no other endpoint could take it." + at(v, 0)
		}
		return "The conversation is at " + e + " and stays there." + at(v, 0)
	case pick.ReasonWeighed:
		return "Of all who could answer and all who could compute the prompt for them, it costs least at " + e + "." +
			moved(v) + against(v)
	case reasons.Home:
		return "The conversation is at " + e + at(v, 1) + staying(v)
	case reasons.Leaves:
		return leaving(v)
	case reasons.Warm:
		return fmt.Sprintf("%s holds %s of its %s prompt tokens, more than most others.", e,
			count(v.Predicted.CachedTokens), count(v.Predicted.PromptTokens)) + moved(v) + against(v)
	case reasons.LeastTTFT:
		return "It costs least at " + e + "." + moved(v) + against(v)
	case reasons.Parent:
		return "The conversation that started this one is at " + e + ", which costs hardly more than the best." +
			at(v, 0) + against(v)
	case reasons.Spread:
		return "Several endpoints cost about the same. New conversations are spread among them, and this one goes to " +
			e + "." + moved(v) + against(v)
	case reasons.ConsistentHash:
		return e + " comes first in the conversation's order and has room."
	case reasons.ConsistentHashOverflow:
		return "Those before " + e + " in the conversation's order have no room."
	case reasons.Rendezvous:
		return e + " comes first in the conversation's order."
	case reasons.LeastRequests:
		return e + " has the fewest outstanding requests for its weight" + load(v) + "." + moved(v)
	case reasons.LeastTokens:
		return e + " has the fewest tokens to compute for its weight" + load(v) + "." + moved(v)
	case reasons.PowerOfTwo:
		return "Of two endpoints drawn by chance, " + e + " has less to compute" + load(v) + "." + moved(v)
	case reasons.Random:
		return e + " was drawn by chance." + moved(v)
	case reasons.CacheMatch:
		return "By the rule of " + v.Policy + ", " + e + " holds enough of the prompt." + moved(v) + at(v, 0)
	case reasons.Load:
		return "By the rule of " + v.Policy + ", " + e + " is the least loaded" + load(v) + "." + moved(v)
	case reasons.Hash:
		return "The hash of the conversation or of its prompt falls on " + e + "." + moved(v)
	case reasons.Score:
		return e + " has the best score by the rule of " + v.Policy + "." + moved(v) + at(v, 0)
	case reasons.RoundRobin:
		return "It was " + e + "'s turn." + moved(v)
	}
	return "Policy " + v.Policy + " chose " + e + " (" + v.Reason + ")." + at(v, 0)
}

// refusal says what the client was told, and which setting decided it.
func refusal(v *Decision) string {
	if v.Code == "no_endpoint" {
		return "No endpoint could take it: " + v.Error + "."
	}
	text := fmt.Sprintf("Refused with %d %s: %s.", v.Status, v.Code, v.Error)
	if v.Limit != "" {
		text += " The limit is set by " + v.Limit + "."
	}
	return text
}

// passed says which models of the alias were passed over.
func passed(v *Decision) string {
	var text strings.Builder
	for _, p := range v.Passed {
		text.WriteString(" " + p.Model + " comes before " + v.Model + ", and ")
		switch route.Passing(p.Why) {
		case route.PassedFull:
			text.WriteString("a new prompt waits " + millis(p.WaitMs) + " there.")
		case route.PassedRefuses:
			text.WriteString("its endpoints asked for less traffic.")
		case route.PassedEjected:
			text.WriteString("its endpoints failed lately.")
		case route.PassedTried:
			text.WriteString("the request failed there.")
		case route.PassedShort:
			text.WriteString("its context is too small.")
		case route.PassedLacks:
			text.WriteString("its endpoints do not have the path.")
		case route.PassedDown:
			text.WriteString("no endpoint of it can be used.")
		}
	}
	return text.String()
}

// at says what is expected at the chosen endpoint: a sentence of its own, or (form 1) the rest of one.
func at(v *Decision, form int) string {
	if !v.reckons() || v.Predicted.PromptTokens == 0 {
		if form == 1 {
			return "."
		}
		return ""
	}
	text := fmt.Sprintf("%s of %s prompt tokens are warm there, and %s.",
		count(v.Predicted.CachedTokens), count(v.Predicted.PromptTokens), due(v))
	if form == 1 {
		return ": " + text
	}
	return " " + text
}

// due says when the first token is expected, when the whole answer is where it has no tokens, or when a leg is done.
func due(v *Decision) string {
	in := millis(v.Candidates[0].TTFTMs)
	switch {
	case !v.generates():
		return "the answer is due in " + in
	case v.Leg == fleet.LegPrefill.String():
		return "the prompt is due to be computed in " + in
	case v.Leg == fleet.LegDecode.String():
		return "the first token is due " + in + " after the prompt is computed"
	default:
		return "the first token is due in " + in
	}
}

// staying says why the conversation does not leave.
func staying(v *Decision) string {
	if len(v.Candidates) < 2 || !v.reckons() {
		return ""
	}
	home, next := &v.Candidates[0], &v.Candidates[1]
	if next.CostMs < home.CostMs {
		return fmt.Sprintf(" %s would cost %s less, too little to leave for.",
			next.Endpoint, millis(home.CostMs-next.CostMs))
	}
	return fmt.Sprintf(" The next best, %s, would cost %s more.", next.Endpoint, millis(next.CostMs-home.CostMs))
}

// leaving says what the conversation's endpoint would have cost.
func leaving(v *Decision) string {
	for i := range v.Candidates {
		if c := &v.Candidates[i]; c.Endpoint == v.Home && i > 0 {
			if c.CostMs <= v.Candidates[0].CostMs {
				return fmt.Sprintf("The conversation's endpoint, %s, would cost %s, but has more than its fair share "+
					"(%s); %s is the best of the others.",
					v.Home, millis(c.CostMs), requests(c.Requests), v.Endpoint) + at(v, 0)
			}
			return fmt.Sprintf(
				"The conversation was at %s, where it would wait %s (%s) and cost %s in all, against %s at %s.",
				v.Home, millis(c.Terms.Wait), requests(c.Requests), millis(c.CostMs),
				millis(v.Candidates[0].CostMs), v.Endpoint)
		}
	}
	return "The conversation's endpoint is so busy that " + v.Endpoint + " answers sooner." + at(v, 0)
}

// moved says that the conversation had another endpoint, which is no longer among those that can take it.
func moved(v *Decision) string {
	if v.Home == "" || v.Home == v.Endpoint || !v.generates() {
		return ""
	}
	for i := range v.Candidates {
		if v.Candidates[i].Endpoint == v.Home {
			return " The conversation was at " + v.Home + "."
		}
	}
	if len(v.Candidates) < v.Eligible || v.Full > 0 {
		return " The conversation was at " + v.Home + "."
	}
	return " The conversation was at " + v.Home + ", which could not take it."
}

// against compares with the next best.
func against(v *Decision) string {
	if !v.reckons() {
		return ""
	}
	text := " T" + due(v)[1:]
	if len(v.Candidates) < 2 {
		return text + "."
	}
	next := &v.Candidates[1]
	switch d := next.CostMs - v.Candidates[0].CostMs; {
	case d >= 0.05:
		return text + fmt.Sprintf("; %s, the next best, would cost %s more.", next.Endpoint, millis(d))
	case d <= -2: // beyond what counts as equal, so that it was left out
		return text + fmt.Sprintf("; %s would cost %s less, but has its fair share of requests already.",
			next.Endpoint, millis(-d))
	default:
		return text + "; " + next.Endpoint + " would cost as much."
	}
}

// load says how loaded the chosen endpoint was.
func load(v *Decision) string {
	if len(v.Candidates) == 0 {
		return ""
	}
	c := &v.Candidates[0]
	return fmt.Sprintf(" (%s, %s tokens)", requests(c.Requests), count(int(c.PrefillTokens+c.DecodeTokens)))
}

func requests(n int) string {
	if n == 1 {
		return "1 request"
	}
	return count(n) + " requests"
}

// full says how many endpoints admission left out.
func full(v *Decision) string {
	switch v.Full {
	case 0:
		return ""
	case 1:
		return " One more could take it, but its cache has no room for the session (admission)."
	}
	return " " + count(v.Full) +
		" more could take it, but their caches have no room for the session (admission)."
}

// held says how long it was held before it was decided.
func held(v *Decision) string {
	if v.Observed.HeldMs == 0 {
		return ""
	}
	return " It was held " + millis(v.Observed.HeldMs) +
		" before, until the caches had room for its session or its time had come (admission)."
}

// queued says how long it waited at the router.
func queued(v *Decision) string {
	if v.Observed.QueuedMs == 0 {
		return ""
	}
	text := " It waited " + millis(v.Observed.QueuedMs) + " in the router's queue"
	if v.Observed.AtLimit {
		return text + ": its tenant had as many requests at engines as it may have running (running in " +
			"tenants.limits or tenants.each)."
	}
	if v.Observed.Greedy {
		return text + ": the engine was full, and its tenant had used more than twice what the others had."
	}
	return text + ", where shorter prompts go first."
}

// millis writes a time as people read it.
func millis(x float64) string {
	switch {
	case x >= 10_000:
		return strconv.FormatFloat(x/1000, 'f', 1, 64) + " s"
	case x == 0:
		return "0 ms"
	case x >= 10:
		return strconv.FormatFloat(x, 'f', 0, 64) + " ms"
	default:
		return strconv.FormatFloat(x, 'f', 1, 64) + " ms"
	}
}

// count writes a number with its thousands apart.
func count(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
