package explain

import (
	"fmt"

	"github.com/warmpath/warmpath/fleet"
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
	switch fleet.SplitWhy(v.Split.Why) {
	case fleet.SplitAlways:
		return "as all are split."
	case fleet.SplitLong:
		return "since the prompt is long enough."
	case fleet.SplitUncached:
		return "since too much of the prompt is not cached where it is decoded."
	case fleet.SplitSooner:
		return "which is predicted to cost less: " + costs + "."
	case fleet.SplitKept:
		return "with what was computed for one that failed."
	case fleet.WholeNever:
		return "as nothing is split."
	case fleet.WholeShort:
		return "since the prompt is short."
	case fleet.WholeWarm:
		return "since most of the prompt is cached there."
	case fleet.WholeSooner:
		return "which is predicted to cost less: " + costs + "."
	case fleet.WholeUnfit:
		return "since the protocol cannot split such a request."
	case fleet.WholePinned:
		return "since the request must go there."
	case fleet.WholeNoPrefiller:
		return "since no other one can compute the prompt now."
	case fleet.WholePrefillFails:
		return "since those that were to compute the prompt failed."
	}
	return "by the rule " + v.Split.Why + "."
}
