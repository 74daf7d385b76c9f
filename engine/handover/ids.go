package handover

import (
	"bytes"

	"github.com/warmpath/warmpath/engine/rawjson"
)

// isIDs reports whether a value is a list of token ids that JSON allows: no number but 0 begins with a zero.
func isIDs(value []byte) bool {
	if len(value) < 2 || value[0] != '[' || value[len(value)-1] != ']' {
		return false
	}
	digits, wanted := 0, false // digits of this number; a comma must be followed by another number
	zero := false              // this number begins with a zero
	for _, b := range value[1 : len(value)-1] {
		switch {
		case b >= '0' && b <= '9':
			if digits < 0 || digits > 0 && zero {
				return false // a space inside, or a zero in front
			}
			if zero = b == '0' && digits == 0; digits == 10 {
				return false
			}
			digits++
		case b == ',':
			if digits == 0 {
				return false
			}
			digits, wanted = 0, true
		case rawjson.IsSpace(b):
			if digits > 0 {
				digits = -1
			}
		default:
			return false
		}
	}
	return digits != 0 || !wanted && len(bytes.TrimSpace(value[1:len(value)-1])) == 0
}
