package simreport

import (
	"fmt"
	"strconv"
)

func megabytes(bytes int64) string { return fmt.Sprintf("%.1f", float64(bytes)/1e6) }

func whole(x float64) string   { return fmt.Sprintf("%.0f", x) }
func percent(x float64) string { return fmt.Sprintf("%.1f", 100*x) }

func digits(n int, x float64) string { return strconv.FormatFloat(x, 'f', n, 64) }
