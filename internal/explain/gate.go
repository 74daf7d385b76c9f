package explain

import "fmt"

// gated says whether what is cached counted, where the policy has a gate for that.
func gated(v *Decision) string {
	if v.Gate == nil {
		return ""
	}
	counted, above := "did not count", "not above"
	if v.Gate.Active {
		counted, above = "counted", "above"
	}
	return fmt.Sprintf(
		" What is cached %s: the best match is %d tokens (%.3g %% of the prompt), %s the threshold of %.3g %%.",
		counted, v.Gate.Match, 100*v.Gate.Rate, above, 100*v.Gate.Threshold)
}
