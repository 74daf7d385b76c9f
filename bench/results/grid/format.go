package grid

import "fmt"

// seconds shows ms with three digits.
func seconds(ms float64) string {
	switch s := ms / 1000; {
	case s >= 100:
		return fmt.Sprintf("%.0f", s)
	case s >= 10:
		return fmt.Sprintf("%.1f", s)
	case s >= 1:
		return fmt.Sprintf("%.2f", s)
	default:
		return fmt.Sprintf("%.3f", s)
	}
}

func plusMinus(i interval) string {
	if i.low == i.high { // one seed
		return seconds(i.mean)
	}
	return seconds(i.mean) + " ± " + seconds(i.high-i.mean)
}

func bracket(i interval) string {
	if i.low == i.high {
		return fmt.Sprintf("%.2f", i.mean)
	}
	return fmt.Sprintf("%.2f (%.2f..%.2f)", i.mean, i.low, i.high)
}

func whole(x float64) string   { return fmt.Sprintf("%.0f", x) }
func percent(x float64) string { return fmt.Sprintf("%.1f", 100*x) }
