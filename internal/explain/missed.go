package explain

import (
	"fmt"

	"github.com/warmpath/warmpath/fleet"
)

// missed says in words why the prompt was not in the cache of the endpoint that got it.
func missed(v *Decision) string {
	m := v.Miss
	if m == nil {
		return ""
	}
	text := ""
	switch e := v.Endpoint; fleet.MissCause(m.Cause) {
	case fleet.MissNone:
		return ""
	case fleet.MissNew:
		return " Nothing of it is cached: no prompt that begins so is remembered."
	case fleet.MissTenant:
		return " Its beginning was last sent by another tenant, whose cache is kept apart."
	case fleet.MissAdapter:
		text = "the conversation was computed with another model or adapter"
		if m.Tokens == 0 || v.FirstTurn {
			return " Its beginning was last computed with another model or adapter, whose cache is another."
		}
	case fleet.MissPrefix:
		text = "the prompt differs from the conversation's last one " + place(m)
	case fleet.MissElsewhere:
		switch {
		case v.Home == "" || v.Home == e && v.FirstTurn:
			return " Its beginning is cached at another endpoint only."
		case v.Home == e:
			text = e + " has not computed the conversation: the last turn that it got failed, or was given up"
		default:
			text = fmt.Sprintf("%s has not computed the conversation: it was at %s", e, v.Home)
		}
	case fleet.MissRestarted:
		text = e + " has lost its cache since (a restart, sleep, or a reset)"
	case fleet.MissEvicted:
		text = e + " has evicted it"
		switch {
		case m.Unseen:
			text = e + " had it no longer, against what was expected: evicted, lost in a restart that was not " +
				"noticed yet, or kept apart by a salt or an adapter"
		case m.Work > 0:
			text += ": it has computed " + count(m.Work) + " tokens of other prompts since"
		}
	case fleet.MissUnclear:
		text = "it may be evicted or differ: the last prompt is not remembered, since it was at another router or " +
			"before a restart"
	}
	return fmt.Sprintf(" %s tokens that could be cached were not: %s.", count(m.Tokens), text)
}

// place is where a prompt begins to differ, without its text.
func place(m *Miss) string {
	switch {
	case m.From == 0 && m.In <= 1:
		return fmt.Sprintf("from its beginning (the first %s bytes, or tools and other settings)", count(m.To))
	case m.In > 0 && m.Until > m.In:
		return fmt.Sprintf("in message %d or %d, between bytes %s and %s", m.In, m.Until, count(m.From), count(m.To))
	case m.In > 0:
		return fmt.Sprintf("in message %d, between bytes %s and %s", m.In, count(m.From), count(m.To))
	}
	return fmt.Sprintf("between bytes %s and %s", count(m.From), count(m.To))
}
