package explain

import (
	"fmt"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route"
)

// parted tells in a sentence why a request went to two endpoints, or why it did not.
func parted(v *Decision) string {
	if v.Split == nil {
		return ""
	}
	s := " "
	switch v.Leg {
	case fleet.LegPrefill.String():
		s += "It computes the prompt for another one, "
	case fleet.LegDecode.String():
		s += "It answers what another one computes the prompt of, "
	default:
		s += "It computes the prompt and answers, "
	}
	return s + becauseOf(v)
}

func becauseOf(v *Decision) string {
	costs := fmt.Sprintf("%s at one endpoint against %s at two", millis(v.Split.WholeMs), millis(v.Split.SplitMs))
	switch route.SplitWhy(v.Split.Why) {
	case route.SplitAlways:
		return "as all are split."
	case route.SplitLong:
		return "since the prompt is long enough."
	case route.SplitUncached:
		return "since too much of the prompt is not cached where it is decoded."
	case route.SplitSooner:
		return "which is predicted to cost less: " + costs + "."
	case route.SplitKept:
		return "with what was computed for one that failed."
	case route.WholeNever:
		return "as nothing is split."
	case route.WholeShort:
		return "since the prompt is short."
	case route.WholeWarm:
		return "since most of the prompt is cached there."
	case route.WholeSooner:
		return "which is predicted to cost less: " + costs + "."
	case route.WholeUnfit:
		return "since the protocol cannot split such a request."
	case route.WholePinned:
		return "since the request must go there."
	case route.WholeNoPrefiller:
		return "since no other one can compute the prompt now."
	case route.WholePrefillFails:
		return "since those that were to compute the prompt failed."
	}
	return "by the rule " + v.Split.Why + "."
}
